"""Sine and cosine of radians in formats without tables of quadratics."""

import mpmath
import numpy as np
import pytest

from tg2hdl_fp32 import BF16, FP8_E4M3, FP16, FP32, FP64, Cos, Format, Sin, SinCos
from tg2hdl_fp32.sin_any_format import most_cancelled
from tg2hdl_fp32.testing import BitSlicedSimulation, special_patterns

CORES = {"sin": Sin, "cos": Cos}
#: Of all doubles the nearest to a multiple of pi/2 (Muller, "Elementary Functions", 2016).
HARDEST = 6381956970095103 * 2.0**797


def evaluate(core, patterns):
    simulation = BitSlicedSimulation(core, len(patterns))
    simulation.set("a", patterns)
    return simulation.get("result")


def worst_error(fmt, got, exact):
    """In ULP, of numbers as doubles."""
    exponent = np.clip(np.frexp(exact)[1] - 1, fmt.emin, None)
    return np.max(np.abs(got - exact) / 2.0 ** (exponent - fmt.fraction))


@pytest.mark.parametrize("fmt", [FP8_E4M3, Format(2, 6), Format(6, 5)], ids=str)
@pytest.mark.parametrize("name", CORES)
def test_all_operands_of_a_narrow_format(name, fmt):
    patterns = np.arange(1 << fmt.width, dtype=np.uint64)
    operands = np.array([fmt.decode(int(bits)) for bits in patterns])
    got = np.array([fmt.decode(int(bits)) for bits in evaluate(CORES[name](fmt, profile="comb"), patterns)])
    finite = np.isfinite(operands)
    assert np.isnan(got[~finite]).all()
    exact = getattr(np, name)(operands[finite])
    assert worst_error(fmt, got[finite], exact) < 0.55
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(exact))
    assert set(got[operands == 0]) == {float(name == "cos")}


@pytest.mark.parametrize("name", CORES)
def test_doubles_of_every_size(name):
    rng = np.random.default_rng(2)
    random = rng.integers(0, 1 << 63, 100, dtype=np.uint64)
    quarters = np.arange(1, 20) * np.pi / 2
    others = np.array([HARDEST, 1e22, 2.0**-26, -(2.0**-27), 2.0**-1070, *quarters]).view(np.uint64)
    special = np.array(special_patterns(FP64), np.uint64)
    patterns = np.concatenate([random, others, special])
    patterns = patterns[np.isfinite(patterns.view(np.float64))]
    got = evaluate(CORES[name](FP64, profile="comb"), patterns)
    with mpmath.workprec(1300):
        for operand, result in zip(patterns.view(np.float64), got.view(np.float64), strict=True):
            exact = getattr(mpmath, name)(mpmath.mpf(float(operand)))
            if exact == 0:
                assert (result, np.signbit(result)) == (0, np.signbit(operand))
                continue
            exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), FP64.emin)
            assert abs(mpmath.mpf(float(result)) - exact) < 0.6 * mpmath.ldexp(1, exponent - FP64.fraction)


def test_a_pipeline_equals_the_build_without_registers():
    fmt = Format(4, 4)
    patterns = np.arange(1 << fmt.width, dtype=np.uint64)
    fast = SinCos(fmt, profile="fast")
    simulation = BitSlicedSimulation(fast, len(patterns))
    simulation.set("a", patterns)
    for _ in range(fast.latency):
        simulation.tick()
    assert fast.latency > 10
    for port, core in CORES.items():
        np.testing.assert_array_equal(simulation.get(port), evaluate(core(fmt, profile="comb"), patterns))


def test_leading_zeros_of_reduced_operands():
    # Counted over all operands of short formats; known for doubles.
    assert most_cancelled(FP64) == 61
    assert [most_cancelled(f) <= n for f, n in ((FP32, 30), (FP16, 16), (BF16, 16))] == [True] * 3
    for fmt in (Format(5, 6), Format(6, 4)):
        least = max(-((fmt.significand + 1) // 2), fmt.emin)
        with mpmath.workprec(120):
            turns = (
                mpmath.ldexp(m, e - fmt.fraction) * 2 / mpmath.pi
                for e in range(least, fmt.emax + 1)
                for m in range(1 if e == fmt.emin else 1 << fmt.fraction, 1 << fmt.significand)
            )
            nearest = min(abs(t - mpmath.nint(t)) for t in turns)
            counted = int(mpmath.floor(-mpmath.log(nearest, 2)))
        assert counted <= most_cancelled(fmt) <= counted + 3
