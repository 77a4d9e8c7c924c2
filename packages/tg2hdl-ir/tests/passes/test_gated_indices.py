"""Loads of indices get the gates under which they matter, and only those."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import IRBufLoad, IRVerificationError, evaluate, parse_kernel, verify
from tg2hdl_ir.passes.gated_indices import gate_indices
from tg2hdl_ir.printer import describe

KERNEL = """kernel rows
  b0 out: int32[12] output
  b1 ids: int32[3]
  b2 table: int32[8]
RANGE i0 < 6 loop
%0 = add int32 i0, -1:int32
%1 = LOAD int32 b1[%0]
%2 = lt bool 0:int32, i0
%3 = lt bool i0, 4:int32
%4 = and bool %2, %3
RANGE i1 < 2 loop
%5 = lt bool i1, 1:int32
%6 = and bool %4, %5
%7 = mulacc int32 %1, 2:int32, i1
%8 = mulacc int32 i0, 2:int32, i1
{use}END i1
END i0
"""


def gate(kernel):
    (load,) = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad) and s.buf_idx == 1]
    return None if load.gate is None else describe(load)


@pytest.mark.parametrize(
    "use",
    [
        "%9 = LOAD int32 b2[%7] if %4 else 9:int32\nSTORE int32 b0[%8] = %9\n",
        "%9 = LOAD int32 b2[%7] if %6 else 9:int32\nSTORE int32 b0[%8] = %9\n",
        "%9 = where int32 %4, %7, 5:int32\nSTORE int32 b0[%8] = %9\n",
        "STORE int32 b0[%8] = %7 if %6\n",
        "%9 = lt bool %1, 2:int32\n%10 = and bool %9, %4\nSTORE int32 b0[%8] = i0 if %10\n",
    ],
)
def test_a_load_gets_the_gate_that_is_known_where_it_executes(use):
    kernel = gate_indices(parse_kernel(KERNEL.format(use=use)))
    assert gate(verify(kernel)) == (
        "LOAD int32 b1[add(i0, -1:int32):int32] if and(lt(0:int32, i0):bool, lt(i0, 4:int32):bool):bool else 0:int32"
    )
    buffers = {1: np.array([2, 0, 3], np.int32), 2: np.arange(8, dtype=np.int32) + 100}
    result = evaluate(kernel, buffers)[0].reshape(6, 2)
    same = evaluate(parse_kernel(KERNEL.format(use=use)), buffers)[0].reshape(6, 2)
    np.testing.assert_array_equal(result, same)


@pytest.mark.parametrize(
    "use",
    [
        "STORE int32 b0[%8] = %7\n",
        "STORE int32 b0[%8] = %7 if %5\n",
        "%9 = where int32 %4, 5:int32, %7\nSTORE int32 b0[%8] = %9\n",
        "%9 = LOAD int32 b2[%7] if %4 else %1\nSTORE int32 b0[%8] = %9\n",
        "%9 = eq bool %1, 2:int32\n%10 = or bool %9, %4\nSTORE int32 b0[%8] = i0 if %10\n",
    ],
)
def test_a_load_that_matters_elsewhere_stays_and_is_refused(use):
    kernel = gate_indices(parse_kernel(KERNEL.format(use=use)))
    assert gate(kernel) is None
    with pytest.raises(IRVerificationError, match="addresses -1 to 4 of buffer 1, whose depth is 3"):
        verify(kernel)
