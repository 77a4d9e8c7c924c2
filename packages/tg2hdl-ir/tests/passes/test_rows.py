"""Kernels that cannot run row by row."""

import pytest

from tg2hdl_ir import InputError, UnsupportedError, parse_kernel
from tg2hdl_ir.opt import rewrite_text
from tg2hdl_ir.passes.rows import with_rows, with_stored_order
from tg2hdl_ir.testing.samples import elementwise

OTHER = 'choose another schedule, such as schedule="dataflow"'
ONE_STATEMENT = """kernel one
  b0 out: int32[1] output
  STORE int32 b0[0:int32] = 1:int32
"""
SUM = """kernel total
  b0 out: int32[1] output
  b1 x: int32[4]
  r0: int32
SET r0 = 0:int32
RANGE i0 < 4 reduce
  %0 = LOAD int32 b1[i0]
  %1 = GET int32 r0
  %2 = add int32 %1, %0
  SET r0 = %2
END i0
%3 = GET int32 r0
STORE int32 b0[0:int32] = %3
"""
CARRIED = """kernel carried
  b0 out: int32[4] output
  b1 x: int32[4]
  r0: int32
RANGE i0 < 4 loop
  %0 = LOAD int32 b1[i0]
  %1 = GET int32 r0
  %2 = add int32 %1, %0
  SET r0 = %2
  STORE int32 b0[i0] = %2
END i0
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ONE_STATEMENT, "a kernel whose outermost loop is not over rows cannot run row by row"),
        (SUM, "a kernel whose outermost loop is not over rows cannot run row by row"),
        (CARRIED, "a kernel in which a row depends on the rows before it cannot run row by row"),
    ],
)
def test_a_kernel_without_rows_is_refused(text, reason):
    kernel = parse_kernel(text)
    with pytest.raises(UnsupportedError) as error:
        with_rows(kernel)
    assert (error.value.message, error.value.where, error.value.hint) == (reason, kernel.where, OTHER)


def test_an_order_that_is_not_known_is_refused():
    kernel = elementwise(4)
    with pytest.raises(UnsupportedError) as error:
        with_stored_order(kernel, [1], lambda form, interval: None)
    assert error.value.message == "a kernel reads the rows of another one in an order that is not known"
    assert error.value.hint == OTHER


def test_buffers_that_are_not_matrices_of_one_size():
    with pytest.raises(InputError) as error:
        rewrite_text(elementwise(4).format(), ["rows-order"], {"inner": [3]})
    assert str(error.value) == (
        "bad input: the buffers are not matrices of one size with rows of 3 elements\n"
        "  hint: give buffers of one depth, and a divisor of it as inner"
    )
