"""Selection of the unit or lowering of an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.limits import system_error
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering, resolve

__all__ = ["best_lowering", "best_unit"]

Owner = Callable[[object], str]
"""Name of the distribution, or of the plugin, that registered a descriptor."""


def best_unit(
    matching: Sequence[ArithmeticUnit],
    target: str,
    names: Sequence[str],
    policy: Callable[[list[ArithmeticUnit]], ArithmeticUnit | None],
    distribution: Owner,
) -> ArithmeticUnit | None:
    """Apply the rule of `Registry.select_unit` to the units of an op and its formats, highest priority first.

    Parameters
    ----------
    matching : sequence of ArithmeticUnit
        Highest priority first.
    target : str
        FPGA family.
    names : sequence of str
        Units that the user named for the op; the first in `matching` wins.
    policy : callable
        Choice of a plugin, or None.
    distribution : Owner
        Names the distribution of a unit, for the error.

    Raises
    ------
    PluginError
        When several units have the highest priority.
    """
    for unit in matching:
        if unit.name in names:
            return unit
    candidates = [u for u in matching if u.target in ("generic", target)]
    if not candidates:
        return None
    chosen = policy(candidates)
    if chosen is not None:
        return chosen
    specific = [u for u in candidates if u.target != "generic"] or candidates
    best = [u for u in specific if u.priority == specific[0].priority]
    if len(best) > 1:
        one, two = best[:2]
        raise PluginError(
            f"units {one.name!r} of {distribution(one)} and {two.name!r} of {distribution(two)} "
            f"tie for op {one.op!r} on {_format_types(one.operands, one.result)}: target {one.target}, "
            f"priority {one.priority}",
            hint=f"choose one explicitly: {{{one.op!r}: {one.name!r}}}, on the command line --unit {one.op}={one.name}",
        )
    return best[0]


def best_lowering(
    lowerings: Sequence[OpLowering],
    operands: tuple[DType, ...],
    result: DType,
    distribution: Owner,
    plugin: Owner,
) -> OpLowering | None:
    """Apply the rule of `Registry.select_lowering` to the lowerings of an op, highest priority first.

    Parameters
    ----------
    lowerings : sequence of OpLowering
        Highest priority first.
    operands : tuple of DType
        Types.
    result : DType
        Types.
    distribution, plugin : Owner
        Names the owner of a lowering, for errors.

    Raises
    ------
    PluginError
        When two that match have the highest priority.
    """
    matching = [d for d in lowerings if _matches(d, operands, result, plugin)]
    if len(matching) > 1 and matching[0].priority == matching[1].priority:
        one, two = matching[:2]
        raise PluginError(
            f"lowerings {one.name!r} of {distribution(one)} and {two.name!r} of {distribution(two)} tie for op "
            f"{one.op!r} on {_format_types(operands, result)}: priority {one.priority}",
            hint="give one of them a higher priority",
        )
    return matching[0] if matching else None


def _matches(lowering: OpLowering, operands: tuple[DType, ...], result: DType, plugin: Owner) -> bool:
    try:
        return bool(resolve(lowering.matches)(operands, result))
    except (Exception, SystemExit) as error:
        if found := system_error(error):
            raise found from error
        name = plugin(lowering)
        raise PluginError(
            f"matches of op lowering {lowering.name!r} of plugin {name!r} raised {type(error).__name__}: {error}",
            where=f"op {lowering.op!r} on {_format_types(operands, result)}",
            hint=f"upgrade the plugin, or disable it with --no-plugin {name}",
        ) from error


def _format_types(operands: tuple[DType, ...], result: DType) -> str:
    """Printed form of the types of an op."""
    return f"({', '.join(map(str, operands))}) -> {result}"
