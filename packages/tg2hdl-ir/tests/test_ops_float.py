"""Float ops against exact rational arithmetic, rounded by a few lines of Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tg2hdl_ir import DType, registry, resolve
from tg2hdl_ir.rounding import canonical_nan, round_to_format

FORMATS = (DType.FP8_E4M3, DType.FP8_E5M2, DType.FP16, DType.BF16, DType.FP32, DType.FP64)


def evaluation_of(op: str):
    """Evaluation of the op itself, whatever units are installed."""
    return resolve(registry().op(op).evaluate)


def largest(dtype: DType) -> Fraction:
    if dtype.finite:
        return Fraction(448)
    bias = 2 ** (dtype.exponent_bits - 1) - 1
    return (2 - Fraction(1, 2**dtype.fraction_bits)) * Fraction(2) ** bias


def rounded(value: Fraction, negative: bool, dtype: DType) -> float:
    """Nearest value of a format, ties to even; beyond the range infinity, or the largest number of FP8."""
    sign = -1.0 if negative else 1.0
    magnitude = abs(value)
    if magnitude == 0:
        return sign * 0.0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    smallest = 2 - 2 ** (dtype.exponent_bits - 1)
    quantum = Fraction(2) ** (max(exponent, smallest) - dtype.fraction_bits)
    steps = magnitude / quantum
    whole = int(steps)
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    result = whole * quantum
    if result > largest(dtype):
        return sign * (float(largest(dtype)) if dtype.bit_width == 8 else math.inf)
    return sign * float(result)


def bits(dtype: DType, value: float) -> int:
    """Pattern of a value that the format holds; the canonical NaN for NaN, and for infinity where there is none."""
    if math.isnan(value) or (math.isinf(value) and dtype.finite):
        return int(dtype.array_to_bits(canonical_nan(dtype)))
    return int(dtype.array_to_bits(np.array(value, np.float64).astype(dtype.numpy())))


def exact(op: str, a: float, b: float, dtype: DType) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    finite = not (math.isinf(a) or math.isinf(b))
    sign = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if op in ("add", "sub"):
        b = -b if op == "sub" else b
        if not finite:
            return math.nan if math.isinf(a) and math.isinf(b) and a != b else (a if math.isinf(a) else b)
        total = Fraction(a) + Fraction(b)
        both = math.copysign(1, a) < 0 and math.copysign(1, b) < 0
        return rounded(total, total < 0 or (total == 0 and both), dtype)
    if op == "mul":
        if not finite:
            return math.nan if 0 in (a, b) else math.copysign(math.inf, -1 if sign else 1)
        return rounded(Fraction(a) * Fraction(b), sign, dtype)
    if math.isinf(a):
        return math.nan if math.isinf(b) else math.copysign(math.inf, -1 if sign else 1)
    if math.isinf(b):
        return -0.0 if sign else 0.0
    if b == 0:
        return math.nan if a == 0 else math.copysign(math.inf, -1 if sign else 1)
    return rounded(Fraction(a) / Fraction(b), sign, dtype)


def samples(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Patterns: zeros, subnormals, extremes, infinities, NaNs and random ones."""
    top = 1 << (dtype.bit_width - 1)
    inf = ((1 << dtype.exponent_bits) - 1) << dtype.fraction_bits
    tiny = 1 << dtype.fraction_bits
    special = [0, 1, 2, tiny - 1, tiny, tiny + 1, inf - 1, inf, inf + 1, inf | (tiny >> 1), top - 1]
    special += [bits(dtype, v) for v in (1.0, 1.5, 2.0, 3.0)]
    special += [p | top for p in special]
    rng = np.random.default_rng(seed)
    plain = [bits(dtype, float(np.array(v).astype(dtype.numpy()))) for v in rng.normal(0, 3, count // 2)]
    random = rng.integers(0, 1 << dtype.bit_width, count - len(plain), dtype=np.uint64, endpoint=False)
    return np.array([*special, *plain, *random], dtype=np.uint64)


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    if dtype.bit_width == 8:
        grid = np.arange(256, dtype=np.uint64)
        return np.repeat(grid, 256)[::17], np.tile(grid, 256)[::17]
    special = samples(dtype, 0)
    a, b = np.repeat(special, special.size), np.tile(special, special.size)
    return np.concatenate([a, samples(dtype, 500, 1)]), np.concatenate([b, samples(dtype, 500, 2)])


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_arithmetic_is_correctly_rounded(op, dtype):
    a, b = (dtype.bits_to_array(p) for p in pairs(dtype))
    got = dtype.array_to_bits(evaluation_of(op)((a, b), (dtype, dtype), dtype))
    wanted = [bits(dtype, exact(op, float(x), float(y), dtype)) for x, y in zip(a, b, strict=True)]
    wrong = np.flatnonzero(got != np.array(wanted, np.uint64))
    assert not wrong.size, [(a[n], b[n], hex(got[n]), hex(wanted[n])) for n in wrong[:5]]


def root(value: float, dtype: DType) -> float:
    if math.isnan(value) or value < 0:
        return math.nan
    if value == 0 or math.isinf(value):
        return value
    # An integer root with many more bits than any format, made odd when inexact so that no tie is mistaken.
    fraction = Fraction(value)
    scaled = fraction.numerator * fraction.denominator << 400
    whole = math.isqrt(scaled)
    odd = Fraction(2 * whole + (whole * whole != scaled), fraction.denominator << 201)
    return rounded(odd, False, dtype)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_square_root_and_reciprocal_are_correctly_rounded(dtype):
    patterns = samples(dtype, 2000) if dtype.bit_width > 8 else np.arange(256, dtype=np.uint64)
    a = dtype.bits_to_array(patterns)
    for op, reference in (
        ("sqrt", lambda x: root(x, dtype)),
        ("reciprocal", lambda x: exact("div", 1.0, x, dtype)),
    ):
        got = dtype.array_to_bits(evaluation_of(op)((a,), (dtype,), dtype))
        wanted = np.array([bits(dtype, reference(float(x))) for x in a], np.uint64)
        wrong = np.flatnonzero(got != wanted)
        assert not wrong.size, (op, [(a[n], hex(got[n]), hex(wanted[n])) for n in wrong[:5]])


@pytest.mark.parametrize(
    "source", [*FORMATS, DType.INT64, DType.UINT64, DType.INT32, DType.UINT8, DType.BOOL], ids=str
)
@pytest.mark.parametrize("result", FORMATS, ids=str)
def test_casts_to_floats_round_once(source, result):
    if source == result:
        pytest.skip("a cast to the same type is a wire")
    if source.is_float:
        array = source.bits_to_array(samples(source, 800))
        wanted = [
            float(x)
            if not math.isfinite(float(x))
            else rounded(Fraction(float(x)), math.copysign(1, float(x)) < 0, result)
            for x in array
        ]
    else:
        rng = np.random.default_rng(0)
        patterns = rng.integers(0, 1 << source.bit_width, 800, dtype=np.uint64, endpoint=False)
        patterns >>= rng.integers(0, source.bit_width, 800).astype(np.uint64)
        ties = [
            (1 << n) + (1 << max(0, n - k)) + d
            for n in range(12, 63)
            for k in (4, 8, 9, 11, 12, 24)
            for d in (-1, 0, 1)
        ]
        patterns = np.concatenate(
            [patterns, np.array(ties, np.uint64) & np.uint64((1 << source.bit_width) - 1)]
        )
        array = source.bits_to_array(patterns)
        wanted = [rounded(Fraction(int(x)), int(x) < 0, result) for x in array]
    got = result.array_to_bits(evaluation_of("cast")((array,), (source,), result))
    expected = np.array([bits(result, w) for w in wanted], np.uint64)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, [(array[n], hex(got[n]), hex(expected[n])) for n in wrong[:5]]


@pytest.mark.parametrize("dtype", FORMATS[:4], ids=str)
def test_rounding_from_float64_is_not_done_twice(dtype):
    step = 2.0**-dtype.fraction_bits
    tie = 1.0 + step / 2
    just_above = np.array([np.nextafter(tie, 2), np.nextafter(tie, 0), tie, -np.nextafter(tie, 2)])
    assert round_to_format(just_above, dtype).astype(np.float64).tolist() == [1 + step, 1, 1, -1 - step]


def test_canonical_nans():
    patterns = {str(t): hex(int(t.array_to_bits(canonical_nan(t)))) for t in FORMATS}
    assert patterns == {
        "fp8_e4m3": "0x7f",
        "fp8_e5m2": "0x7e",
        "fp16": "0x7e00",
        "bf16": "0x7fc0",
        "fp32": "0x7fc00000",
        "fp64": "0x7ff8000000000000",
    }


def test_selection_passes_bits_unchanged():
    t = DType.FP32
    payload = t.bits_to_array(np.array([0xFFC12345, 0x3F800000], np.uint64))
    one = np.array([1.0, 1.0], np.float32)
    choose = evaluation_of("max")
    assert t.array_to_bits(choose((payload, one), (t, t), t)).tolist() == [0xFFC12345, 0x3F800000]
    assert t.array_to_bits(choose((one, payload), (t, t), t)).tolist() == [0x3F800000, 0x3F800000]
    negated = evaluation_of("neg")((payload,), (t,), t)
    assert t.array_to_bits(negated).tolist() == [0x7FC12345, 0xBF800000]


@pytest.mark.parametrize(
    ("a", "b", "larger", "smaller"),
    [
        (0.0, -0.0, "0.0", "0.0"),
        (-0.0, 0.0, "-0.0", "-0.0"),
        (1.0, math.nan, "1.0", "1.0"),
        (math.nan, 1.0, "nan", "nan"),
    ],
)
def test_max_and_min_keep_the_first_of_equal_or_unordered_values(a, b, larger, smaller):
    t = DType.FP32
    x, y = np.float32([a]), np.float32([b])
    assert str(evaluation_of("max")((x, y), (t, t), t)[0]) == larger
    assert str(evaluation_of("min")((x, y), (t, t), t)[0]) == smaller


@pytest.mark.parametrize("op", ["exp2", "log2", "sin"])
@pytest.mark.parametrize("dtype", FORMATS[:5], ids=str)
def test_elementary_functions_are_correctly_rounded(op, dtype):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 300
    patterns = samples(dtype, 300) if dtype.bit_width > 8 else np.arange(256, dtype=np.uint64)
    array = dtype.bits_to_array(patterns)
    got = dtype.array_to_bits(evaluation_of(op)((array,), (dtype,), dtype))
    for x, pattern in zip(array, got, strict=True):
        assert int(pattern) == bits(dtype, elementary(mpmath, op, float(x), dtype)), (op, x)


def elementary(mpmath, op: str, x: float, dtype: DType) -> float:
    if math.isnan(x):
        return math.nan
    if op == "log2":
        if x <= 0:
            return -math.inf if x == 0 else math.nan
        if math.isinf(x):
            return x
        value = mpmath.log(mpmath.mpf(x), 2)
    elif op == "exp2":
        if math.isinf(x):
            return math.inf if x > 0 else 0.0
        # FP8 saturates, except where even a double overflows.
        if x >= 1024:
            return math.inf
        value = mpmath.power(2, mpmath.mpf(max(x, -2000.0)))
    else:
        if math.isinf(x):
            return math.nan
        if x == 0:
            return x
        value = mpmath.sin(mpmath.mpf(x))
    mantissa, exponent = value.man, value.exp
    return rounded(Fraction(int(mantissa)) * Fraction(2) ** exponent, value < 0, dtype)
