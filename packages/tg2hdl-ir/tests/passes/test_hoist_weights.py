"""Tables of weights: nested addresses, and the proof that finds a table that is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tg2hdl_ir import (
    IRCounter,
    IRVerificationError,
    KernelCall,
    ProgramBuffer,
    ProgramIR,
    evaluate_program,
    parse_kernel,
)
from tg2hdl_ir.passes import hoist_weights as module
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.passes.weight_expressions import WeightExpression

KERNEL = parse_kernel(
    """kernel chosen
  b0 out: fp32[6] output
  b1 x: fp32[6]
  b2 table: fp32[12]
  b3 order: int32[3]
  0  RANGE i0 < 3 loop
  1    %0 = LOAD int32 b3[i0]
  2    %1 = LOAD int32 b3[%0]
  3    RANGE i1 < 2 loop
  4      %2 = mul int32 i0, 2:int32
  5      %3 = add int32 %2, i1
  6      %4 = LOAD fp32 b1[%3]
  7      %5 = mul int32 %1, 4:int32
  8      %6 = add int32 %5, i1
  9      %7 = LOAD fp32 b2[%6]
 10      %8 = mul fp32 %7, 2.0:fp32
 11      %9 = mul fp32 %4, %8
 12      STORE fp32 b0[%3] = %9
 13    END i1
 14  END i0
"""
)
ORDER = np.array([2, 0, 1], np.int32)
TABLE = np.arange(12, dtype=np.float32) + 1
X = np.arange(6, dtype=np.float32) + 10


def program(order=ORDER, table=TABLE):
    buffers = (
        ProgramBuffer("y", KERNEL.buffer(0).dtype, (6,), "output"),
        ProgramBuffer("x", KERNEL.buffer(1).dtype, (6,), "input"),
        ProgramBuffer("table", KERNEL.buffer(2).dtype, (12,), "weight", table),
        ProgramBuffer("order", KERNEL.buffer(3).dtype, (3,), "weight", order),
    )
    return ProgramIR("m", buffers, (KernelCall(KERNEL, (0, 1, 2, 3)),), (0,))


def expected(order=ORDER, table=TABLE):
    return X * 2 * table.reshape(3, 4)[order[order], :2].reshape(-1)


@pytest.mark.parametrize("loadable", [False, True])
def test_a_table_of_weights_at_addresses_of_weights(loadable):
    hoisted, preparation = hoist_weights(program(), loadable=loadable)
    assert [b.name for b in hoisted.buffers[4:]] == ["order_table_prepared"]
    np.testing.assert_array_equal(evaluate_program(hoisted, {"x": X})["y"], expected())
    order, table = np.array([1, 2, 0], np.int32), TABLE[::-1].copy()
    made = evaluate_program(preparation, {"order": order, "table": table})
    np.testing.assert_array_equal(evaluate_program(hoisted, {"x": X, **made})["y"], expected(order, table))


def with_wrong_values(monkeypatch):
    kernel = WeightExpression.kernel

    def of_first_column(self, *args):
        second = self.counters[1]
        wrong = {v: self.counters[0] if c is second else c for v, c in self.index_of.items()}
        return kernel(replace(self, index_of=wrong), *args)

    monkeypatch.setattr(WeightExpression, "kernel", of_first_column)


def with_wrong_address(monkeypatch):
    find = module.weight_expressions

    def at_the_first_counter(kernel, fixed, accept):
        found = find(kernel, fixed, lambda e: True)
        (counter,) = (v for v, c in found[0].index_of.items() if c.axis == 0 and isinstance(v, IRCounter))
        wrong = replace(found[0], address=counter)
        assert accept(wrong)
        return [wrong]

    monkeypatch.setattr(module, "weight_expressions", at_the_first_counter)


@pytest.mark.parametrize("loadable", [False, True])
@pytest.mark.parametrize("fault", [with_wrong_values, with_wrong_address])
def test_a_wrong_table_is_an_error_of_the_compiler(fault, loadable, monkeypatch):
    fault(monkeypatch)
    with pytest.raises(IRVerificationError) as error:
        hoist_weights(program(), loadable=loadable)
    # The table is 10 12, 18 20, 2 4; with the column of its row 10 10, 20 20, 6 6; at the row 10 10, 12 12, 18 18.
    number = {with_wrong_values: 4, with_wrong_address: 5}[fault]
    assert str(error.value) == (
        "invalid IR: pass hoist-weights changed a value: order_table_prepared holds 10.0, the expression of weights "
        f"is 12.0 for i0 = 0, i1 = 1; {number} of 6 values differ\n"
        "  at: kernel chosen\n"
        "  hint: this is a bug of tg2hdl, not of the model: please report it with the model"
    )


def test_wrong_tables_are_found_where_the_weights_are_still_zero(monkeypatch):
    with_wrong_values(monkeypatch)
    with pytest.raises(IRVerificationError, match="pass hoist-weights changed a value"):
        hoist_weights(program(np.zeros_like(ORDER), np.zeros_like(TABLE)), loadable=True)


def test_a_weight_that_is_not_a_number_keeps_its_kernel():
    table = np.full(12, np.array(0x7FC00123, np.uint32).view(np.float32))
    hoisted, _ = hoist_weights(program(ORDER, table))
    assert np.isnan(evaluate_program(hoisted, {"x": X})["y"]).all()
