"""Which loops of a kernel run as lanes: independent iterations, which store to places of their own."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRCounter, IRItem, IRRegLoad, IRRegStore, LoopIR

__all__ = ["Grid", "parallel_nest"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Loops whose iterations are threads, outermost first, in the order in which the threads are numbered.

    Parameters
    ----------
    counters : tuple of IRCounter
    extents : tuple of int
    items : tuple of IRItem
        What each thread executes.
    """

    counters: tuple[IRCounter, ...]
    extents: tuple[int, ...]
    items: tuple[IRItem, ...]

    @property
    def threads(self) -> int:
        """Number of them."""
        return prod(self.extents)


def parallel_nest(
    loop: LoopIR, bounds: dict[int, int], outside: set[int], affine: AffineAnalysis
) -> Grid | None:
    """The outermost loops of a nest as threads, or None where their iterations may depend on each other.

    Parameters
    ----------
    loop : LoopIR
    bounds : dict of int to int
        Trip count of each loop by axis.
    outside : set of int
        Registers that are read outside of this loop.
    affine : AffineAnalysis
    """
    counters: list[IRCounter] = []
    inner = loop
    while inner.axis_type == "loop" and inner.counter is not None:
        counters.append(inner.counter)
        if len(inner.items) != 1 or not isinstance(inner.items[0], LoopIR):
            break
        if inner.items[0].axis_type != "loop":
            break
        inner = inner.items[0]
    while counters:
        grid = _grid(loop, counters, bounds, outside, affine)
        if grid is not None:
            return grid
        counters.pop()
    return None


def _grid(
    loop: LoopIR,
    counters: list[IRCounter],
    bounds: dict[int, int],
    outside: set[int],
    affine: AffineAnalysis,
) -> Grid | None:
    inner = loop
    for _ in counters[1:]:
        assert isinstance(inner.items[0], LoopIR)
        inner = inner.items[0]
    statements = list(loop.statements())
    stores = [s for s in statements if isinstance(s, IRBufStore)]
    if not stores or not _own_registers(inner, outside):
        return None
    forms = [affine.of(s.addr) for s in stores]
    known = [f for f in forms if f is not None]
    if len(known) < len(forms):
        return None
    wide = [c for c in counters if bounds[c.axis] != 1]
    order = sorted(wide, key=lambda c: -abs(known[0].coefficient(c)))
    if not all(_distinct(f, order, bounds) for f in known):
        return None
    written = {s.buf_idx: f for s, f in zip(stores, known, strict=True)}
    if len(written) < len(stores) and len({(s.buf_idx, f) for s, f in zip(stores, known, strict=True)}) > len(
        written
    ):
        return None  # two stores to one buffer at different places
    for statement in statements:
        if not isinstance(statement, IRBufLoad):
            continue
        if affine.of(statement.addr) != written.get(statement.buf_idx, affine.of(statement.addr)):
            return None
    return Grid(tuple(order), tuple(bounds[c.axis] for c in order), inner.items)


def _distinct(form: Affine, order: list[IRCounter], bounds: dict[int, int]) -> bool:
    """Whether no two threads, whatever the inner loops do, store to one place."""
    reach = sum(
        abs(k) * (bounds[s.axis] - 1)
        for s, k in form.terms
        if isinstance(s, IRCounter) and s not in order and s.axis in bounds
    )
    for counter in reversed(order):
        step = abs(form.coefficient(counter))
        if step <= reach:
            return False
        reach += step * (bounds[counter.axis] - 1)
    return True


def _own_registers(inner: LoopIR, outside: set[int]) -> bool:
    """Whether each register that a thread writes is written before it is read, and not read elsewhere."""
    written: set[int] = set()
    stored = {s.reg for s in inner.statements() if isinstance(s, IRRegStore)}
    for statement in inner.statements():
        if isinstance(statement, IRRegStore) and statement.gate is None:
            written.add(statement.reg)
        elif isinstance(statement, IRRegLoad) and statement.reg in stored - written:
            return False
    return not stored & outside
