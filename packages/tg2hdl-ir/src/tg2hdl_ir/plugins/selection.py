"""Choice among units or lowerings that fit an op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering, resolve

if TYPE_CHECKING:
    from tg2hdl_ir.plugins.registry import Registry

__all__ = ["best_lowering", "best_unit"]


def best_unit(
    registry: Registry,
    op: str,
    operands: tuple[DType, ...],
    result: DType,
    target: str,
    names: tuple[str, ...],
) -> ArithmeticUnit | None:
    """Apply the rule of `Registry.select_unit`."""
    candidates = registry.units(op, operands, result)
    if names:
        known = {u.name for u in registry.units(op)}
        for name in names:
            if name not in known:
                raise PluginError(
                    f"no unit for op {op!r} is named {name!r}",
                    notes=registry.notes(),
                    hint="known: " + (", ".join(sorted(known)) or "none"),
                )
        for unit in candidates:
            if unit.name in names:
                return unit
    candidates = tuple(u for u in candidates if u.target in ("generic", target))
    if not candidates:
        return None
    chosen = registry.policy(op, operands, result, list(candidates))
    if chosen is not None:
        if chosen not in candidates:
            raise PluginError(
                f"the policy hook tg2hdl_select_unit chose {chosen!r} for op {op!r}, which is not a candidate",
                hint="return one of the candidates, or None",
            )
        return chosen
    specific = tuple(u for u in candidates if u.target != "generic") or candidates
    best = [u for u in specific if u.priority == specific[0].priority]
    if len(best) > 1:
        one, two = best[:2]
        raise PluginError(
            f"units {one.name!r} of {registry.distribution(one)} and {two.name!r} of {registry.distribution(two)} "
            f"tie for op {op!r} on {_formats(operands, result)}: target {one.target}, priority {one.priority}",
            hint=f"choose one explicitly: {{{op!r}: {one.name!r}}}",
        )
    return best[0]


def best_lowering(
    registry: Registry, op: str, operands: tuple[DType, ...], result: DType
) -> OpLowering | None:
    """Apply the rule of `Registry.select_lowering`."""
    matching = [d for d in registry.lowerings(op) if resolve(d.matches)(operands, result)]
    if len(matching) > 1 and matching[0].priority == matching[1].priority:
        one, two = matching[:2]
        raise PluginError(
            f"lowerings {one.name!r} of {registry.distribution(one)} and {two.name!r} of "
            f"{registry.distribution(two)} tie for op {op!r} on {_formats(operands, result)}: priority {one.priority}",
            hint="give one of them a higher priority",
        )
    return matching[0] if matching else None


def _formats(operands: tuple[DType, ...], result: DType) -> str:
    return f"({', '.join(map(str, operands))}) -> {result}"
