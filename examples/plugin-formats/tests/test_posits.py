from fractions import Fraction

import numpy as np
import pytest
from posit_operands import corners, pairs
from tg2hdl_formats import (
    POSIT8,
    POSIT16,
    POSIT32,
    Posit,
    PositAdd,
    PositCompare,
    PositDiv,
    PositFromFloat,
    PositMul,
    PositResize,
    PositSub,
    PositToFloat,
)
from tg2hdl_formats.exact import posit_result, posit_value, round_to_posit

from tg2hdl_fp32 import BF16, FP16, FP32, FP64, FloatParameterError, FloatTypeError
from tg2hdl_fp32.testing import check_unit, vectors

CORES = {"add": PositAdd, "sub": PositSub, "mul": PositMul, "div": PositDiv}
BYTES = np.arange(256)


def rounded_bytes(x):
    """Posit8 patterns of numbers that a double holds exactly, by a table of all posits and those between them."""
    numbers = range(-127, 128)
    values = np.array([float(posit_value(k & 255, 8)) for k in numbers])
    between = np.array([float(posit_value(2 * k + 1 & 511, 9)) for k in numbers])
    index = np.searchsorted(values, x, side="right") - 1
    low = np.clip(index, 0, 254)
    up = (x != values[low]) & ((x > between[low]) | (x == between[low]) & (low % 2 == 0))
    found = np.clip(low + up, 0, 254) - 127
    # No number but zero is rounded to zero.
    return np.where((found == 0) & (x != 0), np.sign(x), found).astype(np.int64) & 255


def stream(core, columns):
    from tg2hdl_fp32.testing.conformance import stream

    return stream(core, list(core.operands), columns, core.rounding).astype(np.int64)


def test_values_of_the_standard():
    assert posit_value(0, 8) == 0
    assert posit_value(0x80, 8) is None
    assert posit_value(0x40, 8) == 1
    assert posit_value(0xC0, 8) == -1
    assert posit_value(0x7F, 8) == 2**24
    assert posit_value(1, 16) == Fraction(1, 2**56)
    assert posit_value(0b0_0001_10_111011101, 16) == (1 + Fraction(477, 512)) / 2**10
    assert round_to_posit(Fraction(144179), 8) == 0x7D  # above 131072, the posit9 between 65536 and 262144


@pytest.mark.parametrize("operation", CORES)
def test_all_pairs_of_posit8(operation):
    a, b = (x.ravel() for x in np.meshgrid(BYTES, BYTES))
    values = np.array([float(posit_value(k, 8) or 0) for k in range(256)])
    x, y = values[a], values[b]
    nar = (a == 0x80) | (b == 0x80)
    if operation == "div":
        nar |= b == 0
        # A quotient of two significands of 4 bits is never nearer to a tie than a double can tell.
        y = np.where(y == 0, 1, y)
    exact = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[operation](x, y)
    expected = np.where(nar, 0x80, rounded_bytes(exact))
    core = CORES[operation](POSIT8, profile="comb")
    assert (stream(core, (a, b)) == expected).all()


@pytest.mark.parametrize("format", [POSIT16, POSIT32], ids=str)
@pytest.mark.parametrize("operation", CORES)
def test_pairs_of_wider_posits(operation, format):
    core = CORES[operation](format, stages=2)
    result = check_unit(
        core,
        operation,
        format,
        operands=pairs(format.width, 50),
        expected=lambda a, b: posit_result(operation, format.width, a, b),
    )
    assert result, result.examples


@pytest.mark.parametrize("profile", ["small", "fast"])
def test_registers_change_only_the_latency(profile):
    for core in (PositAdd(POSIT8, profile=profile), PositMul(POSIT8, stages=3)):
        operation = core.operation.removeprefix("posit_")
        result = check_unit(
            core,
            operation,
            POSIT8,
            operands=pairs(8, 60),
            expected=lambda a, b, operation=operation: posit_result(operation, 8, a, b),
        )
        assert result, result.examples
        assert core.ii == 1
    assert PositAdd(POSIT16, profile="small").latency < PositAdd(POSIT16, profile="fast").latency


def from_float(source, width):
    def expected(bits):
        if not source.is_nan(bits) and not source.is_inf(bits):
            return round_to_posit(source.to_fraction(bits), width)
        return 1 << (width - 1)

    return expected


@pytest.mark.parametrize(
    ("format", "source"),
    [(POSIT8, FP32), (POSIT16, FP32), (POSIT32, FP32), (POSIT16, FP16), (POSIT8, BF16), (POSIT32, FP64)],
    ids=str,
)
def test_from_floats(format, source):
    core = PositFromFloat(format, source, stages=1)
    values = [source.encode(v) for k in corners(format.width, 60) if (v := posit_value(k, format.width))]
    between = [posit_value(2 * k + 1, format.width + 1) for k in corners(format.width, 60)]
    values += [source.encode(v) for v in between if v]
    values += [v + 1 for v in values[::3]] + [int(v) for v in vectors(source, 1, 100)[0]]
    result = check_unit(
        core,
        "from",
        source,
        operands=(np.array(values, np.uint64),),
        expected=from_float(source, format.width),
    )
    assert result, result.examples


@pytest.mark.parametrize("format", [POSIT8, POSIT16], ids=str)
def test_every_posit_survives_fp32(format):
    patterns = np.arange(1 << format.width)
    floats = stream(PositToFloat(format, profile="comb"), (patterns,))
    numbers = np.array(
        [float(v) if (v := posit_value(int(k), format.width)) is not None else np.nan for k in patterns]
    )
    expected = numbers.astype(np.float32)
    assert (expected[~np.isnan(numbers)] == numbers[~np.isnan(numbers)]).all()
    expected_bits = np.where(np.isnan(numbers), FP32.nan, expected.view(np.uint32))
    assert (floats == expected_bits).all()
    assert (stream(PositFromFloat(format, profile="comb"), (floats,)) == patterns).all()


@pytest.mark.parametrize(("format", "target"), [(POSIT32, FP32), (POSIT16, FP16), (POSIT8, BF16)], ids=str)
def test_to_floats(format, target):
    def expected(bits):
        value = posit_value(bits, format.width)
        return target.nan if value is None else target.encode(value)

    core = PositToFloat(format, target, stages=1)
    result = check_unit(
        core, "to", target, operands=(np.array(corners(format.width, 300)),), expected=expected
    )
    assert result, result.examples


@pytest.mark.parametrize(
    ("format", "width"), [(POSIT8, 16), (POSIT16, 8), (POSIT32, 16), (POSIT32, 8)], ids=str
)
def test_other_widths(format, width):
    def expected(bits):
        value = posit_value(bits, format.width)
        return 1 << (width - 1) if value is None else round_to_posit(value, width)

    core = PositResize(format, width, stages=1)
    result = check_unit(
        core, "resize", FP32, operands=(np.array(corners(format.width, 200)),), expected=expected
    )
    assert result, result.examples


@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_those_of_integers(predicate):
    def expected(a, b):
        a, b = ((float("-inf"),) if v is None else (v,) for v in (posit_value(a, 16), posit_value(b, 16)))
        return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[predicate]

    core = PositCompare(POSIT16, predicate, stages=1)
    result = check_unit(core, "compare", POSIT16, operands=pairs(16, 60), expected=expected)
    assert result, result.examples


def test_refusals():
    with pytest.raises(FloatTypeError, match="format must be a Posit, not "):
        PositAdd(FP32)
    with pytest.raises(FloatParameterError, match="6 to 64"):
        Posit(5)
    with pytest.raises(FloatParameterError, match="unknown predicate"):
        PositCompare(POSIT8, "less")
