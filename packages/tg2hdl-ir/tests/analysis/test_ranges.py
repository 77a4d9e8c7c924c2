"""Intervals of integer values, against all values."""

import pytest

from tg2hdl_ir import DType, IRBufLoad, IRConst, IROp, RangeAnalysis

ADDRESS = IRConst(0, DType.INT32)
LIMITS = (-9, 5)


def constant(value, dtype=DType.INT16):
    return IRConst(value, dtype)


def op(name, *sources, dtype=DType.INT16):
    return IROp(name, dtype, sources)


def lt(a, b):
    return op("lt", a, b, dtype=DType.BOOL)


X = IRBufLoad(0, ADDRESS, DType.INT16)
NARROW = op("cast", X, dtype=DType.INT8)
LOW, HIGH = map(constant, LIMITS)
AT_LEAST = op("max", X, LOW)
SELECTIONS = {
    "min": (op("where", lt(X, HIGH), X, HIGH), lambda x: min(x, 5)),
    "min of equal constants": (op("where", lt(X, constant(5)), X, HIGH), lambda x: min(x, 5)),
    "max": (op("where", lt(X, LOW), LOW, X), lambda x: max(x, -9)),
    "clip": (
        op("where", lt(HIGH, AT_LEAST), HIGH, AT_LEAST),
        lambda x: min(max(x, -9), 5),
    ),
    "another branch": (op("where", lt(X, HIGH), HIGH, X), lambda x: 5 if x < 5 else x),
    "a conversion": (
        op("where", lt(HIGH, X), constant(5, DType.INT8), NARROW, dtype=DType.INT8),
        lambda x: 5 if x > 5 else (x + 128) % 256 - 128,
    ),
}


@pytest.mark.parametrize("interval", [(-40, 40), (-300, 200), (7, 9)])
@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_is_bounded_by_its_comparison(name, interval):
    value, expected = SELECTIONS[name]
    found = RangeAnalysis(buffers={0: interval}, by_comparison=True).of(value)
    results = [expected(x) for x in range(interval[0], interval[1] + 1)]
    assert found[0] <= min(results)
    assert max(results) <= found[1]
    exact = name != "a conversion" or interval[0] >= -128
    assert not exact or found == (min(results), max(results)) or interval == (7, 9)
