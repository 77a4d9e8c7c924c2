"""Functions of any format: errors against double precision and mpmath, special values, pipelines."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tg2hdl_fp32 import (
    BF16,
    FP8_E4M3,
    FP16,
    FP32,
    FP64,
    Atan,
    Atan2,
    Erf,
    Exp,
    Exp2,
    Exp10,
    Format,
    Hypot,
    Ln,
    Log2,
    Log10,
    Pow,
    Sigmoid,
    SinCos,
    Tanh,
)
from tg2hdl_fp32.binade_function import SHAPES, binade_table
from tg2hdl_fp32.functions import PRECISION
from tg2hdl_fp32.models import MODELS
from tg2hdl_fp32.power import power_table
from tg2hdl_fp32.testing import BitSlicedSimulation, special_patterns
from tg2hdl_fp32.testing.conformance import stream
from tg2hdl_fp32.testing.elementary import IN_DOUBLE_PRECISION, by_mpmath

ONE = {"exp": Exp, "exp2": Exp2, "exp10": Exp10, "ln": Ln, "log2": Log2, "log10": Log10}
ONE |= {"tanh": Tanh, "sigmoid": Sigmoid, "erf": Erf, "atan": Atan}
TWO = {"hypot": Hypot, "atan2": Atan2, "pow": Pow}
#: The largest error of the sweeps (benchmarks/fp32/functions.md) is below this.
MOST = 0.65

EXACT = by_mpmath()
OTHER = [
    (name, fmt)
    for name in ("exp", "exp2", "ln", "log2", "tanh", "erf", "atan", "hypot", "pow")
    for fmt in (FP64, Format(3, 20), Format(2, 6), Format(4, 3))
    # The tables of these take seconds; the sweep has them, and the other functions.
    if not (fmt is FP64 and name in ("pow", "erf", "hypot"))
]


def evaluate(core, *columns):
    simulation = BitSlicedSimulation(core, len(columns[0]))
    for name, column in zip(core.operands, columns, strict=True):
        simulation.set(name, column)
    return simulation.get("result")


def check(name, fmt, core, columns):
    """Results are within `MOST` of the function, or the same infinity, NaN or zero."""
    with np.errstate(all="ignore"):
        exact = IN_DOUBLE_PRECISION[name](*(fmt.to_numpy(column).astype(np.float64) for column in columns))
        got = fmt.to_numpy(evaluate(core, *columns)).astype(np.float64)
        rounded = fmt.to_numpy(fmt.from_numpy(exact)).astype(np.float64)
        number = np.isfinite(exact) & np.isfinite(rounded) & np.isfinite(got)
        exponent = np.clip(np.frexp(exact)[1] - 1, fmt.emin, fmt.emax)
        error = np.abs(got - exact) / 2.0 ** (exponent - fmt.fraction)
    assert number.sum() > len(exact) // 20
    # The quadratic tables of exp2 and log2 are coarser; test_elementary.py has more of these.
    assert error[number].max() < (1 if name in MODELS and fmt in (FP32, FP16, BF16) else MOST)
    np.testing.assert_array_equal(got[~number], rounded[~number])
    signed = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(exact)[signed])


@pytest.mark.parametrize("fmt", [FP8_E4M3, FP16], ids=str)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_narrow_formats(name, fmt):
    columns = (np.arange(0, 1 << fmt.width, 1 if fmt.width == 8 else 5, dtype=np.uint64),)
    check(name, fmt, ONE[name](fmt, profile="comb"), columns)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_fp32(name):
    fmt = FP32
    rng = np.random.default_rng(4)
    random = rng.integers(0, 1 << fmt.width, 2000, dtype=np.uint64)
    near = fmt.from_numpy(rng.normal(size=2000) * 4).astype(np.uint64)
    special = np.array(special_patterns(fmt), np.uint64)
    check(name, fmt, ONE[name](fmt, profile="comb"), (np.concatenate([random, near, special]),))


@pytest.mark.parametrize("fmt", [FP16, FP32], ids=str)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands(name, fmt):
    rng = np.random.default_rng(6)
    special = np.meshgrid(*[np.array(special_patterns(fmt), np.uint64)] * 2)
    columns = []
    for k in range(2):
        random = rng.integers(0, 1 << fmt.width, 400, dtype=np.uint64)
        near = fmt.from_numpy(np.exp(rng.normal(size=400)) * rng.choice([1, -1], 400)).astype(np.uint64)
        whole = fmt.from_numpy(rng.integers(-9, 10, 200).astype(float)).astype(np.uint64)
        columns.append(np.concatenate([special[k].ravel(), random, near, whole]))
    if name in ("hypot", "pow"):
        # An infinity and pow(x, 0) = 1 win over a quiet NaN only; numpy's signaling NaNs differ by platform.
        quiet, largest = np.uint64(1 << fmt.fraction - 1), np.uint64(fmt.infinity)
        finite = np.uint64(fmt.sign_mask - 1)
        columns = [np.where((column & finite) > largest, column | quiet, column) for column in columns]
    check(name, fmt, TWO[name](fmt, profile="comb"), columns)


@pytest.mark.parametrize(("name", "fmt"), OTHER, ids=str)
def test_other_formats_against_mpmath(name, fmt):
    core = (ONE | TWO)[name](fmt, profile="comb")
    rng = np.random.default_rng(8)
    columns = []
    for _ in core.operands:
        field = np.clip(fmt.bias + rng.integers(-5, 4, 50), 0, fmt.max_exponent_field).astype(np.uint64)
        fraction = rng.integers(0, 1 << fmt.fraction, 50, dtype=np.uint64)
        sign = rng.integers(0, 1 if name in ("ln", "log2", "pow") else 2, 50, dtype=np.uint64)
        columns.append(fraction | field << np.uint64(fmt.fraction) | sign << np.uint64(fmt.width - 1))
    numbers = 0
    for *bits, result in zip(*columns, evaluate(core, *columns), strict=True):
        operands = [fmt.to_fraction(int(b)) for b in bits]
        if name in ("ln", "log2", "pow") and not operands[0]:
            continue
        with mpmath.workdps(60):
            exact = EXACT[name](*(mpmath.mpf(x.numerator) / x.denominator for x in operands))
            scaled = int(mpmath.nint(mpmath.ldexp(exact, 180)))
        exact = Fraction(scaled, 1 << 180)
        if fmt.is_inf(int(result)):
            assert abs(exact) > fmt.to_fraction(fmt.max_finite)
            continue
        exponent = fmt.emin
        while abs(exact) >= Fraction(2) ** (exponent + 1):
            exponent += 1
        assert abs(fmt.to_fraction(int(result)) - exact) < MOST * Fraction(2) ** (exponent - fmt.fraction)
        numbers += 1
    assert numbers > 15


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_pipelines_equal_the_build_without_registers(name):
    core = (ONE | TWO)[name]
    fmt = Format(5, 9)
    rng = np.random.default_rng(3)
    columns = [
        rng.integers(0, 1 << fmt.width, 60, dtype=np.uint64) for _ in core(fmt, profile="comb").operands
    ]
    expected = evaluate(core(fmt, profile="comb"), *columns)
    builds = [{"stages": 3}, {"profile": "balanced", "target": "ecp5_model"}]
    for parameters in builds[: 1 if name in (*TWO, "sigmoid") else 2]:
        pipelined = core(fmt, **parameters)
        assert pipelined.ii == 1
        got = stream(pipelined, list(pipelined.operands), tuple(columns), pipelined.rounding)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_flush_to_zero(name):
    """Subnormal operands count as zeros, and no result is subnormal."""
    core = (ONE | TWO)[name]
    fmt = Format(4, 7)
    rng = np.random.default_rng(2)
    arity = len(core(fmt, profile="comb").operands)
    columns = [rng.integers(0, 1 << fmt.width, 2000, dtype=np.uint64) for _ in range(arity)]
    got = evaluate(core(fmt, profile="comb", subnormals=False), *columns)
    normal = np.uint64(fmt.infinity)
    flushed = [np.where(column & normal, column, column & np.uint64(fmt.sign_mask)) for column in columns]
    expected = evaluate(core(fmt, profile="comb"), *flushed)
    zeroed = np.where(expected & normal, expected, expected & np.uint64(fmt.sign_mask))
    # A result that rounds to the smallest normal number may be flushed before it is rounded.
    least = (expected & np.uint64(fmt.sign_mask - 1)) == fmt.min_normal
    np.testing.assert_array_equal(got[~least], zeroed[~least])


def test_sine_and_cosine_together():
    bits = np.arange(0, 1 << 16, 211, dtype=np.uint64)
    core = SinCos(FP16, profile="balanced")
    simulation = BitSlicedSimulation(core, len(bits))
    simulation.set("a", bits)
    simulation.tick(core.latency)
    for name in ("sin", "cos"):
        expected = MODELS[name](bits.astype(np.uint16), FP16)
        np.testing.assert_array_equal(simulation.get(name), expected.astype(np.uint64))


def test_the_bound_of_a_power_table_holds():
    table = power_table(24)
    for index in range(0, len(table.rows), 7):
        for u in range(0, 1 << table.delta, (1 << table.delta) // 61):
            x = Fraction(index) / len(table.rows) + Fraction(u, len(table.rows) << table.delta)
            with mpmath.workdps(40):
                exact = mpmath.power(2, mpmath.mpf(x.numerator) / x.denominator) * 2**table.fraction
            assert abs(table.evaluate(index, u) - exact) <= table.error
    # An eighth of an ULP of the result.
    assert table.error <= 2 ** (table.fraction - 26) + 2


@pytest.mark.parametrize("name", SHAPES)
def test_the_bound_of_a_binade_table_holds(name):
    made = binade_table(name, 24, 24, -149, 127)
    table = made.table
    function = {"tanh": mpmath.tanh, "erf": mpmath.erf, "atan": mpmath.atan}[name]
    for binade in range(1, made.count - 1):
        exponent = made.first + binade - 1
        for segment in range(0, 1 << made.segments, 5):
            for u in range(0, 1 << table.delta, (1 << table.delta) // 5):
                x = (
                    1 + Fraction(segment, 1 << made.segments) + Fraction(u, 1 << made.segments + table.delta)
                ) * Fraction(2) ** exponent
                with mpmath.workdps(40):
                    exact = function(mpmath.mpf(x.numerator) / x.denominator)
                    exact = mpmath.ldexp(exact, table.fraction - made.exponents[binade])
                assert abs(table.evaluate(binade << made.segments | segment, u) - exact) <= table.error


def test_series_agree_with_mpmath():
    """Taylor coefficients of erf at 1.5, whose value and slope have formulas of their own."""
    one = 1 << PRECISION
    series = SHAPES["erf"].series(3 * one // 2, one >> 5, 12)
    with mpmath.workdps(40):
        exact = mpmath.taylor(mpmath.erf, mpmath.mpf(3) / 2, 11)
        for k, (term, coefficient) in enumerate(zip(series, exact, strict=True)):
            assert abs(mpmath.mpf(term) / one - coefficient / mpmath.mpf(32) ** k) < mpmath.mpf(2) ** -80
