"""Integer and bool ops against Python's unlimited integers."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, registry, resolve

TYPES = (
    *(t for t in DType.named() if not t.is_float),
    DType.from_width(1, False),
    DType.from_width(5, True),
    DType.from_width(20, True),
    DType.from_width(20, False),
    DType.from_width(33, True),
)
INTS = tuple(t for t in TYPES if t.is_int)


def evaluation_of(op: str):
    """Evaluation of the op itself, whatever units are installed."""
    return resolve(registry().op(op).evaluate)


def samples(dtype: DType) -> list[int]:
    low, high = dtype.min_value, dtype.max_value
    values = {
        low,
        low + 1,
        high,
        high - 1,
        0,
        1,
        2,
        3,
        5,
        7,
        -1,
        -2,
        -3,
        -7,
        dtype.bit_width,
        dtype.bit_width - 1,
    }
    rng = np.random.default_rng(dtype.bit_width)
    values |= {int(v) for v in rng.integers(low, high, 12, dtype=dtype.numpy(), endpoint=True)}
    return sorted(v for v in values if low <= v <= high)


def quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


REFERENCE = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": quotient,
    "mod": lambda a, b: a - quotient(a, b) * b,
    "max": max,
    "min": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: a < b,
    "ne": lambda a, b: a != b,
    "eq": lambda a, b: a == b,
}


def run(op: str, types: tuple[DType, ...], result: DType, *operands: list[int]) -> list[int]:
    arrays = tuple(np.array(v, dtype=t.numpy()) for v, t in zip(operands, types, strict=True))
    out = evaluation_of(op)(arrays, types, result)
    assert out.dtype == result.numpy()
    return [int(v) for v in out]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", REFERENCE)
def test_binary(op, dtype):
    if dtype.is_bool and op in ("sub", "div", "mod"):
        pytest.skip("not an op on bool")
    result = DType.BOOL if op in ("lt", "ne", "eq") else dtype
    values = samples(dtype)
    a = [x for x in values for _ in values]
    b = [y for _ in values for y in values]
    expected = [REFERENCE[op](x, y) for x, y in zip(a, b, strict=True)]
    expected = [int(bool(v)) if result.is_bool else result.wrap(v) for v in expected]
    assert run(op, (dtype, dtype), result, a, b) == expected


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_neg_and_mulacc(dtype):
    values = samples(dtype)
    assert run("neg", (dtype,), dtype, values) == [dtype.wrap(-v) for v in values]
    a, b, c = values, values[::-1], values[3:] + values[:3]
    expected = [dtype.wrap(x * y + z) for x, y, z in zip(a, b, c, strict=True)]
    assert run("mulacc", (dtype,) * 3, dtype, a, b, c) == expected


@pytest.mark.parametrize(
    "amount", [DType.UINT8, DType.INT32, DType.INT64, DType.from_width(5, True)], ids=str
)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts(dtype, amount):
    values, amounts = samples(dtype), samples(amount)
    a = [x for x in values for _ in amounts]
    b = [y for _ in values for y in amounts]
    distance = [y % (1 << amount.bit_width) for y in b]
    left = [dtype.wrap(x << y) if y < dtype.bit_width else 0 for x, y in zip(a, distance, strict=True)]
    right = [x >> min(y, 64) for x, y in zip(a, distance, strict=True)]
    assert run("shl", (dtype, amount), dtype, a, b) == left
    assert run("shr", (dtype, amount), dtype, a, b) == right


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("result", TYPES, ids=str)
def test_casts_wrap(source, result):
    values = samples(source)
    expected = [int(v != 0) if result.is_bool else result.wrap(v) for v in values]
    assert run("cast", (source,), result, values) == expected


@pytest.mark.parametrize("source", [DType.FP32, DType.FP64, DType.FP16, DType.BF16, DType.FP8_E5M2], ids=str)
@pytest.mark.parametrize("result", TYPES, ids=str)
def test_float_to_integer_truncates_and_wraps(source, result):
    values = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.75,
        100.5,
        -129.0,
        2.0**31,
        -(2.0**31),
        2.0**40 + 3,
        2.0**63,
        -(2.0**64),
        1e30,
    ]
    with np.errstate(over="ignore"):
        array = np.array(values, dtype=np.float64).astype(source.numpy())
    finite = [float(v) for v in array]
    expected = [
        int(v != 0) if result.is_bool else result.wrap(int(v)) if np.isfinite(v) else 0 for v in finite
    ]
    out = evaluation_of("cast")((array,), (source,), result)
    assert [int(v) for v in out] == expected
    special = np.array([np.nan, np.inf, -np.inf]).astype(source.numpy())
    out = evaluation_of("cast")((special,), (source,), result)
    assert [int(v) for v in out] == ([1, 1, 1] if result.is_bool else [0, 0, 0])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_where_selects(dtype):
    values = samples(dtype)
    chosen = [n % 2 for n in range(len(values))]
    other = values[::-1]
    expected = [v if c else o for c, v, o in zip(chosen, values, other, strict=True)]
    assert run("where", (DType.BOOL, dtype, dtype), dtype, chosen, values, other) == expected


def test_bitcast_keeps_bits():
    one = np.array([1.0, -2.0], np.float32)
    out = evaluation_of("bitcast")((one,), (DType.FP32,), DType.UINT32)
    assert [hex(v) for v in out] == ["0x3f800000", "0xc0000000"]
    assert run("bitcast", (DType.UINT8,), DType.INT8, [0, 127, 128, 255]) == [0, 127, -128, -1]
    assert run("bitcast", (DType.BOOL,), DType.UINT8, [0, 1]) == [0, 1]
    assert run("bitcast", (DType.UINT8,), DType.BOOL, [0, 1, 2]) == [0, 1, 1]


def test_results_without_dimensions():
    five = np.array(-5, np.int32)
    for op in ("add", "mul", "div", "shr", "lt"):
        result = DType.BOOL if op == "lt" else DType.INT32
        types = (DType.INT32, DType.INT32)
        assert np.ndim(evaluation_of(op)((five, five), types, result)) == 0
