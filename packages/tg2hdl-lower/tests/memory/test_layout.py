"""Layouts against a walk over all elements, and words of lanes of any width."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tg2hdl_ir import Affine, DType, IRCounter
from tg2hdl_lower import Layout
from tg2hdl_lower.memory.layout import joined_lanes

LAYOUTS = [
    Layout.linear(7),
    Layout.linear(7, 3),
    Layout((3, 5), (1, 2)),
    Layout((3, 5), (2, 5)),
    Layout((2, 3, 7), (1, 2, 4)),
]


@pytest.mark.parametrize("width", [1, 3, 7, 8, 9, 16, 24, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
def test_joined_lanes(width: int, lanes: int):
    rng = np.random.default_rng(width * lanes)
    packed = rng.integers(0, 2**64, (37, lanes), dtype=np.uint64) >> np.uint64(64 - width)
    expected = [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]
    assert joined_lanes(packed, width) == expected


def places(layout):
    """Word and lane by element, from the definition of a layout: neighbours along each dimension share a word."""
    found = {}
    for element, position in enumerate(product(*map(range, layout.dims))):
        word = tuple(p // s for p, s in zip(position, layout.split, strict=True))
        lane = tuple(p % s for p, s in zip(position, layout.split, strict=True))
        words = list(product(*(range(-(-d // s)) for d, s in zip(layout.dims, layout.split, strict=True))))
        found[element] = words.index(word), list(product(*map(range, layout.split))).index(lane)
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_place_pack_and_unpack(layout):
    expected = places(layout)
    word, lane = layout.place(np.arange(layout.depth))
    assert dict(enumerate(zip(word.tolist(), lane.tolist(), strict=True))) == expected
    values = np.arange(1, layout.depth + 1, dtype=np.int8) * -3
    packed = layout.pack(values, DType.INT8)
    assert packed.shape == (layout.words, layout.lanes)
    for element, (row, column) in expected.items():
        assert packed[row, column] == int(values[element]) & 0xFF
    assert np.count_nonzero(packed) == layout.depth, "unused lanes are zero"
    np.testing.assert_array_equal(layout.unpack(packed, DType.INT8), values)


@pytest.mark.parametrize(
    ("layout", "merged", "divided"),
    [
        (Layout((4, 32, 2), (4, 2, 2)), Layout((4, 64), (4, 4)), Layout((4, 8, 8), (4, 1, 4))),
        (Layout((3, 8), (1, 4)), Layout((24,), (4,)), Layout((3, 8), (1, 4))),
        (Layout((3, 9), (1, 4)), Layout((3, 9), (1, 4)), Layout((3, 9), (1, 4))),
        (Layout.linear(64, 16), Layout.linear(64, 16), Layout.linear(64, 16)),
        (Layout.linear(64), Layout.linear(64), Layout((8, 8), (1, 1))),
    ],
)
def test_other_dimensions_of_equal_words_and_lanes(layout, merged, divided):
    assert (layout.merged(), layout.divided({8, 1, 64})) == (merged, divided)
    assert places(layout) == places(merged) == places(divided)
    assert divided.merged() == merged


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("coefficients", [(1, 0), (5, 1), (10, 2), (7, 1), (21, 7), (4, 4)])
@pytest.mark.parametrize("const", [0, 1, 6])
def test_affine_addresses(layout, coefficients, const):
    counters = [IRCounter(bound, 0, axis) for axis, bound in enumerate((2, 3))]
    form = Affine(const, tuple((i, c) for i, c in zip(counters, coefficients, strict=True) if c))

    def value(found, step):
        return found.const + sum(c * step[s.axis] for s, c in found.terms)

    def interval(found):
        values = [value(found, step) for step in product(range(2), range(3))]
        return min(values), max(values)

    if interval(form)[1] >= layout.depth:
        return
    digits = layout.digits(form, interval)
    if digits is None:
        return
    expected = places(layout)
    fixed, row = layout.fixed_lane(digits), layout.row_element(digits)
    for step in product(range(2), range(3)):
        word, lane = expected[value(form, step)]
        position = tuple(value(digit, step) for digit in digits)
        assert np.ravel_multi_index(position, layout.dims) == value(form, step)
        if fixed is not None:
            assert (value(fixed[0], step), fixed[1]) == (word, lane)
        if row is not None:
            digits_of = [(row.row.digit, row.const), *((other, 0) for other in row.row.others)]
            at = [(each, *divmod(value(each.form, step) + const, each.split)) for each, const in digits_of]
            assert value(row.row.word, step) + sum(ahead * each.stride for each, ahead, _ in at) == word
            assert row.lane + sum(offset * each.weight for each, _, offset in at) == lane
