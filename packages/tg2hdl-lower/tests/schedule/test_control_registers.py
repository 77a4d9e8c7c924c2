"""Flags of control in registers: the plan says which, and emission follows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from amaranth.back import rtlil

from tg2hdl_ir.testing.samples import matmul, padded_sum
from tg2hdl_lower import CompiledKernel, plan_kernel
from tg2hdl_lower.plan.accesses import Store
from tg2hdl_lower.plan.control_registers import ControlRegisters

NONE = ControlRegisters()


def test_outer_loops_advance_by_registers_while_the_innermost_one_takes_two_cycles():
    assert plan_kernel(matmul(2, 3, 4)).control_registers.advances == {0}
    # A loop of one step a cycle leaves no time for it.
    assert plan_kernel(matmul(2, 1, 1)).control_registers.advances == set()


def test_a_gate_that_is_known_a_cycle_before_enables_from_a_register():
    plan = plan_kernel(matmul(2, 3, 4))
    (store,) = plan.all(Store)
    (gate,) = {entry.gate for entry in store.lanes}
    assert (store.number, gate) in plan.control_registers.enables
    assert f"(registered enable by %{gate})" in plan.format()


def test_emission_asks_the_plan(same_as_golden):
    kernel = padded_sum(9)
    plan = plan_kernel(kernel)
    without = replace(plan, control_registers=NONE)
    assert plan.control_registers != NONE
    texts = [rtlil.convert(CompiledKernel(p), emit_src=False) for p in (plan, without)]
    registers = [text.count("$dff") + text.count("$sdff") + text.count("$flop") for text in texts]
    assert texts[0] != texts[1]
    assert registers[0] > registers[1]
    rng = np.random.default_rng(3)
    buffers = {
        b.idx: rng.integers(-9, 9, b.depth).astype(b.dtype.numpy()) for b in kernel.buffers if not b.is_output
    }
    # The registers are for the clock alone: bits and cycles are those without.
    for variant in (plan, without):
        same_as_golden(kernel, variant, buffers)
