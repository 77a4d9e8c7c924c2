"""Formats: special patterns and conversion, against numpy and ml_dtypes."""

from fractions import Fraction

import numpy as np
import pytest

from tg2hdl_fp32 import BF16, FORMATS, FP8_E4M3, FP16, FP32, FP64, Format, RoundingMode, format_by_name


@pytest.mark.parametrize("fmt", [f for f in FORMATS.values() if f.width <= 16], ids=str)
def test_every_pattern_decodes_and_encodes(fmt):
    bits = np.arange(1 << fmt.width)
    values = fmt.to_numpy(bits).astype(np.float32)
    step = 1 if fmt.width == 8 else 13
    for pattern, value in zip(bits[::step].tolist(), values[::step].tolist(), strict=True):
        decoded = fmt.decode(pattern)
        if value != value:
            assert fmt.is_nan(pattern)
            assert decoded != decoded
        else:
            assert decoded == value
            assert fmt.encode(value) == pattern


def test_encoding_rounds_once_in_every_direction():
    just_above = Fraction(1) + Fraction(1, 1 << 30)
    up = {RoundingMode.RUP}
    for mode in RoundingMode:
        assert FP32.encode(just_above, mode) == FP32.one + (mode in up)
    tie = Fraction(1) + Fraction(1, 1 << 24)
    assert FP32.encode(tie) == FP32.one
    assert FP32.encode(tie, RoundingMode.RMM) == FP32.one + 1


def test_overflow_and_zero():
    assert FP32.encode(1e300) == FP32.infinity
    assert FP32.encode(1e300, RoundingMode.RTZ) == FP32.max_finite
    assert FP32.encode(-1e300, RoundingMode.RUP) == FP32.max_finite | FP32.sign_mask
    assert FP8_E4M3.encode(465.0) == FP8_E4M3.nan
    assert FP8_E4M3.encode(464.0) == FP8_E4M3.max_finite
    assert FP8_E4M3.encode(float("inf")) == FP8_E4M3.nan
    assert FP32.encode(-0.0) == FP32.sign_mask
    assert FP32.encode(Fraction(0), negative_zero=True) == FP32.sign_mask
    assert FP16.encode(2.0**-25) == 0
    assert FP16.encode(2.0**-25, RoundingMode.RUP) == 1


def test_numpy_both_ways():
    values = np.array([1.5, -2.0, 0.1])
    assert FP32.from_numpy(values).tolist() == values.astype(np.float32).view(np.uint32).tolist()
    assert BF16.to_numpy([BF16.one]).astype(float).tolist() == [1.0]
    assert FP64.decode(FP64.encode(0.1)) == 0.1


def test_layout_and_names():
    assert FP32.layout.size == 32
    assert format_by_name("E6M9") == Format(6, 10)
    assert str(Format(4, 4, finite=True)) == "E4M3FN"
    assert FP8_E4M3.emax == 8
    assert FP32.emin == -126
