"""Fixed-point numbers to floats and back, and the class of a number."""

import numpy as np
import pytest

from tg2hdl_fp32 import (
    CLASSES,
    FP8_E4M3,
    FP16,
    FP32,
    FP64,
    Classify,
    FloatParameterError,
    FloatToInt,
    FloatTypeError,
    IntToFloat,
    RoundingMode,
)
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, vectors

#: Format, width, point: numbers of ordinary size, below the smallest normal number, and beyond the largest.
POINTS = [
    (FP32, 32, 16),
    (FP16, 16, 15),
    (FP16, 16, 29),
    (FP16, 16, -10),
    (FP8_E4M3, 12, 11),
    (FP8_E4M3, 8, -4),
]
POINTS += [(FP64, 64, 60)]


@pytest.mark.parametrize(("fmt", "width", "point"), POINTS, ids=str)
@pytest.mark.parametrize("signed", [True, False])
def test_fixed_point_to_float(fmt, width, point, signed):
    low = -(1 << width - 1) if signed else 0
    count = 600
    values = np.array([low + (((1 << width) - 1) * k) // count for k in range(count + 1)], dtype=object)
    small = np.arange(-130 if signed and width > 8 else 0, 130, dtype=object) % (1 << width)
    values = np.concatenate([values, small if not signed else (small - low) % (1 << width) + low])
    columns = (values.astype(np.int64 if signed else np.uint64),)
    options = {"width": width, "signed": signed, "point": point}
    for mode in (RoundingMode.RNE, RoundingMode.RDN):
        core = IntToFloat(fmt, width, signed, point=point, profile="comb", rounding=mode)
        outcome = check_unit(core, "int_to_float", fmt, operands=columns, rounding=mode, **options)
        assert outcome, outcome.examples


@pytest.mark.parametrize("mode", RoundingMode, ids=str)
def test_every_fixed_point_number_near_the_smallest(mode):
    """Q1.11 in FP8_E4M3, whose smallest number is 2**-9: ties, and the step to normal numbers."""
    values = np.arange(-2048, 2048)
    options = {"width": 12, "signed": True, "point": 11}
    core = IntToFloat(FP8_E4M3, rounding=mode, stages=2, **options)
    outcome = check_unit(core, "int_to_float", FP8_E4M3, operands=(values,), rounding=mode, **options)
    assert outcome, outcome.examples


def test_flags_and_flush_of_tiny_fixed_point_numbers():
    """2**-6 is the smallest normal number of FP8_E4M3, 32 units of 2**-11."""
    values = np.array([32, -32, 31, -31, 4, -4, 3, 0])
    exact = IntToFloat(FP8_E4M3, 12, point=11, profile="comb", flags=True)
    flushed = IntToFloat(FP8_E4M3, 12, point=11, profile="comb", subnormals=False)
    simulations = [BitSlicedSimulation(core, len(values)) for core in (exact, flushed)]
    for simulation in simulations:
        simulation.set("a", values)
    # Tiny and inexact raises underflow.
    assert simulations[0].get("flags").tolist() == [0, 0, 3, 3, 0, 0, 3, 0]
    decoded = [FP8_E4M3.decode(int(bits)) for bits in simulations[1].get("result")]
    assert decoded == [2.0**-6, -(2.0**-6), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("fmt", "width", "point"), POINTS, ids=str)
@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
def test_float_to_fixed_point(fmt, width, point, overflow):
    step = max((1 << fmt.width) // 1500, 1)
    spread = np.array(range(0, 1 << fmt.width, step), dtype=np.uint64)
    # Numbers whose last bits are worth 1, 1/2 and 1/4 of a unit.
    center = fmt.encode(2.0 ** (min(width, fmt.significand) - 2 - point)) if abs(point) < 60 else fmt.one
    near = np.arange(center, center + 40, dtype=np.uint64)
    values = np.concatenate([vectors(fmt, 1, 100)[0], spread, near])
    options = {"width": width, "point": point, "overflow": overflow}
    for mode in (RoundingMode.RNE, RoundingMode.RUP):
        core = FloatToInt(fmt, profile="comb", rounding=mode, **options)
        outcome = check_unit(core, "float_to_int", fmt, operands=(values,), rounding=mode, **options)
        assert outcome, outcome.examples


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: IntToFloat(FP16, 16, point=30),
            "a binary point 30 does not suit 16 bits and FP16; use -15 to 29",
        ),
        (
            lambda: FloatToInt(FP16, 16, point=-16),
            "a binary point -16 does not suit 16 bits and FP16; use -15 to 29",
        ),
        (lambda: IntToFloat(FP16, 16, point=1.0), "point must be an int, not 1.0"),
    ],
)
def test_refused(make, message):
    with pytest.raises((FloatParameterError, FloatTypeError)) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("fmt", [FP32, FP8_E4M3, FP64], ids=str)
def test_class_of_a_number(fmt):
    outcome = check_unit(Classify(fmt), "classify", fmt, operands=vectors(fmt, 1, 100))
    assert outcome, outcome.examples


def test_class_names():
    numbers = {
        "positiveNormal": 1.5,
        "negativeZero": -0.0,
        "negativeInfinity": float("-inf"),
        "quietNaN": float("nan"),
    }
    numbers |= {"positiveSubnormal": 2.0**-149}
    simulation = BitSlicedSimulation(Classify(FP32, profile="comb"), len(numbers))
    simulation.set("a", np.array([FP32.encode(x) for x in numbers.values()], np.uint64))
    assert [CLASSES[int(bits).bit_length() - 1] for bits in simulation.get("result")] == list(numbers)
    assert [int(bits).bit_count() for bits in simulation.get("result")] == [1] * len(numbers)
