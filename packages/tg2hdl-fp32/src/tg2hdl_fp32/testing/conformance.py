"""A conformance suite for any unit with operands by name, ports ``result`` and ``en`` and a fixed latency."""

__all__ = ["Conformance", "check_unit"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..format import Format
from ..modes import RoundingMode
from .references import reference
from .simulation import BitSlicedSimulation
from .vectors import vectors


@dataclass(frozen=True)
class Conformance:
    """Outcome of a check.

    Attributes
    ----------
    vectors : int
        Number of results compared.
    wrong : int
        Number of results that differ.
    examples : tuple of str
        The first differences.
    """

    vectors: int
    wrong: int
    examples: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether something was compared and everything was right."""
        return self.vectors > 0 and not self.wrong


def check_unit(
    unit: Any,
    operation: str,
    format: Format,
    *,
    rounding: RoundingMode = RoundingMode.RNE,
    count: int = 2000,
    seed: int = 1,
    operands: tuple[npt.NDArray[Any], ...] | None = None,
    expected: Callable[..., int] | None = None,
    **parameters: Any,
) -> Conformance:
    """Compare a unit with the exact reference.

    Special values and random operands are streamed through back to back while `en` pauses at random; every
    result must appear after `unit.latency` enabled cycles. NaNs of the reference must match as patterns.

    Parameters
    ----------
    unit : wiring.Component
        Has inputs ``a`` (, ``b``, ``c``), or those in its attribute `operands`, and ``en``, output ``result`` and
        attribute ``latency``.
    operation : str
        Name of the operation in :func:`reference`.
    format : Format
        Format of the operands.
    rounding : RoundingMode
        Rounding that is expected; also driven on a port ``rm`` when there is one.
    count, seed : int
        Random operands, in addition to the special ones.
    operands : tuple of arrays, optional
        Operand patterns to use in their place.
    expected : callable, optional
        Reference in place of the exact one: patterns in, pattern out.
    parameters
        Of the reference, such as ``predicate``.
    """
    names = list(getattr(unit, "operands", ())) or [n for n in "abc" if n in unit.signature.members]
    columns = vectors(format, len(names), count, seed=seed) if operands is None else operands
    got = stream(unit, names, columns, rounding)
    if expected is None:
        wanted = [
            reference(operation, format, *map(int, row), rounding=rounding, **parameters)
            for row in zip(*columns, strict=True)
        ]
    else:
        wanted = [expected(*map(int, row)) for row in zip(*columns, strict=True)]
    mask = (1 << len(unit.result)) - 1
    target = np.array([value & mask for value in wanted], np.uint64)
    different = np.flatnonzero(got != target)
    examples = tuple(
        f"{operation}({', '.join(hex(int(c[k]) & (1 << 64) - 1) for c in columns)}) = {int(got[k]):#x}, "
        f"expected {int(target[k]):#x}"
        for k in different[:5]
    )
    return Conformance(len(got), len(different), examples)


def stream(
    unit: Any, names: list[str], columns: tuple[npt.NDArray[Any], ...], rounding: RoundingMode, seed: int = 7
) -> npt.NDArray[np.uint64]:
    """Send operands through a unit back to back, in lanes of a few each, and return the results in order.

    Between two operands `en` may be low for a while, differently in every lane; a result is read in the enabled
    cycle in which it is due, and must not depend on the pauses.
    """
    total = len(columns[0])
    depth = 1 if unit.latency == 0 else min(unit.latency + 3, total)
    lanes = -(-total // depth)
    padded = [np.concatenate([c, np.repeat(c[-1:], lanes * depth - total)]) for c in columns]
    grids = [c.reshape(lanes, depth) for c in padded]
    simulation = BitSlicedSimulation(unit, lanes)
    if "rm" in unit.signature.members:
        simulation.set("rm", rounding.value)
    rng = np.random.default_rng(seed)
    results = np.zeros((lanes, depth), np.uint64)
    for step in range(depth + unit.latency):
        for name, grid in zip(names, grids, strict=True):
            simulation.set(name, grid[:, min(step, depth - 1)])
        simulation.set("en", 1)
        if step >= unit.latency:
            results[:, step - unit.latency] = simulation.get("result")
        if unit.latency and rng.random() < 0.3:
            # A lane that is stalled sees other operands for a cycle; then all lanes step together.
            simulation.set("en", 0)
            for name, grid in zip(names, grids, strict=True):
                simulation.set(name, grid[:, 0] ^ grid.dtype.type(1))
            simulation.tick()
            for name, grid in zip(names, grids, strict=True):
                simulation.set(name, grid[:, min(step, depth - 1)])
            simulation.set("en", 1)
        simulation.tick()
    return results.reshape(-1)[:total]
