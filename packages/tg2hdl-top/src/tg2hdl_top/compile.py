"""From a program to a design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tg2hdl_ir.errors import CapacityError, InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.bias import start_at_bias
from tg2hdl_ir.passes.common_kernels import with_bound_values, with_common_kernels
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.pipeline import canonicalize, rewrite_program
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR, check_contents
from tg2hdl_ir.turns import compiles
from tg2hdl_ir.verifier import verify
from tg2hdl_lower import HardwarePlan
from tg2hdl_top.cut_kernels import with_cut_kernels
from tg2hdl_top.cut_products import WORTH_CUT_PRODUCTS, with_cut_products
from tg2hdl_top.design import Design
from tg2hdl_top.design_program import design_program, plan_memories, sharing_of
from tg2hdl_top.external.budget import check_schedule, on_chip_bits, on_chip_budget, too_large
from tg2hdl_top.external.choose import place_weights
from tg2hdl_top.external.cores import find_tile_repeats
from tg2hdl_top.external.memory_port import check_memory
from tg2hdl_top.kernel_forms import with_best_forms
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.partial_sums import with_partial_sums
from tg2hdl_top.placement import place, place_cores, place_program
from tg2hdl_top.repeats import Repeats, find_repeats
from tg2hdl_top.repeats.shapes import with_cores_of_one_shape
from tg2hdl_top.repeats.worth import MOST_CYCLES, near_the_fewest, total_cycles
from tg2hdl_top.sequencer import Arrangement, sequencer_named
from tg2hdl_top.validation.validate import validated

__all__ = ["compile_program", "program_of_kernel"]


@compiles
def compile_program(program: ProgramIR, options: CompileOptions | None = None) -> Design:
    """Rewrite, verify, canonicalize and place the kernels of a program, and decide what surrounds them.

    Raises
    ------
    InputError
        When the program has no kernels.
    PluginError
        When `options.units` names an op or a unit that no plugin registers.
    UnsupportedError
        When a kernel cannot become hardware.
    ValidationError
        When the design does not compute what the program does: a bug of the compiler or of a plugin's pass.
    """
    options = options or CompileOptions()
    if not isinstance(program, ProgramIR):
        raise InputError(
            f"compile_program takes a ProgramIR, not {type(program).__name__}",
            hint="tg2hdl.compile takes models",
        )
    registry().check_units(options.units)
    if not program.calls:
        raise InputError(
            f"program {program.name!r} has no kernels: its result does not depend on a computation",
            hint="return a computed tensor, not an input or a constant",
        )
    check_contents(program)
    return validated(program, options, _compiled)


def _compiled(program: ProgramIR, options: CompileOptions) -> Design:
    """The design of a program, not validated."""
    program = rewrite_program(program)
    for kernel in {call.kernel for call in program.calls}:
        verify(kernel)
    if options.fold_batchnorm:
        program = fold_scales(program)
    program, preparation = hoist_weights(
        program, loadable=options.weights == "loadable", target=options.target, units=options.units
    )
    whole = _canonical(program)
    if options.weights == "external":
        return _with_external(program, whole, options, preparation)
    shares = options.share_kernels and len(whole.calls) > 1
    if shares and (shares := sequencer_named(options.schedule).shares_cores):
        whole = with_common_kernels(whole)
    design = _on_chip(program, whole, options, preparation, shares)
    if options.float_order == "relaxed":
        biased = _with_bias_first(whole)
        if biased is not whole:
            other = _on_chip(program, biased, options, preparation, shares)
            design = min(design, other, key=lambda made: made.longest_cycles())
    return design


def _on_chip(
    program: ProgramIR, whole: ProgramIR, options: CompileOptions, preparation: ProgramIR | None, shares: bool
) -> Design:
    """The design of canonical kernels, all of whose weights are on the chip; `program` has them as they were."""
    if not options.cut_kernels:
        return _of_kernels(program, whole, whole, options, preparation, shares)
    cut = with_cut_kernels(with_best_forms(whole, options), options)
    design = _of_kernels(program, whole, cut, options, preparation, shares)
    again = with_cut_products(cut, options)
    if again is cut:
        return design
    other = _of_kernels(program, whole, again, options, preparation, shares)
    return other if other.longest_cycles() <= WORTH_CUT_PRODUCTS * design.longest_cycles() else design


def _of_kernels(
    program: ProgramIR,
    whole: ProgramIR,
    canonical: ProgramIR,
    options: CompileOptions,
    preparation: ProgramIR | None,
    shares: bool,
) -> Design:
    """The design of the kernels that were made of those in `whole`."""
    changed = [call.kernel for call in canonical.calls] != [call.kernel for call in whole.calls]
    if options.float_order == "relaxed":
        canonical, changed = with_partial_sums(canonical, options), True
    canonical, repeats, plans = _planned(canonical, options, shares)
    if changed or repeats is not None:
        program = canonical
    sources = tuple(call.kernel for call in program.calls)
    return design_program(_as_added(program, plans), options, plans, sources, preparation, repeats)


def _with_external(
    program: ProgramIR, whole: ProgramIR, options: CompileOptions, preparation: ProgramIR | None
) -> Design:
    """The design of canonical kernels whose weights are outside the chip as far as they must be.

    What the memories take beyond their bits, such as copies for further readers, is known when they are planned: the
    weights are then placed again for what is left.
    """
    budget = on_chip_budget(options)
    check_memory(options.memory_port, options.memory)
    if options.cut_kernels:
        whole = with_cut_kernels(with_best_forms(whole, options), options)
    if options.float_order == "relaxed":
        whole = with_partial_sums(whole, options)
    allowed, refusal = budget, None
    for _ in range(_TRIALS):
        try:
            placed = place_weights(whole, options, allowed)
        except CapacityError as error:
            raise refusal or error from None
        notes = (f"on-chip memory: {budget:,} bits", *placed.notes)
        repeats: Repeats | None
        if placed.tiled:
            check_schedule(options)
            found = repeats = find_tile_repeats(placed.program, options)
            tiled, plans = found.program, place_program(found.program, options, found)
        else:
            tiled, repeats, plans = _planned(with_common_kernels(whole), options, shares=False)
        sources = tuple(call.kernel for call in tiled.calls)
        design = design_program(
            _as_added(tiled, plans), options, plans, sources, preparation, repeats, notes=notes
        )
        taken = on_chip_bits(design)
        if taken <= budget:
            return design
        allowed, refusal = budget - (taken - placed.bits), too_large(design, taken, budget)
    assert refusal is not None, "there was a trial"
    raise refusal


_TRIALS = 4
"""Placements of weights, each for less memory than the one before."""


def program_of_kernel(kernel: KernelIR) -> ProgramIR:
    """Program of one kernel: every buffer is an input, and those that it writes are outputs too."""
    buffers = tuple(
        ProgramBuffer(b.name or f"b{b.idx}", b.dtype, (b.depth,), "input") for b in kernel.buffers
    )
    written = tuple(n for n, b in enumerate(kernel.buffers) if b.is_output)
    call = KernelCall(kernel, tuple(range(len(buffers))))
    return ProgramIR(kernel.name, buffers, (call,), written, kernel.variables)


def _planned(
    program: ProgramIR, options: CompileOptions, shares: bool
) -> tuple[ProgramIR, Repeats | None, list[HardwarePlan]]:
    """Plans of all calls, and which of them run on one core; none where that would cost too many cycles."""
    alone = with_bound_values(program)
    repeats = find_repeats(program, options) if shares else None
    if repeats is None or not repeats.repeated:
        return alone, None, _ordered(alone, options)
    placed = place_cores(repeats, options)
    plans = [placed.plans[core] for core in repeats.cores]
    if not near_the_fewest(plans, repeats, options):
        others = _ordered(alone, options)
        if total_cycles(plans) > MOST_CYCLES * total_cycles(others):
            return alone, None, others
    return repeats.program, *with_cores_of_one_shape(repeats, placed.plans, placed.bounded, options)


def _ordered(program: ProgramIR, options: CompileOptions) -> list[HardwarePlan]:
    """Planned kernels, in the orders of steps that suit their sequencer."""
    placed, sequencer = place(program, options), sequencer_named(options.schedule)

    def arranged(plans: Sequence[HardwarePlan]) -> Arrangement:
        memories = plan_memories(program, options, plans)
        return sequencer.arrange(options.schedule, plans, memories, sharing_of(plans, options))

    return sequencer.choose(placed.plans, placed.orders, arranged)


@ir_pass("choose-bias", "float sums of the program start at their bias")
def _with_bias_first(program: ProgramIR) -> ProgramIR:
    """The program whose float sums start at their bias; the same one where none has a bias."""
    kernels = {kernel: start_at_bias(kernel) for kernel in {call.kernel for call in program.calls}}
    if all(made is kernel for kernel, made in kernels.items()):
        return program
    return replace(program, calls=tuple(replace(c, kernel=kernels[c.kernel]) for c in program.calls))


def _canonical(program: ProgramIR) -> ProgramIR:
    calls = tuple(replace(call, kernel=canonicalize(call.kernel)) for call in program.calls)
    return replace(program, calls=calls)


@ir_pass("take-regrouped", "kernels whose sums were regrouped are those of their plans")
def _as_added(program: ProgramIR, plans: list[HardwarePlan]) -> ProgramIR:
    """Program whose kernels add in the order of the hardware."""
    calls = tuple(
        replace(call, kernel=plan.kernel) if plan.regrouped else call
        for call, plan in zip(program.calls, plans, strict=True)
    )
    return replace(program, calls=calls)
