"""The built-in rewrites of kernels and programs, by stage, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tg2hdl_ir.passes.alternatives import add_alternatives
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.bias import start_at_bias
from tg2hdl_ir.passes.clearing import clear_with_last
from tg2hdl_ir.passes.common_kernels import with_bound_values, with_common_kernels
from tg2hdl_ir.passes.constant_channels import drop_constant_channels
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.cut_kernel import cut_kernel
from tg2hdl_ir.passes.cut_products import cut_products
from tg2hdl_ir.passes.divided import split_divided_loops
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.passes.follow import in_order, with_idle_steps
from tg2hdl_ir.passes.forward_stores import forward_stores
from tg2hdl_ir.passes.gated_addresses import simplify_gated_addresses
from tg2hdl_ir.passes.guarded_loops import guard_loops
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.passes.hold import hold_overwritten_loads
from tg2hdl_ir.passes.initial import choose_initial_late
from tg2hdl_ir.passes.initial_registers import set_initial_registers
from tg2hdl_ir.passes.instrument import pass_of
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.lead_in import lead_in
from tg2hdl_ir.passes.merge_branches import merge_branches
from tg2hdl_ir.passes.mulacc import expand_mulacc
from tg2hdl_ir.passes.outside import gate_outside_accesses
from tg2hdl_ir.passes.pack_products import pack_products
from tg2hdl_ir.passes.partial_sums import split_sum
from tg2hdl_ir.passes.phases import phase_forms
from tg2hdl_ir.passes.producers import producer_forms
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.rows import with_row_loop_first, with_rows, with_stored_order
from tg2hdl_ir.passes.scan import scan_forms
from tg2hdl_ir.passes.scatter import scatter_forms
from tg2hdl_ir.passes.sections import section_forms
from tg2hdl_ir.passes.signs import choose_signs
from tg2hdl_ir.passes.single_registers import drop_single_indices
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.passes.split_loops import split_loops
from tg2hdl_ir.passes.sum_turns import sum_in_turns
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.plugins.descriptors import PassDef

__all__ = ["BUILTIN_PASSES"]


def _table(
    stage: str, *functions: Callable[..., Any], proposes: bool = False, exclusive: bool = False
) -> list[PassDef]:
    found = [(function, pass_of(function)) for function in functions]
    return [
        PassDef(
            entry.name,
            entry.description,
            function,
            proposes=proposes,
            stage=stage,
            term=entry.term,
            exclusive=exclusive,
        )
        for function, entry in found
    ]


BUILTIN_PASSES = [
    *_table("weights", fold_scales, drop_constant_channels, hoist_weights),
    *_table(
        "canonical",
        expand_mulacc,
        choose_signs,
        gate_outside_accesses,
        simplify_gated_addresses,
        add_alternatives,
        drop_single_indices,
        guard_loops,
        hold_overwritten_loads,
        set_initial_registers,
        split_loops,
    ),
    *_table("calls", with_common_kernels, with_bound_values),
    *_table("merges", merge_branches, proposes=True),
    *_table("producers", producer_forms, proposes=True),
    *_table(
        "forms",
        scan_forms,
        scatter_forms,
        phase_forms,
        section_forms,
        split_divided_loops,
        with_constant_taps,
        proposes=True,
        exclusive=True,
    ),
    *_table("cuts", start_at_bias, cut_kernel, cut_products, split_sum),
    *_table("lanes", flatten, unroll, pack_products),
    *_table("loops", lead_in, interleave, sum_in_turns, forward_stores, in_order, with_idle_steps),
    *_table("registers", forward_registers, balance, choose_initial_late, clear_with_last),
    *_table(
        "parts",
        split_axis,
        with_stored_order,
        with_row_loop_first,
        with_rows,
    ),
]
