"""Printed form: golden files, round trips, and what cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tg2hdl_ir import (
    DType,
    InputError,
    IRVariable,
    KernelCall,
    ProgramBuffer,
    ProgramIR,
    evaluate,
    evaluate_program,
    format_kernel,
    format_program,
    parse_kernel,
    parse_program,
    verify,
)
from tg2hdl_ir.printer import describe
from tg2hdl_ir.testing.samples import conv3x3, elementwise, matmul, padded_sum
from tg2hdl_ir.testing.strategies import kernels


@settings(max_examples=60, deadline=None, derandomize=True)
@given(kernels())
def test_random_kernels_verify_and_survive_the_round_trip(case):
    kernel, buffers, variables = case
    verify(kernel)
    text = format_kernel(kernel)
    again = verify(parse_kernel(text))
    assert format_kernel(again) == text
    expected = evaluate(kernel, buffers, variables)
    actual = evaluate(again, buffers, variables)
    assert actual.keys() == expected.keys()
    for slot, array in expected.items():
        np.testing.assert_array_equal(actual[slot], array)


def everything():
    return parse_kernel(EVERYTHING)


EVERYTHING = """kernel "two words"
  b0 out: fp32[24] output
  b1 "in put": int8[24]
  b2: bool[4]
  r0: fp32
  r1: int32[4]
  $n: int32 0..4
SET r0 = -0.0:fp32
%0 = mul int32 $n, 2:int32
RANGE i0:int64 < 3 loop
RANGE i1 < %0 reduce
%1 = cast int32 i0
%2 = mulacc int32 %1, 8:int32, i1
%3 = lt bool i1, $n
%4 = LOAD int8 b1[%2] if %3 else -1:int8
%5 = LOAD bool b2[1:int32] if %3
%6 = GET fp32 r0
%7 = cast fp32 %4
%8 = where fp32 %5, %7, inf:fp32
%9 = add fp32 %6, %8
SET r0 = %9 if %3
SET r1[3:int32] = i1
END i1
RANGE i2 < 4 loop
%10 = GET int32 r1[i2]
SET r1[i2] = %10 if true:bool
END i2
%11 = GET fp32 r0
%12 = mul fp32 %11, 1e-45:fp32
STORE fp32 b0[%1] = %12 if false:bool
END i0
"""


def test_printed_form_of_everything(expect):
    expect("everything.expect", format_kernel(everything()))


@pytest.mark.parametrize("kernel", [matmul(2, 3, 4), padded_sum(5), conv3x3(4, 2, 2)], ids=lambda k: k.name)
def test_printed_kernels(expect, kernel):
    verify(kernel)
    expect(f"{kernel.name}.expect", kernel.format())
    assert kernel.pretty() == kernel.format()


def test_without_buffers():
    assert format_kernel(elementwise(3), show_buffers=False) == (
        "kernel elementwise\n"
        " 0  RANGE i0 < 3 loop\n"
        " 1    %0 = LOAD fp32 b1[i0]\n"
        " 2    %1 = LOAD fp32 b2[i0]\n"
        " 3    %2 = add fp32 %0, %1\n"
        " 4    STORE fp32 b0[i0] = %2\n"
        " 5  END i0\n"
    )


def net():
    first, second = elementwise(6, "add", "int32"), elementwise(6, "mul", "int32")
    i = DType.INT32
    buffers = (
        ProgramBuffer("x", i, (2, 3), "input"),
        ProgramBuffer("layer 1", i, (6,), "weight", np.arange(6, dtype=np.int32)),
        ProgramBuffer("s", i, (), "temporary"),
        ProgramBuffer("y", i, (6,), "output"),
    )
    calls = (KernelCall(first, (3, 0, 1)), KernelCall(second, (3, 3, 1)), KernelCall(first, (3, 3, 1)))
    return ProgramIR("net", buffers, calls, (3, 0), (IRVariable("n", 1, 7),))


def test_programs_survive_the_round_trip(expect):
    text = format_program(net())
    expect("program.expect", text)
    again = parse_program(text, {"layer 1": np.arange(6, dtype=np.int32)})
    assert format_program(again) == text
    assert again.calls[0].kernel is again.calls[2].kernel
    x = np.ones((2, 3), np.int32)
    assert (
        evaluate_program(again, {"x": x}, {"n": 1})["y"].tolist()
        == evaluate_program(net(), {"x": x})["y"].tolist()
    )


def test_descriptions_are_short():
    kernel = conv3x3(4, 2, 2)
    store = list(kernel.loop_tree.statements())[-1]
    assert describe(store) == ("STORE int32 b0[add(add(..., ...):int32, i2):int32] = GET int32 r0")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "FETCH b1",
            "bad input: cannot read 'FETCH b1', expected a statement, an op, RANGE or END\n  at: line 6",
        ),
        ("STORE fp32 b0[%7] = %0", "bad input: %7 is not defined before its use\n  at: line 6"),
        ("STORE fp32 b0[x:int32] = %0", "bad input: 'x' is not a int32 literal\n  at: line 6"),
        (
            "%5 = add real %0, %0",
            "bad input: unknown dtype 'real'\n  at: line 6\n  hint: known: bool, int8, int16, int32, int64, uint8, "
            "uint16, uint32, uint64, fp8_e4m3, fp8_e5m2, fp16, bf16, fp32, fp64, intN, uintN",
        ),
        (
            "END i9",
            "bad input: cannot read 'END i9', expected the end of the innermost open RANGE\n  at: line 6",
        ),
        ("RANGE i1 < 2 loop", "bad input: RANGE i0 has no END\n  at: line 9"),
    ],
)
def test_unreadable_lines(line, text):
    with pytest.raises(InputError) as error:
        parse_kernel(
            "kernel k\n  b0: fp32[3] output\n  b1: fp32[3]\nRANGE i0 < 3 loop\n%0 = LOAD fp32 b1[i0]\n"
            + line
            + ("\nEND i1" if line.startswith("RANGE") else "\nEND i0")
            + "\n\nSTORE fp32 b0[0:int32] = 0.0:fp32\n"
        )
    assert str(error.value) == text


def test_texts_that_are_no_kernel_or_program():
    with pytest.raises(InputError) as error:
        parse_kernel("karnel k\n")
    assert str(error.value) == "bad input: cannot read 'karnel k', expected 'kernel <name>'\n  at: line 1"
    with pytest.raises(InputError) as error:
        parse_program("")
    assert str(error.value) == (
        "bad input: there is no program in an empty text\n  hint: give text that format_program printed"
    )
    with pytest.raises(InputError) as error:
        parse_program("program p\n  call 0(m0)\n")
    assert str(error.value) == (
        "bad input: cannot read 'call 0(m0)', expected a buffer, variable, call of a printed kernel, or return\n"
        "  at: line 2"
    )
    with pytest.raises(InputError) as error:
        parse_program("kernel p\n")
    assert str(error.value) == "bad input: cannot read 'kernel p', expected 'program <name>'\n  at: line 1"
