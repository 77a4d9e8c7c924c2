"""Rewrites of programs and steps of the search on printed programs, for ``tg2hdl ir-opt``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tg2hdl_ir import InputError, ProgramIR
from tg2hdl_ir.opt import Options, alone
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_top.element_types import element_types
from tg2hdl_top.external.tiles import tilings, with_tiles
from tg2hdl_top.memo import search_memo
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program
from tg2hdl_top.repeats.find import separated
from tg2hdl_top.repeats.groups import buffer_groups
from tg2hdl_top.repeats.reuse import with_reused_temporaries
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.search.cuts import with_cut_kernels, with_cut_products
from tg2hdl_top.search.form import Form
from tg2hdl_top.search.forms import with_best_forms, with_merged_branches, with_producers
from tg2hdl_top.search.search import with_regrouped_sums
from tg2hdl_top.search.sums import with_bias_first, with_partial_sums

MULTIPLIERS = 8
"""Of the designs that a step of the search plans, unless the options say otherwise."""

_STEPS: dict[str, Callable[[Form, CompileOptions], Form]] = {
    "choose-merges": with_merged_branches,
    "choose-producers": with_producers,
    "choose-forms": with_best_forms,
    "choose-cuts": with_cut_kernels,
    "choose-product-cuts": with_cut_products,
    "choose-partial-sums": with_partial_sums,
    "choose-bias": with_bias_first,
}


def _canonical(program: ProgramIR) -> ProgramIR:
    kernels = {call.kernel: canonicalize(call.kernel) for call in program.calls}
    return replace(program, calls=tuple(replace(c, kernel=kernels[c.kernel]) for c in program.calls))


def _chosen(options: Options, *, relaxed: bool = False) -> CompileOptions:
    (multipliers,) = options.get("multipliers", (MULTIPLIERS,))
    return CompileOptions(multipliers=multipliers, float_order="relaxed" if relaxed else "strict")


def _enter_step(name: str, step: Callable[[Form, CompileOptions], Form]) -> None:
    @alone(name, multipliers=str(MULTIPLIERS))
    def run(program: ProgramIR, options: Options) -> ProgramIR:
        relaxed = name in ("choose-partial-sums", "choose-bias")
        with search_memo():
            return step(Form(_canonical(program)), _chosen(options, relaxed=relaxed)).program


for _name, _step in _STEPS.items():
    _enter_step(_name, _step)


@alone("slice-axis", call="0", runs="the fewest")
def _sliced(program: ProgramIR, options: Options) -> ProgramIR:
    """All weights of a call are outside the chip."""
    program = _canonical(program)
    (number,), wanted = options.get("call", (0,)), options.get("runs")
    if not 0 <= number < len(program.calls):
        raise InputError(f"there is no call {number}", hint=f"give one from 0 to {len(program.calls) - 1}")
    call = program.calls[number]
    weights = {n for n in call.buffers if program.buffers[n].role == "weight"}
    found = tilings(program, call, weights)
    for tiling in found:
        if wanted is None or tiling.runs == wanted[0]:
            return with_tiles(program, {number: (weights, tiling)})
    counts = ", ".join(str(n) for n in sorted({tiling.runs for tiling in found}))
    hint = f"give runs={counts}" if found else "give another call: no loop cuts all of its weights into tiles"
    raise InputError(f"call {number} cannot be cut into such tiles", hint=hint)


@alone("separate-kernels")
def _separated(program: ProgramIR, options: Options) -> ProgramIR:
    return separated(program, [call.kernel for call in program.calls])


@alone("reuse-temporaries")
def _reused(program: ProgramIR, options: Options) -> ProgramIR:
    storage = element_types(program, buffer_roles(program, CompileOptions()))
    return with_reused_temporaries(program, buffer_groups(program), storage)


@alone("take-regrouped", multipliers=str(MULTIPLIERS))
def _regrouped(program: ProgramIR, options: Options) -> ProgramIR:
    program, chosen = _canonical(program), _chosen(options, relaxed=True)
    return with_regrouped_sums(program, place_program(program, chosen))
