"""Equal kernels become one: with other names, buffers and constants of addresses, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tg2hdl_ir import (
    DType,
    KernelCall,
    ProgramBuffer,
    ProgramIR,
    evaluate_program,
    format_program,
    parse_kernel,
    parse_program,
)
from tg2hdl_ir.passes.common_kernels import bind_values, with_common_kernels

KERNEL = """kernel {name}
  b0 y: int32[4] output
  b1 x: int32[16]
  0  RANGE i0 < 4 loop
  1    %0 = {scale} int32 i0, 1:int32
  2    %1 = add int32 %0, {offset}:int32
  3    %2 = LOAD int32 b1[%1]
  4    %3 = add int32 %2, {added}:int32
  5    STORE int32 b0[i0] = %3
  6  END i0
"""


def _program(*kernels: str) -> ProgramIR:
    buffers = [ProgramBuffer("x", DType.INT32, (16,), "input")]
    buffers += [ProgramBuffer(f"y{n}", DType.INT32, (4,), "output") for n in range(len(kernels))]
    calls = tuple(KernelCall(parse_kernel(text), (n + 1, 0)) for n, text in enumerate(kernels))
    return ProgramIR("p", tuple(buffers), calls, tuple(range(1, len(kernels) + 1)))


def _kernel(offset: int, name: str = "k", scale: str = "mul", added: int = 5) -> str:
    return KERNEL.format(offset=offset, name=name, scale=scale, added=added)


def test_offsets_are_values_of_calls():
    program = _program(_kernel(4, "first"), _kernel(0, "second"), _kernel(12))
    common = with_common_kernels(program)
    assert len({call.kernel for call in common.calls}) == 1
    assert [call.values for call in common.calls] == [(("base0", 1),), (("base0", 0),), (("base0", 3),)]
    (variable,) = common.calls[0].kernel.variables
    assert (variable.low, variable.high) == (0, 3)
    x = np.arange(16, dtype=np.int32) ** 2
    found = evaluate_program(common, {"x": x})
    for n, offset in enumerate((4, 0, 12)):
        np.testing.assert_array_equal(found[f"y{n}"], x[offset : offset + 4] + 5)


def test_equal_kernels_need_no_variable():
    common = with_common_kernels(_program(_kernel(4), _kernel(4, "other")))
    assert common.calls[0].kernel is common.calls[1].kernel
    assert not common.calls[0].kernel.variables


@pytest.mark.parametrize("other", [{"added": 6}, {"scale": "shl"}])
def test_other_kernels_stay(other: dict[str, object]):
    program = _program(_kernel(4), _kernel(4, **other))
    assert [c.kernel for c in with_common_kernels(program).calls] == [c.kernel for c in program.calls]


def test_constants_are_compared_by_their_bits():
    text = """kernel k
  b0 y: fp32[1] output
  0  STORE fp32 b0[0:int32] = {}:fp32
"""
    buffers = tuple(ProgramBuffer(f"y{n}", DType.FP32, (1,), "output") for n in range(2))
    calls = tuple(KernelCall(parse_kernel(text.format(v)), (n,)) for n, v in enumerate(("0.0", "-0.0")))
    common = with_common_kernels(ProgramIR("p", buffers, calls, (0, 1)))
    assert common.calls[0].kernel is not common.calls[1].kernel


def test_values_can_be_bound_again():
    program = _program(_kernel(4), _kernel(0))
    common = with_common_kernels(program)
    bound = replace(common, calls=tuple(map(bind_values, common.calls)))
    assert not any(call.values or call.kernel.variables for call in bound.calls)
    x = np.arange(16, dtype=np.int32) * 7
    for name, array in evaluate_program(program, {"x": x}).items():
        np.testing.assert_array_equal(evaluate_program(bound, {"x": x})[name], array)


def test_values_are_printed_and_parsed():
    common = with_common_kernels(_program(_kernel(4), _kernel(0)))
    text = format_program(common)
    assert "call 0(m1, m0) $base0=1" in text
    assert format_program(parse_program(text)) == text
