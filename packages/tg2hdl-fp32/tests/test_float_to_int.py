"""Every float format to every width of integer, in every direction, with flags, against Python's own rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tg2hdl_fp32 import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, FP64, FloatToInt, Format, RoundingMode
from tg2hdl_fp32.testing import BitSlicedSimulation, vectors

INEXACT, INVALID = 1, 16
ROUND = {
    RoundingMode.RNE: round,
    RoundingMode.RTZ: math.trunc,
    RoundingMode.RDN: math.floor,
    RoundingMode.RUP: math.ceil,
    RoundingMode.RMM: lambda value: (-1 if value < 0 else 1) * math.floor(abs(value) + Fraction(1, 2)),
}
FORMATS = [FP8_E4M3, FP8_E5M2, Format(2, 5), Format(6, 10), FP16, BF16, FP32, FP64]


def exact(fmt: Format, bits: int) -> Fraction | float:
    """Value of a pattern by the definition of IEEE 754 and of the format with one NaN and no infinity."""
    fraction = bits & (1 << fmt.fraction) - 1
    field = bits >> fmt.fraction & (1 << fmt.exponent) - 1
    sign = -1 if bits >> (fmt.width - 1) else 1
    full = field == (1 << fmt.exponent) - 1
    if full and fmt.finite and fraction == (1 << fmt.fraction) - 1:
        return math.nan
    if full and not fmt.finite:
        return math.nan if fraction else sign * math.inf
    bias = (1 << (fmt.exponent - 1)) - 1
    whole = fraction + (field > 0) * (1 << fmt.fraction)
    return sign * whole * Fraction(2) ** (max(field, 1) - bias - fmt.fraction)


def integer(value: Fraction | float, width: int, signed: bool, overflow: str, mode: RoundingMode):
    """Result and flags of a conversion."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if isinstance(value, float):
        wrapped = math.isnan(value) or overflow == "wrap"
        return (0 if wrapped else high if value > 0 else low), INVALID
    whole = int(ROUND[mode](value))
    if low <= whole <= high:
        return whole, INEXACT * (whole != value)
    return (whole if overflow == "wrap" else min(max(whole, low), high)), INVALID


def patterns(fmt: Format, width: int) -> np.ndarray:
    """All patterns of a small format; else special and random ones, and those beside the limits of the integer."""
    if fmt.width <= 8:
        return np.arange(1 << fmt.width, dtype=np.uint64)
    found = vectors(fmt, 1, 60)[0]
    field = min((1 << (fmt.exponent - 1)) - 1 + width, (1 << fmt.exponent) - 1)
    near = [
        (f << fmt.fraction) + step
        for f in range(max(field - 3, 1), field + 1)
        for step in (-2, -1, 0, 1)
        if (f << fmt.fraction) + step < fmt.sign_mask
    ]
    return np.concatenate([found, np.array(near + [b | fmt.sign_mask for b in near], np.uint64)])


@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("width", [2, 8, 16, 17, 32, 64])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_bits_and_flags(fmt, width, signed, overflow):
    core = FloatToInt(fmt, width, signed, overflow=overflow, profile="comb", rounding="dynamic", flags=True)
    bits = patterns(fmt, width)
    values = [exact(fmt, int(b)) for b in bits]
    simulation = BitSlicedSimulation(core, len(bits))
    simulation.set("a", bits)
    for mode in RoundingMode:
        simulation.set("rm", mode.value)
        results, flags = simulation.get("result"), simulation.get("flags")
        for b, value, result, flag in zip(bits, values, results, flags, strict=True):
            wanted, wanted_flags = integer(value, width, signed, overflow, mode)
            found = (int(result) & (1 << width) - 1, int(flag))
            assert found == (wanted & (1 << width) - 1, wanted_flags), (hex(int(b)), str(mode))
