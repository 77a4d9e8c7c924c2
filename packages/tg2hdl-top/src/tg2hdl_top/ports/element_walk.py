"""Word and lane of the elements of a buffer, one after the other in the order of the model."""

from __future__ import annotations

import math

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import Layout

__all__ = ["ElementWalk", "merged"]


def merged(layout: Layout) -> Layout:
    """The same places of elements with as few dimensions as possible."""
    found: list[tuple[int, int]] = []
    for size, split in zip(layout.dims, layout.split, strict=True):
        if size == split == 1:
            continue
        found.append((size, split))
        while len(found) > 1 and (both := _joined(*found[-2:])):
            found[-2:] = [both]
    found = found or [(1, 1)]
    return Layout(tuple(d for d, _ in found), tuple(s for _, s in found))


def _joined(outer: tuple[int, int], inner: tuple[int, int]) -> tuple[int, int] | None:
    """One dimension in place of two neighbours, where the places are the same."""
    (many, lanes), (size, split) = outer, inner
    if split == size or (lanes == 1 and size % split == 0):
        return many * size, lanes * split
    return None


class ElementWalk(wiring.Component):
    """Counts through the elements of a layout with adders only.

    Parameters
    ----------
    layout : Layout

    Members
    -------
    restart : In(1)
        Go to the first element; wins over `step`.
    step : In(1)
        Go to the next element; after the last one comes the first.
    word, lane : Out
        Place of the element.
    last : Out(1)
        Whether it is the last one.
    wraps : Out(1)
        Whether the next element begins a row of lanes: that of another word, or the first one.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = merged(layout)
        self._lanes = layout.lanes
        super().__init__(
            {
                "restart": In(1),
                "step": In(1),
                "word": Out(range(max(2, layout.words))),
                "lane": Out(range(max(2, self._lanes))),
                "last": Out(1),
                "wraps": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        layout, word, lane, ends = self._layout, [], [], []
        carry = self.step
        for n in reversed(range(len(layout.dims))):
            size, split, rows = layout.dims[n], layout.split[n], layout.rows[n]
            row_stride = math.prod(layout.rows[n + 1 :])
            lane_stride = math.prod(layout.split[n + 1 :])
            row = Signal(range(max(2, rows * row_stride)), name=f"row{n}")
            sub = Signal(range(max(2, split * lane_stride)), name=f"sub{n}")
            at_end, at_split = Signal(name=f"end{n}"), Signal(name=f"split{n}")
            m.d.comb += [
                at_split.eq(sub == (split - 1) * lane_stride),
                at_end.eq((row == (rows - 1) * row_stride) & (sub == (size - 1) % split * lane_stride)),
            ]
            if n == len(layout.dims) - 1:
                m.d.comb += self.wraps.eq(at_end | at_split)
            with m.If(self.restart | (carry & at_end)):
                m.d.sync += [row.eq(0), sub.eq(0)]
            with m.Elif(carry):
                m.d.sync += sub.eq(Mux(at_split, 0, sub + lane_stride))
                with m.If(at_split):
                    m.d.sync += row.eq(row + row_stride)
            word.append(row)
            lane.append(sub)
            ends.append(at_end)
            carry = carry & at_end
        m.d.comb += [self.word.eq(sum(word)), self.lane.eq(sum(lane))]
        m.d.comb += self.last.eq(Cat(*ends).all())
        return m
