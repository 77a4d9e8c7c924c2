"""Triangles of sums that become scans, compared with loops in numpy, and kernels that must stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, evaluate, parse_kernel, verify
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.scan import scan_forms
from tg2hdl_ir.passes.unroll import unroll

TRIANGLE = """\
kernel triangle
  b0 output: {type}[{outputs}] output
  b1 x: {type}[16]
  r0: {type}
  0  RANGE i0 < {outputs} loop
  1    SET r0 = {start}:{type}
  2    RANGE i1 < {terms} reduce
{term}
 90      %90 = GET {type} r0
 91      %91 = {op} {type} {operands}
 92      SET r0 = %91
 93    END i1
 94    %92 = GET {type} r0
 95    STORE {type} b0[i0] = %92
 96  END i0
"""
SLIDING = """\
  3      %0 = add int32 i1, i0
  4      %1 = add int32 %0, {shift}:int32
  5      %2 = lt bool {least}:int32, %0
  6      %3 = LOAD {type} b1[%1] if %2 else {neutral}:{type}"""
MASKED = """\
  3      %1 = LOAD {type} b1[i1]
  4      %2 = lt bool {condition}
  5      %3 = where {type} %2, {neutral}:{type}, %1"""

BACKWARDS = SLIDING.replace("b1[%1]", "b1[i1]")


def triangle(term: str, **values: object):
    given = {"type": "int32", "start": "0", "neutral": "0", "op": "add", "outputs": 8, "terms": 8}
    given |= {"operands": "%90, %3"} | values
    term = term.format(**given)
    return verify(parse_kernel(TRIANGLE.format(term=term, **given)))


def contents(kernel, seed: int = 0) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = kernel.buffer(1)
    if x.dtype.is_float:
        values = rng.standard_normal(x.depth) * 10.0 ** rng.integers(-9, 9, x.depth)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45])
        values = np.where(rng.random(x.depth) < 0.2 * (seed % 2), rng.choice(special, x.depth), values)
    else:
        values = rng.integers(-(2**31), 2**31, x.depth)
    output = kernel.buffer(0)
    return {0: np.zeros(output.depth, output.dtype.numpy()), 1: values.astype(x.dtype.numpy())}


def the_scan(kernel):
    ((made,),) = scan_forms(kernel)
    verify(made)
    assert max(loop.depth for loop in made.loop_tree.walk()) == 0
    for seed in range(8):
        memories = contents(kernel, seed)
        with np.errstate(all="ignore"):
            expected, found = (evaluate(each, memories)[0] for each in (kernel, made))
        assert np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f")
        if expected.dtype.kind == "f":
            kept = ~np.isnan(expected)
            assert np.array_equal(np.signbit(expected[kept]), np.signbit(found[kept]))
    return made


@pytest.mark.parametrize("dtype", ["int32", "fp32"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize(("outputs", "terms"), [(8, 8), (5, 8), (8, 5)])
def test_a_padded_window_is_a_scan(dtype: str, exclusive: int, outputs: int, terms: int) -> None:
    zero = "0.0" if dtype == "fp32" else "0"
    # The last output adds the first elements of x, so that all windows are padded at the front.
    shift = 1 - outputs - exclusive
    kernel = triangle(
        SLIDING,
        type=dtype,
        start=zero,
        neutral=zero,
        outputs=outputs,
        terms=terms,
        shift=shift,
        least=-shift - 1,
    )
    made = the_scan(kernel)
    memories = contents(kernel)
    padded = np.concatenate([np.zeros(outputs - 1 + exclusive, memories[1].dtype), memories[1]])
    sums = [padded[n : n + terms].cumsum(dtype=padded.dtype)[-1] for n in range(outputs)]
    assert evaluate(made, memories)[0].tolist() == sums


@pytest.mark.parametrize("dtype", ["int32", "fp32"])
@pytest.mark.parametrize(
    ("condition", "sums"),
    [
        ("i0, i1", lambda x: x.cumsum(dtype=x.dtype)),
        ("%8, i1", lambda x: x.cumsum(dtype=x.dtype) - x),
        ("i1, i0", lambda x: x[::-1].cumsum(dtype=x.dtype)[::-1]),
    ],
)
def test_a_masked_square_is_a_scan(dtype: str, condition: str, sums) -> None:
    zero = "0.0" if dtype == "fp32" else "0"
    term = MASKED.replace("  4  ", "  3      %8 = sub int32 i0, 1:int32\n  4  ")
    kernel = triangle(term, type=dtype, start=zero, neutral=zero, condition=condition)
    if dtype == "fp32" and condition == "i1, i0":
        assert scan_forms(kernel) == [], "sums from the last term on would be in another order"
        return
    made = the_scan(kernel)
    if dtype == "int32":
        memories = contents(kernel)
        assert evaluate(made, memories)[0].tolist() == sums(memories[1][:8]).tolist()


def test_integers_are_added_from_the_last_term_on() -> None:
    kernel = triangle(BACKWARDS, shift=-7, least=6)
    memories = contents(kernel)
    expected = memories[1][7::-1].cumsum(dtype=np.int32)
    assert evaluate(the_scan(kernel), memories)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("dtype", "op", "start", "neutral"),
    [
        ("int32", "max", "-2147483648", "-2147483648"),
        ("int32", "max", "5", "5"),
        ("int32", "min", "2147483647", "2147483647"),
        ("int32", "mul", "1", "1"),
        ("int32", "xor", "-7", "0"),
        ("fp32", "max", "-inf", "-inf"),
        ("fp32", "mul", "2.5", "1.0"),
        ("fp32", "add", "-3.0", "0.0"),
        ("fp32", "add", "-0.0", "-0.0"),
    ],
)
def test_other_operations(dtype: str, op: str, start: str, neutral: str) -> None:
    values = {"type": dtype, "op": op, "start": start, "neutral": neutral}
    the_scan(triangle(SLIDING, shift=-7, least=6, **values))
    masked = triangle(MASKED, condition="i0, i1", **values)
    if (start, neutral) == ("5", "5"):
        # A masked term after the last one would change a smaller maximum only if there were one: 5 is the least.
        assert scan_forms(masked) == []
    else:
        the_scan(masked)


@pytest.mark.parametrize(
    ("term", "values"),
    [
        (SLIDING, {"shift": -7, "least": 6, "neutral": "1"}),
        (SLIDING, {"shift": 0, "least": -1}),
        (SLIDING, {"shift": -7, "least": 5, "outputs": 9, "terms": 8}),
        (BACKWARDS, {"shift": -7, "least": 6, "type": "fp32", "start": "0.0", "neutral": "0.0"}),
        (SLIDING, {"shift": -7, "least": 6, "type": "fp32", "start": "-0.0", "neutral": "0.0"}),
        (MASKED, {"condition": "i0, i1", "type": "fp32", "start": "-0.0", "neutral": "0.0"}),
        (
            MASKED,
            {
                "condition": "i0, i1",
                "type": "fp32",
                "op": "max",
                "start": "-inf",
                "neutral": "-inf",
                "operands": "%3, %90",
            },
        ),
        (MASKED, {"condition": "i0, i1", "neutral": "1"}),
        (MASKED, {"condition": "i1, 4:int32"}),
        (MASKED, {"condition": "i0, i1", "outputs": 9, "terms": 8}),
        (MASKED.replace("b1[i1]", "b1[i0]"), {"condition": "i0, i1"}),
        (MASKED, {"condition": "i0, i1", "op": "sub", "operands": "%3, %90"}),
    ],
)
def test_what_is_no_scan_stays(term: str, values: dict[str, object]) -> None:
    assert scan_forms(triangle(term, **values)) == []


def test_a_kernel_in_place_stays() -> None:
    text = (
        triangle(SLIDING, shift=-7, least=6)
        .format()
        .replace("b1[", "b0[")
        .replace("[8] output", "[16] output")
    )
    assert scan_forms(verify(parse_kernel(text))) == []


@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
@pytest.mark.parametrize("op", ["add", "max"])
def test_lanes_of_a_scan_store_every_prefix(lanes: int, op: str) -> None:
    start = "0" if op == "add" else "-2147483648"
    made = the_scan(triangle(SLIDING, shift=-7, least=6, op=op, start=start, neutral=start))
    info = analyze_axes(made)
    assert info.scanned == {0}
    assert not info.reducible
    flat = balance(forward_registers(unroll(flatten(made), info, {0: lanes})))
    memories = contents(made)
    assert evaluate(verify(flat), memories)[0].tolist() == evaluate(made, memories)[0].tolist()
    assert flat.registers[0].dtype == DType.INT32
