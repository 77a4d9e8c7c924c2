"""Loop fission: kernels are cut where two of them take fewer cycles than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tg2hdl_ir import IRConst, IROp, IRRegLoad, IRRegStore, KernelCall, KernelIR, ProgramIR, loads_used_by
from tg2hdl_ir.passes.cut_kernel import cut_kernel, cut_places
from tg2hdl_ir.passes.cut_products import cut_products, product_cuts
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_lower import Alternative, Cost, Decision
from tg2hdl_lower.decisions import decide, most_cycles
from tg2hdl_lower.lanes.candidates import executed_products
from tg2hdl_top.memo import remembered
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.search.form import Form, KernelChoice, called, rewritten
from tg2hdl_top.search.measure import overlapped_cost, planned_cost, step_cycles
from tg2hdl_top.search.sums import with_partial_sums

__all__ = ["with_cut_kernels", "with_cut_products"]

FILL = 256
"""Upper bound on the fill and drain of a kernel (cycles)."""

_Trial = tuple[Alternative, tuple[KernelIR, ...] | None]


def with_cut_kernels(form: Form, options: CompileOptions) -> Form:
    """Cut kernels after a reduction; the results may be cut again.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    if not options.chooses_lanes:
        return form

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        return _cut_kernel(program, call, options)

    return rewritten(form, "choose-cuts", choose, prefix="sums", again=True)


def with_cut_products(form: Form, options: CompileOptions) -> Form:
    """Cut kernels between the products of a chain where the two overlap; the same program where there is none.

    The multipliers must be shared: a kernel with multipliers of its own overlaps with the others anyway.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    if not options.chooses_lanes or not options.share_multipliers or (options.budget or 1) < 2:
        return form

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        return _cut_products(program, call, options)

    return rewritten(form, "choose-product-cuts", choose, prefix="factors")


def _cut_kernel(program: ProgramIR, call: KernelCall, options: CompileOptions) -> KernelChoice:
    """The cut with the fewest cycles, if they are few enough; the kernel is planned separately."""
    kernel = call.kernel
    # Of equal cuts the innermost is taken.
    places = [] if call.host_variables else list(cut_places(kernel))[::-1]
    if not places:
        return KernelChoice((kernel,))
    alone = replace(program, calls=(call,))
    if _is_busy(alone, options):
        why = "its integer sums keep the multipliers so busy that no cut saves enough"
        return KernelChoice(
            (kernel,), Decision("cut-kernel", kernel.name, (Alternative("one kernel"),), 0, why)
        )
    whole = _cycles(alone, options)
    limit = None if whole is None else most_cycles("another kernel", whole.cycles, options.prefer)

    def trials() -> Iterator[_Trial]:
        for number, place in enumerate(places):
            made = _parts(kernel, ("kernel", number), cut_kernel, place)
            name = f"two kernels, with {', '.join(f'r{r}' for r in place.registers)} in a buffer between them"
            trial = _called(program, call, made, "sums")
            if limit is not None and options.float_order == "strict":
                steps = sum(step_cycles(trial, options))
                if steps >= limit:
                    yield (
                        Alternative(name, None, f"not planned: its steps take {steps:,} cycles or more"),
                        None,
                    )
                    continue
            cost = _cycles(trial, options)
            yield Alternative(name, cost, "" if cost else "exceeds the multipliers"), made

    before = Alternative("one kernel", whole, "" if whole else "exceeds the multipliers")
    made, decision = decide(
        "cut-kernel", kernel.name, "another kernel", before, trials(), prefer=options.prefer
    )
    return KernelChoice(made or (kernel,), decision)


def _cut_products(program: ProgramIR, call: KernelCall, options: CompileOptions) -> KernelChoice:
    """The cut with the fewest cycles, if they are few enough, and not more without overlap either."""
    kernel = call.kernel
    places = [] if call.host_variables else list(product_cuts(kernel))
    whole = overlapped_cost(replace(program, calls=(call,)), options) if places else None
    if whole is None:
        return KernelChoice((kernel,))
    alone, cost = whole
    before = Alternative("one kernel", replace(cost, cycles=alone))
    most = most_cycles("another kernel", alone, options.prefer)
    if executed_products(kernel) > most * (options.multipliers or 1):
        why = "its products keep the multipliers so busy that no cut saves enough"
        return KernelChoice((kernel,), Decision("cut-products", kernel.name, (before,), 0, why))

    def trials() -> Iterator[_Trial]:
        for number, place in enumerate(places, 1):
            made = _parts(kernel, ("products", number), cut_products, place)
            found = overlapped_cost(_called(program, call, made, "factors"), options)
            name = f"two kernels, cut after level {number} of the products"
            if found is None:
                yield Alternative(name, None, "exceeds the multipliers"), None
            elif found[0] > alone:
                yield Alternative(name, found[1], f"one after the other {found[0]:,} cycles"), None
            else:
                yield Alternative(name, found[1], "overlapped"), made

    made, decision = decide(
        "cut-products", kernel.name, "another kernel", before, trials(), prefer=options.prefer
    )
    return KernelChoice(made or (kernel,), decision)


def _parts(
    kernel: KernelIR, key: tuple[str, int], cut: Callable[..., tuple[KernelIR, KernelIR, Any]], place: Any
) -> tuple[KernelIR, ...]:
    """The canonical kernels of a cut; the same objects in each budget, so that their plans are known."""

    def made() -> tuple[KernelIR, ...]:
        first, second, _ = cut(kernel, place)
        return canonicalize(first), canonicalize(second)

    return remembered((kernel, *key), made)


def _called(program: ProgramIR, call: KernelCall, kernels: tuple[KernelIR, ...], prefix: str) -> ProgramIR:
    """A program of one call, with these kernels in its place."""
    buffers = list(program.buffers)
    calls = called(call, kernels, buffers, prefix)
    return replace(program, buffers=tuple(buffers), calls=tuple(calls))


def _is_busy(program: ProgramIR, options: CompileOptions) -> bool:
    """Whether a kernel of integer sums is so near to its products by the multipliers that no cut can be worth it."""
    kernel = program.calls[0].kernel
    least = executed_products(kernel) / (options.multipliers or 1)
    planned = sum(step_cycles(program, options)) + FILL
    return _adds_integers(kernel) and least > most_cycles("another kernel", planned, options.prefer)


def _adds_integers(kernel: KernelIR) -> bool:
    """Whether every register is an integer that is added to, which takes one cycle: no step waits for another."""
    for statement in kernel.loop_tree.statements():
        if not isinstance(statement, IRRegStore) or isinstance(statement.value, IRConst):
            continue
        match statement.value:
            case IROp(op="add", dtype=dtype, srcs=(IRRegLoad(reg=reg), added)):
                others = loads_used_by((added,))
                if dtype.is_float or reg != statement.reg or any(isinstance(s, IRRegLoad) for s in others):
                    return False
            case _:
                return False
    return True


def _cycles(program: ProgramIR, options: CompileOptions) -> Cost | None:
    """Cost of all kernels; None where one does not fit the budget, which a cut may change."""
    return planned_cost(with_partial_sums(Form(program), options).program, options)
