import random

import numpy as np
import pytest

import streaming
from tg2hdl_fp32 import (
    BF16,
    FP8_E4M3,
    FP16,
    FP32,
    FP64,
    Cos,
    Exp2,
    FloatParameterError,
    Log2,
    Reciprocal,
    RoundingMode,
    Rsqrt,
    Sin,
    SinTurns,
)
from tg2hdl_fp32.models import MODELS
from tg2hdl_fp32.testing import BitSlicedSimulation

CORES = {"cos": Cos, "exp2": Exp2, "log2": Log2, "reciprocal": Reciprocal, "rsqrt": Rsqrt, "sin": Sin}
CORES["sin_turns"] = SinTurns


def sin_turns(x):
    """Sine of turns: the reduction is exact, and so are the results at quarters."""
    x = np.where(np.isfinite(x), x, np.nan)
    halves = np.rint(2 * x)
    rest = x - halves / 2
    sine = np.sin(2 * np.pi * rest) * np.where(np.mod(halves, 2) == 0, 1, -1)
    sine = np.where(np.abs(rest) == 0.25, np.sign(sine), sine)
    return np.where(rest == 0, np.copysign(0.0, x), sine)


REFERENCES = {
    "cos": np.cos,
    "exp2": np.exp2,
    "log2": np.log2,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sin_turns": sin_turns,
}
#: Where the function itself is monotone, and in which direction patterns of one sign go.
MONOTONE = ("exp2", "log2", "reciprocal", "rsqrt")
SPECIALS = (0x00000000, 0x00000001, 0x00000003, 0x00200000, 0x00200001, 0x003FFFFF, 0x00400000, 0x007FFFFF)
SPECIALS += (0x00800000, 0x00FFFFFF, 0x3EFFFFFF, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FBFFFFF)
SPECIALS += (0x3FC00000, 0x3FC00001, 0x3FC90FDB, 0x40490FDB, 0x43000000, 0x42FFFFFF, 0x43150000, 0x43160000)
SPECIALS += (0x4B800000, 0x5922AA80, 0x6F79BE45, 0x7E800000, 0x7E800001, 0x7F7FFFFF, 0x7F800000, 0x7F800001)
SPECIALS += (0x7FC00000, 0x42FC0000, 0x42FE0000, 0x39000000, 0x397FFFFF, 0x39800000)


def patterns(format, count, seed=1):
    rng = random.Random(seed)
    narrow = format.width - 32
    values = [s >> -narrow if narrow < 0 else s for s in SPECIALS]
    values += [s | format.sign_mask for s in values]
    while len(values) < count:
        bits = rng.getrandbits(format.width)
        if rng.random() < 0.5:
            # Near one, where the functions are neither flat nor infinite.
            field = format.bias + rng.randrange(-6, 7)
            bits = bits & ~(format.infinity) | field << format.fraction
        values.append(bits)
    return values


def errors(name, format, bits):
    """Return results, exact values as float64 and errors in ULP, where the exact value is a number."""
    with np.errstate(all="ignore"):
        x = format.to_numpy(bits).astype(np.float64)
        exact = REFERENCES[name](x)
        got = MODELS[name](bits, format)
        nan = np.isnan(exact)
        assert (got[nan] == format.nan).all()
        rounded = format.from_numpy(exact)
        value = format.to_numpy(got).astype(np.float64)
        # An infinity is as far off as the number that would follow the largest finite one.
        value = np.where(
            np.isinf(value) & np.isfinite(exact), np.sign(value) * 2.0 ** (format.emax + 1), value
        )
        exponent = np.clip(np.frexp(exact)[1] - 1, format.emin, format.emax)
        error = np.abs(value - exact) / 2.0 ** (exponent - format.fraction)
    same = got == rounded
    assert same[~nan & ~np.isfinite(exact)].all()
    return np.where(same | nan, 0.0, error), value, exact


@pytest.mark.parametrize("format", [FP16, BF16], ids=str)
@pytest.mark.parametrize("name", CORES)
def test_every_input_of_16_bits(name, format):
    bits = np.arange(1 << 16, dtype=np.uint16)
    error, value, exact = errors(name, format, bits)
    assert np.isfinite(error).all()
    assert error.max() < 1
    if name in MONOTONE:
        for sign in (slice(0, 1 << 15), slice(1 << 15, 1 << 16)):
            with np.errstate(invalid="ignore"):
                step, direction = np.diff(value[sign]), np.diff(exact[sign])
            assert not (step * direction < 0).any()


@pytest.mark.parametrize("format", [FP16, BF16], ids=str)
@pytest.mark.parametrize("name", CORES)
def test_core_equals_model_for_every_input_of_16_bits(name, format):
    bits = np.arange(1 << 16, dtype=np.uint16)
    simulation = BitSlicedSimulation(CORES[name](format, profile="comb"), len(bits))
    simulation.set("a", bits)
    np.testing.assert_array_equal(simulation.get("result"), MODELS[name](bits, format))


@pytest.mark.parametrize("name", CORES)
def test_fp32_stays_below_one_ulp(name):
    bits = np.concatenate([np.arange(0, 1 << 32, 10007), np.array(patterns(FP32, 20_000))]).astype(np.uint32)
    error, _, _ = errors(name, FP32, bits)
    assert len(error) > 400_000
    assert error.max() < 1


def test_exact_results_are_exact():
    def check(name, arguments, results):
        bits = FP32.from_numpy(np.array(arguments, dtype=np.float64))
        assert (MODELS[name](bits, FP32) == FP32.from_numpy(np.array(results, dtype=np.float64))).all()

    integers = np.arange(-149.0, 128.0)
    check("exp2", integers, 2.0**integers)
    check("log2", 2.0**integers, integers)
    check("reciprocal", 2.0 ** integers[22:], 2.0 ** -integers[22:])
    check("rsqrt", 4.0 ** np.arange(-74, 64), 2.0 ** -np.arange(-74.0, 64))


@pytest.mark.parametrize("format", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize("name", CORES)
def test_zero_latency_core_equals_model(name, format):
    values = patterns(format, 120)
    core = CORES[name](format, profile="comb")
    assert core.latency == 0
    got = streaming.run(core, [(v,) for v in values])
    dtype = np.uint32 if format.width == 32 else np.uint16
    assert got == MODELS[name](np.array(values, dtype=dtype), format).tolist()


@pytest.mark.parametrize(
    ("profile", "target"), [("small", "generic"), ("balanced", "generic"), ("fast", "ecp5_model")]
)
@pytest.mark.parametrize("name", CORES)
def test_pipelined_core_equals_model(name, profile, target):
    values = patterns(FP32, 120, seed=len(profile))
    core = CORES[name](FP32, profile=profile, target=target)
    assert core.latency > 0
    assert core.ii == 1
    got = streaming.run(core, [(v,) for v in values])
    assert got == MODELS[name](np.array(values, dtype=np.uint32), FP32).tolist()


@pytest.mark.parametrize("name", CORES)
def test_flush_to_zero_differs_only_for_subnormals(name):
    values = patterns(FP32, 100)
    got = streaming.run(CORES[name](FP32, profile="comb", subnormals=False), [(v,) for v in values])
    for bits, result in zip(values, got, strict=True):
        field = bits >> 23 & 255
        flushed = bits if field else bits & FP32.sign_mask
        expected = int(MODELS[name](np.array([flushed], dtype=np.uint32), FP32)[0])
        if expected >> 23 & 255 == 0:
            expected &= FP32.sign_mask
        assert result == expected, hex(bits)


@pytest.mark.parametrize("name", CORES)
def test_refuses_what_it_cannot_do(name):
    core = CORES[name]
    for format in (FP64, FP8_E4M3) if core.formats is not None else ():
        with pytest.raises(FloatParameterError) as caught:
            core(format)
        expected = f"{core.__name__} of {format} is not available; use one of FP32, FP16, BF16"
        assert str(caught.value) == expected
    with pytest.raises(FloatParameterError) as caught:
        core(FP32, rounding=RoundingMode.RTZ)
    assert str(caught.value) == (
        f"{core.__name__} rounds to nearest with an error below 1 ULP; use RoundingMode.RNE"
    )
    with pytest.raises(FloatParameterError) as caught:
        core(FP32, flags=True)
    assert str(caught.value) == f"{core.__name__} has no exception flags; use flags=False"
