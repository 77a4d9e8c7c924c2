"""Conversions, rounding to integers, comparison, minimum and maximum."""

from fractions import Fraction

import numpy as np
import pytest

from tg2hdl_fp32 import (
    BF16,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    FP64,
    MINMAX_VARIANTS,
    PREDICATES,
    Abs,
    Compare,
    FloatToFloat,
    FloatToInt,
    Format,
    IntToFloat,
    MinMax,
    Neg,
    NonZero,
    RoundingMode,
    RoundToIntegral,
)
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, reference, vectors


def every(fmt):
    return (np.arange(1 << fmt.width, dtype=np.uint64),)


@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
@pytest.mark.parametrize("fmt", [FP8_E4M3, FP8_E5M2, Format(2, 5), FP32, FP16], ids=str)
def test_round_to_integral(fmt, rounding):
    core = RoundToIntegral(fmt, profile="comb", rounding=rounding)
    operands = every(fmt) if fmt.width <= 8 else vectors(fmt, 1, 1000)
    outcome = check_unit(core, "round", fmt, rounding=rounding, operands=operands)
    assert outcome, outcome.examples


def test_every_fp16_rounds_to_integral():
    values = every(FP16)
    with np.errstate(all="ignore"):
        rounded = np.rint(FP16.to_numpy(values[0]))
    table = np.where(np.isnan(rounded), FP16.nan, FP16.from_numpy(rounded))
    core = RoundToIntegral(FP16, profile="comb")
    assert check_unit(core, "round", FP16, operands=values, expected=lambda bits: int(table[bits]))


@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("fmt", "width"), [(FP32, 8), (FP32, 32), (FP32, 64), (FP16, 16), (FP64, 32), (BF16, 8)]
)
def test_float_to_int(fmt, width, signed, overflow):
    core = FloatToInt(fmt, width, signed, overflow=overflow, profile="comb")
    options = {"width": width, "signed": signed, "overflow": overflow, "rounding": RoundingMode.RTZ}
    outcome = check_unit(core, "float_to_int", fmt, operands=vectors(fmt, 1, 800), **options)
    assert outcome, outcome.examples
    limit = fmt.encode(float(1 << (width - 1)))
    near = [pattern for d in range(-400, 400) for pattern in (limit + d, limit + d + (1 << fmt.fraction))]
    near = np.array([*near, *(pattern | fmt.sign_mask for pattern in near)], np.uint64)
    outcome = check_unit(core, "float_to_int", fmt, operands=(near,), **options)
    assert outcome, outcome.examples


@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
def test_float_to_int_in_every_direction(rounding):
    core = FloatToInt(FP16, 8, profile="comb", rounding="dynamic")
    operands = (every(FP16)[0][::13],)
    outcome = check_unit(core, "float_to_int", FP16, operands=operands, width=8, rounding=rounding)
    assert outcome, outcome.examples


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, FP8_E4M3, FP64], ids=str)
@pytest.mark.parametrize(
    ("width", "signed"), [(8, True), (8, False), (32, True), (32, False), (64, True), (1, False)]
)
def test_int_to_float(fmt, width, signed):
    rng = np.random.default_rng(width)
    values = rng.integers(0, 1 << 64, 600, dtype=np.uint64) >> rng.integers(0, 64, 600).astype(np.uint64)
    values = np.concatenate([values, np.arange(300, dtype=np.uint64)]) & np.uint64((1 << width) - 1)
    if signed:
        top = np.uint64(1 << (width - 1))
        values = ((values ^ top) - top).view(np.int64)
        values = np.concatenate([values, -values, [-(1 << (width - 1))]])
        values = values[(values >= -(1 << (width - 1))) & (values < 1 << (width - 1))]
    core = IntToFloat(fmt, width, signed, profile="comb")
    outcome = check_unit(core, "int_to_float", fmt, operands=(values,), width=width, signed=signed)
    assert outcome, outcome.examples


ALL = [FP32, FP16, BF16, FP64, FP8_E4M3, FP8_E5M2, Format(6, 10)]


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_float_to_float(source, target):
    core = FloatToFloat(source, target, profile="comb")
    operands = every(source) if source.width == 8 else vectors(source, 1, 700)
    if source.width > target.width:
        # Halves of the other format's values, where ties are.
        low = [
            source.encode(target.to_fraction(v))
            for v in range(0, target.max_finite, target.max_finite // 97 + 1)
        ]
        step = 1 << max(source.fraction - target.fraction - 1, 0)
        ties = np.array([v + d for v in low for d in (0, step - 1, step, step + 1)], np.uint64)
        operands = (np.concatenate([operands[0], ties]),)
    outcome = check_unit(core, "float_to_float", source, operands=operands, result=target)
    assert outcome, outcome.examples


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
@pytest.mark.parametrize("result", [FP16, FP8_E5M2, FP8_E4M3, Format(6, 10)], ids=str)
def test_narrowing_in_every_direction(result, rounding, saturate):
    options = {"rounding": rounding, "saturate": saturate}
    core = FloatToFloat(FP32, result, profile="comb", **options)
    near = np.array([FP32.encode(result.to_fraction(v)) for v in range(0, result.max_finite, 7)], np.uint64)
    largest = FP32.encode(result.to_fraction(result.max_finite))
    top = np.uint64(largest - 40) + np.arange(0, 1 << 26, (1 << 26) // 60, dtype=np.uint64)
    random = vectors(FP32, 1, 100)[0]
    values = np.concatenate(
        [near[:: len(near) // 100 + 1], near[:: len(near) // 90 + 1] + np.uint64(1), top, random]
    )
    values = np.concatenate([values, values | np.uint64(FP32.sign_mask)])
    outcome = check_unit(core, "float_to_float", FP32, operands=(values,), result=result, **options)
    assert outcome, outcome.examples


@pytest.mark.parametrize(
    ("source", "target"), [(FP32, FP16), (FP16, FP32), (FP32, BF16), (BF16, FP16)], ids=str
)
def test_conversion_without_subnormals(source, target):
    def expected(bits):
        sign = bool(bits & source.sign_mask)
        zero = target.sign_mask if sign else 0
        if source.is_nan(bits) or source.is_inf(bits):
            return reference("float_to_float", source, bits, result=target)
        tiny = abs(source.to_fraction(bits)) < max(Fraction(2) ** source.emin, Fraction(2) ** target.emin)
        return zero if tiny else reference("float_to_float", source, bits, result=target)

    core = FloatToFloat(source, target, profile="comb", subnormals=False)
    outcome = check_unit(core, "", source, operands=vectors(source, 1, 900), expected=expected)
    assert outcome, outcome.examples


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
@pytest.mark.parametrize("target", [FP16, FP8_E4M3, FP32], ids=str)
def test_flags_of_conversions(target, rounding, saturate):
    options = {"rounding": rounding, "saturate": saturate}
    source = FP32 if target.width < 32 else FP16
    values = vectors(source, 1, 400)[0]
    core = FloatToFloat(source, target, profile="comb", flags=True, **options)
    simulation = BitSlicedSimulation(core, len(values))
    simulation.set("a", values)
    for bits, flags in zip(map(int, values), map(int, simulation.get("flags")), strict=True):
        if source.is_nan(bits) or source.is_inf(bits):
            quiet = bits >> (source.fraction - 1) & 1
            assert flags == (16 if source.is_nan(bits) and not quiet else 0), hex(bits)
            continue
        assert flags == conversion_flags(source.to_fraction(bits), target, rounding), hex(bits)


@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
def test_flags_of_integers(rounding):
    near = [(1 << k) + d for k in range(9, 31) for d in (-1, 0, 1)]
    values = np.array([*range(-70, 70), *near, *(-v for v in near)])
    core = IntToFloat(FP16, 32, profile="comb", flags=True, rounding=rounding)
    simulation = BitSlicedSimulation(core, len(values))
    simulation.set("a", values.astype(np.uint32).astype(np.uint64))
    for value, flags in zip(values.tolist(), map(int, simulation.get("flags")), strict=True):
        assert flags == conversion_flags(Fraction(value), FP16, rounding), value


def conversion_flags(value, target, rounding):
    """Inexact, underflow and overflow by IEEE 754, tininess found before rounding."""
    wide = Format(12, target.significand)
    unbounded = abs(wide.to_fraction(wide.encode(value, rounding)))
    overflow = unbounded > target.to_fraction(target.max_finite)
    inexact = overflow or target.to_fraction(target.encode(value, rounding)) != value
    tiny = 0 < abs(value) < Fraction(2) ** target.emin
    return inexact | (tiny and inexact) << 1 | overflow << 2


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
@pytest.mark.parametrize("fmt", [FP32, FP16, FP8_E5M2, FP8_E4M3], ids=str)
def test_int_to_float_in_every_direction(fmt, rounding, saturate):
    options = {"rounding": rounding, "saturate": saturate}
    rng = np.random.default_rng(5)
    limit = int(fmt.to_fraction(fmt.max_finite)) if fmt.width <= 16 else 1 << 25
    values = np.concatenate(
        [np.arange(-130, 130), limit + np.arange(-20, 20), rng.integers(-(1 << 31), 1 << 31, 100) >> 7]
    )
    values = np.concatenate([values, -values, 2 * values, [-(1 << 31), (1 << 31) - 1]])
    values = values[(values >= -(1 << 31)) & (values < 1 << 31)]
    core = IntToFloat(fmt, 32, profile="comb", **options)
    outcome = check_unit(core, "int_to_float", fmt, operands=(values,), width=32, signed=True, **options)
    assert outcome, outcome.examples


@pytest.mark.parametrize("predicate", [*PREDICATES, "eq", "ne", "lt", "le", "gt", "ge"])
def test_compare(predicate):
    core = Compare(FP32, predicate, profile="comb")
    outcome = check_unit(core, "compare", FP32, operands=vectors(FP32, 2, 200), predicate=predicate)
    assert outcome, outcome.examples


@pytest.mark.parametrize("variant", MINMAX_VARIANTS)
@pytest.mark.parametrize("fmt", [FP32, FP8_E4M3], ids=str)
def test_minmax(fmt, variant):
    core = MinMax(fmt, variant, profile="comb")
    outcome = check_unit(core, "minmax", fmt, operands=vectors(fmt, 2, 200), variant=variant)
    assert outcome, outcome.examples


@pytest.mark.parametrize("fmt", [FP8_E4M3, FP16], ids=str)
def test_sign_operations(fmt):
    assert check_unit(Neg(fmt), "neg", fmt)
    assert check_unit(Abs(fmt), "abs", fmt)
    nonzero = check_unit(
        NonZero(fmt, profile="comb"), "", fmt, expected=lambda bits: int(bits & ~fmt.sign_mask != 0)
    )
    assert nonzero, nonzero.examples


@pytest.mark.parametrize(
    ("core", "operation", "options"),
    [
        (RoundToIntegral(FP32, profile="fast"), "round", {}),
        (FloatToInt(FP32, profile="fast"), "float_to_int", {"rounding": RoundingMode.RTZ}),
        (
            FloatToInt(FP32, overflow="wrap"),
            "float_to_int",
            {"overflow": "wrap", "rounding": RoundingMode.RTZ},
        ),
        (FloatToFloat(FP32, FP16, profile="fast"), "float_to_float", {"result": FP16}),
        (FloatToFloat(FP16, FP32, profile="fast"), "float_to_float", {"result": FP32}),
        (Compare(FP32, "le", profile="fast"), "compare", {"predicate": "le"}),
        (MinMax(FP32, "minimumNumber", stages=2), "minmax", {"variant": "minimumNumber"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pipelines(core, operation, options):
    assert core.latency > 0
    columns = vectors(core.format, len(core.operands), 300, specials=False)
    outcome = check_unit(core, operation, core.format, operands=columns, **options)
    assert outcome, outcome.examples


def test_int_to_float_pipeline():
    values = np.arange(-500, 500) * 4_294_967
    outcome = check_unit(IntToFloat(FP32, profile="fast"), "int_to_float", FP32, operands=(values,))
    assert outcome, outcome.examples
