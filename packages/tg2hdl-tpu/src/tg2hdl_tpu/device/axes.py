"""Where the iterations of a nest of loops are in vectors: in lanes, and in rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import Affine, IRCounter

__all__ = ["AxisLayout", "Digit", "dense", "lay_out", "spread"]

#: Rows of an instruction, and the largest stride of its destination and first operand.
_COUNT, _STRIDE = 1023, 127


@dataclass(frozen=True)
class Digit:
    """Iterations of a loop: `extent` of them from `start` on, `step` apart; in lanes, `place` lanes apart."""

    counter: IRCounter
    extent: int
    step: int = 1
    place: int = 0
    start: int = 0


@dataclass(frozen=True)
class AxisLayout:
    """Iterations in lanes, innermost first, and in rows, outermost first.

    Parameters
    ----------
    lanes, rows : tuple of Digit
    width : int
        Lanes of a row.
    last : int
        Lanes that are iterations in the last row of the loop `cut`, or of all; in its other rows all lanes are.
    cut : IRCounter or None
        A loop that fills no whole number of rows.
    """

    lanes: tuple[Digit, ...]
    rows: tuple[Digit, ...]
    width: int
    last: int
    cut: IRCounter | None = None

    @property
    def cut_row(self) -> int | None:
        """Number of the row digit of the loop that fills no whole number of rows."""
        return next((n for n, d in enumerate(self.rows) if d.counter is self.cut), None)

    @property
    def space(self) -> tuple[int, ...]:
        """Extents of the rows."""
        return tuple(d.extent for d in self.rows)

    def pattern(self, form: Affine) -> NDArray[np.int64]:
        """Offset of each lane in an affine value."""
        lane = np.arange(self.width)
        total = np.zeros(self.width, np.int64)
        for d in self.lanes:
            total += form.coefficient(d.counter) * d.step * (lane // d.place % d.extent)
        return total

    def first(self, form: Affine) -> int:
        """An affine value in the first row, without its lanes."""
        return form.const + sum(form.coefficient(d.counter) * d.start for d in self.rows)

    def steps(self, form: Affine) -> tuple[int, ...]:
        """Offset of an affine value for each step of a row digit."""
        return tuple(form.coefficient(d.counter) * d.step if d.extent > 1 else 0 for d in self.rows)


def lay_out(
    order: Sequence[IRCounter],
    extents: Mapping[IRCounter, int],
    width: int,
    before: Collection[IRCounter],
    cuts: Collection[IRCounter],
) -> AxisLayout | None:
    """Put loops into lanes, innermost first, and the rest into rows; None where a row would be split.

    Parameters
    ----------
    order : sequence of IRCounter
        Innermost first.
    extents : mapping of IRCounter to int
    width : int
        Lanes.
    before : collection of IRCounter
        Loops whose rows come before those of others.
    cuts : collection of IRCounter
        Loops that may not fill a whole number of rows, so that some lanes of some rows are not iterations.
    """
    wide = [c for c in order if extents[c] > 1]
    lanes: list[Digit] = []
    rows: list[Digit] = []
    place, last = 1, 0
    cut: IRCounter | None = None
    for n, c in enumerate(wide):
        extent, room = extents[c], width // place
        if room > 1 and room % extent == 0:
            lanes.append(Digit(c, extent, 1, place))
            place *= extent
            continue
        if room > 1:
            whole = n + 1 == len(wide)
            if extent % room and not whole and not (place == 1 and c in cuts):
                return None
            if extent % room:
                cut = c
            lanes.append(Digit(c, min(room, extent) if whole else room, 1, place))
            last = extent % room * place
            place = width
        rows.append(Digit(c, -(-extent // room), room))
    if not rows:
        last = place
    rows = [d for d in reversed(rows) if d.extent > 1]
    ordered = [d for d in rows if d.counter in before] + [d for d in rows if d.counter not in before]
    return AxisLayout(tuple(lanes), tuple(ordered), width, last or width, cut)


def dense(space: Sequence[int], varies: Sequence[bool]) -> tuple[int, ...]:
    """Strides of neighbouring rows, one for each place in the dimensions in which a value varies.

    Parameters
    ----------
    space : sequence of int
        Extents, outermost first.
    varies : sequence of bool
        For each dimension, whether the value does; stride 0 elsewhere.
    """
    strides, total = [], 1
    for extent, here in zip(reversed(space), reversed(varies), strict=True):
        strides.append(total if here else 0)
        total *= extent if here else 1
    return tuple(reversed(strides))


def spread(
    space: Sequence[int], *operands: Sequence[int], narrow: int = 2
) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    """Vectors over a space: first rows of the operands, counted from their own, number of rows, and strides.

    Parameters
    ----------
    space : sequence of int
        Extents, outermost first.
    *operands : sequence of int
        Strides in rows, one for each dimension.
    narrow : int
        Operands, the first ones, whose strides have 8 bits.
    """
    dims: list[tuple[int, tuple[int, ...]]] = []
    for extent, strides in zip(space, zip(*operands, strict=True), strict=True):
        if extent == 1:
            continue
        if dims and all(s == extent * t for s, t in zip(dims[-1][1], strides, strict=True)):
            dims[-1] = dims[-1][0] * extent, strides
        else:
            dims.append((extent, strides))
    fits = [n for n, (_, s) in enumerate(dims) if all(-_STRIDE <= v <= _STRIDE for v in s[:narrow])]
    inner = max(fits, key=lambda n: dims[n][0], default=None)
    rest = [d for n, d in enumerate(dims) if n != inner]
    none = tuple(0 for _ in operands)
    count, steps = (1, none) if inner is None else dims[inner]
    for place in combinations(*(range(extent) for extent, _ in rest)):
        base = [sum(p * s[k] for p, (_, s) in zip(place, rest, strict=True)) for k in range(len(operands))]
        for start in range(0, count, _COUNT):
            part = min(count - start, _COUNT)
            yield (
                tuple(b + start * s for b, s in zip(base, steps, strict=True)),
                part,
                steps if part > 1 else none,
            )


def size(space: Sequence[int]) -> int:
    """Rows of a space."""
    return prod(space)
