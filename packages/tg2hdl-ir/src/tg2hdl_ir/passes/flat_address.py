"""Address of an element by its counters, in C order."""

from __future__ import annotations

from collections.abc import Iterable

from tg2hdl_ir.nodes import IRCounter, IRValue
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.tree import const_int

__all__ = ["flat_address"]


def flat_address(counters: Iterable[IRCounter]) -> IRValue:
    """Number of an iteration of nested loops of known bounds, outermost first."""
    folder = Folder()
    place: IRValue = const_int(0)
    for counter in counters:
        assert isinstance(counter.bound, int), "the bounds are known"
        scaled = folder.op("mul", place.dtype, place, const_int(counter.bound))
        place = folder.op("add", place.dtype, scaled, folder.op("cast", place.dtype, counter))
    return place
