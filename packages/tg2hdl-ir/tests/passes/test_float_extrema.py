"""Maxima and minima of floats in lanes: the bits of one element after the other, NaN and signs of zeros included."""

import itertools
from functools import reduce

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel, verify
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.testing.samples import row_max

VALUES = (np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0)
TERMS = 5
ROWS = np.array(list(itertools.product(VALUES, repeat=TERMS)), np.float32)


def kernel(op: str, dtype: str = "fp32"):
    text = row_max(len(ROWS), TERMS, dtype).format()
    if op == "min":
        text = text.replace("max fp32", "min fp32").replace("-inf", "inf")
    return parse_kernel(text)


def in_lanes(made, lanes: int):
    info = analyze_axes(made)
    return verify(balance(forward_registers(unroll(flatten(made), info, {1: lanes}))))


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("lanes", [2, 3, 4, 5])
def test_every_sequence_of_special_values(op: str, lanes: int) -> None:
    made = kernel(op)
    assert analyze_axes(made).scanned == {1}
    assert not analyze_axes(made).reducible
    found = evaluate(in_lanes(made, lanes), {0: np.zeros(len(ROWS), np.float32), 1: ROWS.reshape(-1)})[0]
    # tinygrad's definition, one element after the other.
    larger = (lambda a, b: b if b > a else a) if op == "max" else (lambda a, b: b if b < a else a)
    start = np.float32(-np.inf if op == "max" else np.inf)
    expected = np.array([reduce(larger, row, start) for row in ROWS], np.float32)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_the_register_waits_for_one_comparison() -> None:
    flat = in_lanes(parse_kernel(row_max(2, 16).format()), 8)
    text = flat.format()
    # A tree of 8 terms, the register, and -inf in the place of a NaN in front of each pair.
    assert text.count("max fp32") == 8 + 4
    assert text.count("GET fp32 r0") == 1


def test_operands_in_the_other_order_stay() -> None:
    text = row_max(2, 4).format()
    line = next(each for each in text.splitlines() if "max fp32" in each)
    first, second = line.split("max fp32 ")[1].split(", ")
    turned = parse_kernel(text.replace(f"max fp32 {first}, {second}", f"max fp32 {second}, {first}"))
    info = analyze_axes(turned)
    assert not info.scanned | info.reducible


def test_a_format_without_infinity_stays() -> None:
    info = analyze_axes(kernel("max", "fp8_e4m3"))
    assert not info.scanned | info.reducible
