"""Which loops of a kernel run as lanes: independent iterations, which store to places of their own."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    LoopIR,
)

__all__ = ["Grid", "parallel_nest"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Loops whose iterations are threads, outermost first, in the order in which the threads are numbered.

    Parameters
    ----------
    counters : tuple of IRCounter
    extents : tuple of int
    items : tuple of IRItem
        Program of each thread.
    inner : int
        Extent of the last counter where that in `extents` was rounded up to whole rows; else 0.
    """

    counters: tuple[IRCounter, ...]
    extents: tuple[int, ...]
    items: tuple[IRItem, ...]
    inner: int = 0

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
    bodies: list[tuple[IRItem, ...]] = []
    inner: LoopIR = loop
    above: tuple[IRItem, ...] = ()
    while inner.axis_type == "loop" and inner.counter is not None:
        counters.append(inner.counter)
        bodies.append(above + inner.items)
        *before, last = inner.items or (None,)
        # Loads before the inner loop are the same in each of its iterations.
        if not isinstance(last, LoopIR) or not all(isinstance(item, IRBufLoad) for item in before):
            break
        above += tuple(item for item in before if item is not None)
        inner = last
    while counters:
        grid = _grid(loop, counters, bodies[-1], bounds, outside, affine)
        if grid is not None:
            return grid
        counters.pop()
        bodies.pop()
    return None


def _grid(
    loop: LoopIR,
    counters: list[IRCounter],
    items: tuple[IRItem, ...],
    bounds: dict[int, int],
    outside: set[int],
    affine: AffineAnalysis,
) -> Grid | None:
    statements = list(loop.statements())
    stores = [s for s in statements if isinstance(s, IRBufStore)]
    if not stores or not _own_registers(items, outside):
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
    return Grid(tuple(order), tuple(bounds[c.axis] for c in order), items)


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


def _own_registers(items: tuple[IRItem, ...], outside: set[int]) -> bool:
    """Whether each register that a thread writes is written before it is read, and not read elsewhere."""
    statements = list(LoopIR.from_items(items).statements())
    written: set[int] = set()
    stored = {s.reg for s in statements if isinstance(s, IRRegStore)}
    for statement in statements:
        if isinstance(statement, IRRegStore) and statement.gate is None:
            written.add(statement.reg)
        elif isinstance(statement, IRRegLoad) and statement.reg in stored - written:
            return False
    return not stored & outside
