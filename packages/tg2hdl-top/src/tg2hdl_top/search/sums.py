"""Reassociation of float sums, in relaxed order only: partial sums that keep the adder busy, and the bias first."""

from __future__ import annotations

from tg2hdl_ir import KernelCall, ProgramIR
from tg2hdl_ir.passes.bias import start_at_bias
from tg2hdl_ir.passes.partial_sums import LongSum, find_sum, split_sum
from tg2hdl_lower import Alternative, Cost, Decision
from tg2hdl_lower.dataflow.binding import recurrence_latency
from tg2hdl_lower.decisions import decide
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.search.form import Form, KernelChoice, rewritten

__all__ = ["with_bias_first", "with_partial_sums"]

OVERHEAD = 60
"""Cycles to start and drain another kernel."""


def with_partial_sums(form: Form, options: CompileOptions) -> Form:
    """Split the sums that would stall on the latency of their adder most of the time; estimated, not planned.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    if options.float_order == "strict":
        return form

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        kernel, found = call.kernel, find_sum(call.kernel)
        turns = recurrence_latency(kernel, options) + 1
        if found is None or found.results >= turns:
            return KernelChoice((kernel,))
        lanes = options.multipliers or 1
        parts = _parts(found, turns)
        note = "estimated"
        before = Alternative("one sum", Cost(found.repeats * -(-found.terms // lanes) * turns), note)
        after = Alternative(f"{parts} partial sums", Cost(_cycles(found, parts, turns, lanes)), note)
        taken, decision = decide(
            "split-sum", kernel.name, "partial sums", before, [(after, parts)], prefer=options.prefer
        )
        return KernelChoice((kernel,) if taken is None else split_sum(kernel, found, taken)[:2], decision)

    return rewritten(form, "choose-partial-sums", choose, prefix="parts")


def _parts(found: LongSum, turns: int) -> int:
    """Partial sums for each result, with the fewest idle slots."""
    choices = range(-(-turns // found.results), 2 * turns + 1)
    return min(choices, key=lambda n: (-(-found.terms // n) * n, n))


def _cycles(found: LongSum, parts: int, turns: int, lanes: int) -> int:
    rounds = found.repeats * -(-found.terms // (parts * lanes))
    return rounds * max(turns, parts * found.results) + parts * turns + OVERHEAD


def with_bias_first(form: Form, options: CompileOptions) -> Form:
    """The form whose float sums start at their bias; the same program where none has a bias.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    if options.float_order == "strict":
        return form

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        made = start_at_bias(call.kernel)
        if made is call.kernel:
            return KernelChoice((made,))
        name = call.kernel.name
        decision = Decision(
            "start-at-bias",
            name,
            (Alternative("the bias is added last"), Alternative("the sum starts at its bias")),
            1,
            "the design takes fewer cycles; see the decision about the program",
        )
        return KernelChoice((made,), decision)

    return rewritten(form, "choose-bias", choose)
