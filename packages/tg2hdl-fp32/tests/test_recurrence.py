import random
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

import streaming
from tg2hdl_fp32 import (
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    FP64,
    Div,
    FloatParameterError,
    FloatTypeError,
    Format,
    IterativeDiv,
    IterativeSqrt,
    RoundingMode,
    Sqrt,
)
from tg2hdl_fp32.testing.simulation import BitSlicedSimulation

INEXACT, OVERFLOW, DIVIDE_BY_ZERO, INVALID = 1, 4, 8, 16


def quotient(format, a, b, mode):
    """Result and flags of a / b but for underflow, from exact fractions."""
    sign = (a ^ b) & format.sign_mask
    infinity = format.nan if format.finite else sign | format.infinity
    x, y = a & ~format.sign_mask, b & ~format.sign_mask
    quiet = 0 if format.finite else 1 << (format.fraction - 1)
    signaling = any(format.is_nan(v) and quiet and not v & quiet for v in (a, b))
    if format.is_nan(a) or format.is_nan(b):
        return format.nan, INVALID * signaling
    if (x == 0 and y == 0) or (format.is_inf(a) and format.is_inf(b)):
        return format.nan, INVALID
    if format.is_inf(a):
        return infinity, 0
    if y == 0:
        return infinity, DIVIDE_BY_ZERO
    if x == 0 or format.is_inf(b):
        return sign, 0
    return rounded(format, format.to_fraction(x) / format.to_fraction(y), sign, mode)


def root(format, a, mode):
    """Result and flags of sqrt(a), from an integer square root with a digit that says whether it is exact."""
    if format.is_nan(a):
        quiet = 0 if format.finite else 1 << (format.fraction - 1)
        return format.nan, INVALID if quiet and not a & quiet else 0
    if a & ~format.sign_mask == 0:
        return a, 0
    if a & format.sign_mask:
        return format.nan, INVALID
    if format.is_inf(a):
        return a, 0
    value = format.to_fraction(a)
    scale = 2 * (format.bias + 2 * format.significand)
    scaled = value * 4**scale
    assert scaled.denominator == 1
    whole = isqrt(scaled.numerator)
    result = Fraction(2 * whole + (whole * whole != scaled.numerator), 2 << scale)
    return rounded(format, result, 0, mode)


def rounded(format, exact, sign, mode):
    bits = format.encode(-exact if sign else exact, mode)
    largest = format.to_fraction(format.max_finite)
    unbounded = Format(15, format.significand)
    whole = unbounded.to_fraction(unbounded.encode(exact, mode if not sign else _mirrored(mode)))
    overflow = exact > largest and whole > largest
    inexact = overflow or format.is_nan(bits) or format.to_fraction(bits & ~format.sign_mask) != exact
    return bits, INEXACT * inexact | OVERFLOW * overflow


def _mirrored(mode):
    return {RoundingMode.RDN: RoundingMode.RUP, RoundingMode.RUP: RoundingMode.RDN}.get(mode, mode)


def operands(format, count, arity, seed=1):
    rng = random.Random(seed)
    width = format.width
    edges = [0, 1, format.min_normal - 1, format.min_normal, format.one, format.one + 1, format.max_finite]
    edges += [format.nan] if format.finite else [format.infinity, format.infinity + 1, format.nan]
    values = []
    for k in range(count):
        row = []
        for _ in range(arity):
            kind = rng.randrange(6)
            bits = rng.getrandbits(width)
            if kind == 0:
                bits = rng.choice(edges) | bits & format.sign_mask
            elif kind == 1:
                bits &= format.sign_mask | format.min_normal - 1
            elif kind == 2:
                bits &= -1 << rng.randrange(format.fraction)
            row.append(bits)
        if arity == 2 and k % 9 == 0:
            row[1] = row[0] ^ (rng.getrandbits(1) * format.sign_mask)
        values.append(tuple(row))
    return values


CASES = [(Div, quotient, 2), (Sqrt, root, 1)]
FORMATS = [FP8_E4M3, Format(4, 2), FP16]


@pytest.mark.parametrize(("core", "reference", "arity"), CASES, ids=["div", "sqrt"])
@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_small_formats_in_every_mode_with_flags(format, core, reference, arity):
    unit = core(format, profile="comb", rounding="dynamic", flags=True)
    for mode in RoundingMode:
        values = operands(format, 25 if format.width <= 8 else 10, arity, seed=mode.value)
        got = streaming.run(unit_again(unit), values, rm=mode.value)
        for row, (result, flags) in zip(values, got, strict=True):
            assert (result, flags & ~2) == reference(format, *row, mode), (mode, [hex(v) for v in row])


def unit_again(unit):
    """Return a core like `unit`; a simulation takes possession of one."""
    return type(unit)(unit.format, profile="comb", rounding="dynamic", flags=True)


@pytest.mark.parametrize("mode", [RoundingMode.RNE, RoundingMode.RTZ], ids=str)
@pytest.mark.parametrize(("core", "reference", "arity"), CASES, ids=["div", "sqrt"])
def test_fp32_pipelined(core, reference, arity, mode):
    values = operands(FP32, 30, arity, seed=11 + mode.value)
    unit = core(FP32, profile="fast" if mode.value & 1 else "balanced", rounding=mode, flags=True)
    got = streaming.run(unit, values, seed=mode.value)
    for row, (result, flags) in zip(values, got, strict=True):
        assert (result, flags & ~2) == reference(FP32, *row, mode), [hex(v) for v in row]


@pytest.mark.parametrize(("core", "reference", "arity"), CASES, ids=["div", "sqrt"])
def test_fp64(core, reference, arity):
    values = operands(FP64, 4, arity)
    got = streaming.run(core(FP64, profile="comb"), values)
    for row, result in zip(values, got, strict=True):
        assert result == reference(FP64, *row, RoundingMode.RNE)[0], [hex(v) for v in row]


@pytest.mark.parametrize(("core", "reference", "arity"), CASES, ids=["div", "sqrt"])
def test_flush_to_zero(core, reference, arity):
    values = operands(FP32, 40, arity, seed=5)
    got = streaming.run(core(FP32, profile="comb", subnormals=False), values)
    for row, result in zip(values, got, strict=True):
        flushed = [v if v & FP32.infinity else v & FP32.sign_mask for v in row]
        expected, _ = reference(FP32, *flushed, RoundingMode.RTZ)
        if expected & FP32.infinity == 0:
            expected &= FP32.sign_mask
        else:
            expected, _ = reference(FP32, *flushed, RoundingMode.RNE)
        assert result == expected, [hex(v) for v in row]


@pytest.mark.parametrize("profile", ["fast", "balanced"])
@pytest.mark.parametrize("core", [Div, Sqrt])
def test_many_at_once_against_numpy(core, profile):
    unit = core(FP32, profile=profile)
    latency = unit.latency
    lanes = 20_000
    values = np.array([row[:2] for row in operands(FP32, lanes, 2, seed=3)], dtype=np.uint32)
    simulation = BitSlicedSimulation(unit, lanes)
    simulation.set("en", 1)
    for name, column in zip(core.operands, values.T, strict=False):
        simulation.set(name, column)
    simulation.tick(latency)
    got = simulation.get("result").astype(np.uint32)
    a, b = values.view(np.float32).T
    with np.errstate(all="ignore"):
        exact = a / b if core is Div else np.sqrt(a)
    expected = np.where(np.isnan(exact), FP32.nan, exact.view(np.uint32))
    assert (got == expected).all()


def run_iterative(core, values, rm=None):
    results = []
    m = Module()
    m.submodules.core = core

    async def testbench(ctx):
        if rm is not None:
            ctx.set(core.rm, rm)
        for row in values:
            for name, value in zip(core.operands, row, strict=True):
                ctx.set(getattr(core, name), value)
            ctx.set(core.start, 1)
            await ctx.tick()
            ctx.set(core.start, 0)
            for name in core.operands:
                ctx.set(getattr(core, name), 0)
            for _ in range(core.latency - 1):
                await ctx.tick()
            results.append((ctx.get(core.result), ctx.get(core.flags.as_value()) & ~2))

    sim = Simulator(m)
    sim.add_clock(1e-6)
    sim.add_testbench(testbench)
    sim.run()
    return results


@pytest.mark.parametrize(
    ("core", "reference", "arity"),
    [(IterativeDiv, quotient, 2), (IterativeSqrt, root, 1)],
    ids=["div", "sqrt"],
)
@pytest.mark.parametrize("format", [FP8_E5M2, FP32], ids=str)
def test_iterative(format, core, reference, arity):
    for mode in (RoundingMode.RNE, RoundingMode.RUP):
        values = operands(format, 15, arity, seed=mode.value)
        got = run_iterative(core(format, rounding="dynamic", flags=True), values, rm=mode.value)
        assert got == [reference(format, *row, mode) for row in values]


def test_iterative_latency():
    assert IterativeDiv().latency == IterativeDiv().ii == 52
    assert IterativeSqrt().latency == 51
    assert IterativeDiv(subnormals=False).latency == 29


def test_iterative_refuses_bad_parameters():
    with pytest.raises(FloatTypeError) as caught:
        IterativeDiv(32)
    assert str(caught.value) == "format must be a Format, such as FP32, not 32"
    with pytest.raises(FloatParameterError) as caught:
        IterativeSqrt(rounding="nearest")
    assert str(caught.value) == (
        "unknown rounding 'nearest'; use 'dynamic' or one of RoundingMode.RNE, RoundingMode.RTZ, "
        "RoundingMode.RDN, RoundingMode.RUP, RoundingMode.RMM"
    )
