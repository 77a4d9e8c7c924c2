"""Order of the uses of an array of registers within a step."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir import parse_kernel
from tg2hdl_lower import plan_kernel


def test_an_element_that_was_written_in_the_same_step_is_read_again(same_as_golden):
    kernel = parse_kernel(
        "kernel k\n  b0: int32[4] output\n  b1: int32[4]\n  r0: int32[4]\n"
        "RANGE i0 < 4 loop\nSET r0[i0] = 0:int32\nEND i0\n"
        "RANGE i1 < 4 loop\n%0 = LOAD int32 b1[i1]\n%1 = and int32 %0, 3:int32\nSET r0[i1] = %0\n"
        "%2 = GET int32 r0[%1]\n%3 = add int32 %2, 1:int32\nSET r0[%1] = %3\n"
        "%4 = GET int32 r0[i1]\nSTORE int32 b0[i1] = %4\nEND i1\n"
    )
    for data in ([0, 1, 2, 3], [3, 3, 1, 0], [1, 0, 7, 6]):
        same_as_golden(kernel, plan_kernel(kernel), {1: np.array(data, np.int32)}, runs=2)
