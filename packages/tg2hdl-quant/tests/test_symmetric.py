import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tg2hdl_ir import InputError
from tg2hdl_quant import bits_to_float, dequantize, float_to_bits, quantize_int8, quantize_int16

FLOATS = arrays(
    np.float32, array_shapes(max_dims=3, max_side=5), elements=st.floats(-(2.0**100), 2.0**100, width=32)
)


@pytest.mark.parametrize(("quantize", "limit"), [(quantize_int8, 127), (quantize_int16, 32767)])
@example(array=np.array([1.34592e-40], np.float32))  # the step is subnormal
@given(array=FLOATS)
def test_every_element_is_the_nearest_step_in_exact_arithmetic(quantize, limit, array):
    integers, scale = quantize(array)
    assert integers.shape == array.shape
    assert scale.dtype == np.float32
    largest = max(abs(Fraction(float(v))) for v in array.flat)
    if largest / limit <= Fraction(1, 2**150):
        # Zero, or a step below half of the smallest float32.
        assert scale == 1.0
        assert not integers.any()
    else:
        steps = [np.nextafter(scale, np.float32(0)), scale, np.nextafter(scale, np.float32(np.inf))]
        below, here, above = (abs(Fraction(float(s)) - largest / limit) for s in steps)
        assert here <= min(below, above), "the scale is not the float32 nearest to largest / limit"
    for value, integer in zip(array.flat, integers.flat, strict=True):
        assert abs(int(integer)) <= limit
        exact = Fraction(float(value)) / Fraction(float(scale))
        assert abs(min(max(exact, -limit), limit) - int(integer)) <= Fraction(1, 2)


def test_scale_follows_the_largest_magnitude():
    integers, scale = quantize_int8(np.array([0.0, -2.54, 1.27], np.float32))
    assert integers.tolist() == [0, -127, 64]
    assert integers.dtype == np.int8
    assert scale == np.float32(0.02)
    integers, scale = quantize_int16([3.2767, -0.0001])
    assert integers.tolist() == [32767, -1]
    assert integers.dtype == np.int16


def test_all_zero_input_has_scale_one():
    for quantize in (quantize_int8, quantize_int16):
        integers, scale = quantize(np.zeros((2, 3)))
        assert scale == 1.0
        assert not integers.any()


def test_dequantize_gives_float32_within_half_a_step():
    values = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    integers, scale = quantize_int8(values)
    restored = dequantize(integers, scale)
    assert restored.dtype == np.float32
    assert np.abs(restored - values).max() <= float(scale) * 0.500001


@given(st.integers(0, 2**32 - 1))
def test_patterns_agree_with_struct(bits):
    value = bits_to_float(np.array([bits], np.uint32))
    assert value.tobytes() == struct.pack("<I", bits)
    assert float_to_bits(value)[0] == bits


def test_patterns_keep_shape_and_round_to_nearest_even():
    assert float_to_bits([[1.0, -0.0], [np.inf, 1 + 2**-24]]).tolist() == [
        [0x3F800000, 0x80000000],
        [0x7F800000, 0x3F800000],
    ]
    assert bits_to_float(np.int32(-1)).shape == ()
    assert np.isnan(bits_to_float(np.int32(-1)))


REFUSED = [
    (
        lambda: quantize_int8([]),
        "bad input: quantize got an empty array of shape (0,)\n  hint: a scale needs at least one element",
    ),
    (
        lambda: quantize_int8([[1.0, np.nan], [np.inf, 0.0]]),
        "bad input: quantize got NaN at index (0, 1)\n  note: 2 of 4 elements are not finite\n"
        "  hint: clip or replace them first, e.g. with numpy.nan_to_num",
    ),
    (
        lambda: quantize_int16([1.0, -np.inf]),
        "bad input: quantize got an infinity at index (1,)\n  note: 1 of 2 elements are not finite\n"
        "  hint: clip or replace them first, e.g. with numpy.nan_to_num",
    ),
    (
        lambda: quantize_int8(np.array(["a"])),
        "bad input: quantize expects real numbers, got an array of <U1\n  hint: convert it to float32",
    ),
    (
        lambda: dequantize([0.5], 1.0),
        "bad input: dequantize expects integers, got an array of float64\n"
        "  hint: pass the first result of quantize_int8 or quantize_int16",
    ),
    (
        lambda: dequantize([1], 0.0),
        "bad input: scale 0.0 is not a positive finite number\n"
        "  hint: pass the second result of quantize_int8 or quantize_int16",
    ),
    (
        lambda: bits_to_float([1.5]),
        "bad input: bits_to_float expects integers, got an array of float64\n"
        "  hint: pass unsigned 32-bit patterns",
    ),
    (
        lambda: bits_to_float([1, 2**32]),
        "bad input: 4294967296 is not a 32-bit pattern\n  hint: patterns lie between 0 and 0xffffffff",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_refusals(call, text):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == text
