"""Kernels as planned, with their lanes and interleaving, beside the kernels that they were made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.golden.kernel import TooMuchWork, Trace
from tg2hdl_ir.golden.program import CallRun
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_top.design import Design
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import Rule, WrongResult, difference
from tg2hdl_top.validation.slices import sliced, stores_of
from tg2hdl_top.validation.states import State, rule_for

__all__ = ["PlannedKernels", "named_slots"]

WORK = 12.0
"""Steps of evaluation for each node of a plan, which takes much longer to plan."""

LEAST_WORK = 1_000.0
"""Steps for any design."""

WHOLE = 0.25
"""Share of the work in which a whole kernel must be evaluated, before a few iterations of it are."""

FULL_WORK = 50_000.0
"""Steps in which a whole kernel must be evaluated, where there is no limit for a few iterations."""

FEW = 2
"""Inputs on which a planned kernel is compared, where not all are."""

MOST_WORK = 1_000_000.0
"""Steps after which a kernel is not evaluated at all."""

Array = npt.NDArray[Any]
Pair = tuple[KernelIR, KernelIR]


class PlannedKernels:
    """Compares each planned kernel with its source, on what it is given in a run of the program.

    Parameters
    ----------
    is_full : bool
        Without a limit, on all inputs.
    """

    def __init__(self, design: Design, options: CompileOptions, is_full: bool) -> None:
        self.design = design
        self.options = options
        self.is_full = is_full
        self.left = LEAST_WORK
        self.found: dict[Pair, str] = {}
        self.needed: dict[Pair, float] = {}
        self.runs: Counter[Pair] = Counter()

    def how(self) -> list[str]:
        """How each pair was compared: ``whole``, ``sliced``, or not (empty)."""
        pairs = zip(self.design.sources, (plan.kernel for plan in self.design.kernels), strict=True)
        return [self.found.get(pair, "whole" if pair[0] is pair[1] else "") for pair in dict.fromkeys(pairs)]

    def compare(self, label: str, number: int, run: CallRun) -> None:
        """Compare the kernel of a call.

        Raises
        ------
        WrongResult
            Where its results differ.
        """
        source, plan = self.design.sources[number], self.design.kernels[number]
        pair = source, plan.kernel
        if source is plan.kernel:
            return
        self.runs[pair] += 1
        if self.runs[pair] > FEW and not self.is_full:
            return
        if pair not in self.needed:
            self.left += WORK * len(plan.nodes)
        elif self.needed[pair] > (math.inf if self.is_full else self.left):
            return
        state, rule, expected = (
            State(label, run.before, run.variables),
            rule_for(self.options, source),
            run.results,
        )
        if rule is not Rule.BITS:
            state = state.with_whole_numbers()
            expected = state.run(source, self.options).results
        before = self.left
        how = self._compared(state, *pair, expected, rule)
        self.needed[pair] = before - self.left if how else math.inf
        if how and self.found.get(pair) != "whole":
            self.found[pair] = how

    def _compared(
        self,
        state: State,
        source: KernelIR,
        planned: KernelIR,
        expected: Mapping[int, Array],
        rule: Rule,
    ) -> str:
        """How a kernel was compared; empty where that takes too long."""
        few = sliced(planned)
        limit = MOST_WORK if few is None else FULL_WORK
        if not self.is_full:
            limit = self.left * (1 if few is None else WHOLE)
        how, trace = "whole", self._within(limit, state, planned)
        if trace is None and few is not None:
            how, trace = "sliced", self._within(MOST_WORK if self.is_full else self.left, state, few)
        if trace is None:
            return ""
        places = None if how == "whole" else trace.written
        found = _first(source, expected, trace.results, rule, places)
        if how == "sliced":
            same = self._same_places(state, source, planned)
            if same is None and found is None:
                return ""
            if found is not None or not same:
                # Iterations that read what others wrote are not separate: only the whole kernel tells.
                found = _first(source, expected, state.run(planned, self.options).results, rule)
        if found is not None:
            what = f"kernel {source.name} as planned, {found}"
            raise WrongResult(what, state.inputs, (source,), (planned,), named_slots(state.contents))
        return how

    def _same_places(self, state: State, source: KernelIR, planned: KernelIR) -> bool | None:
        """Whether two kernels write the same elements; None where that takes too long to know."""
        limit = MOST_WORK if self.is_full else self.left
        stores = [stores_of(kernel) for kernel in (source, planned)]
        one, two = (None if k is None else self._within(limit, state, k) for k in stores)
        if one is None or two is None:
            return None
        return all(np.array_equal(places, two.written.get(slot, ())) for slot, places in one.written.items())

    def _within(self, work: float, state: State, kernel: KernelIR) -> Trace | None:
        """Evaluate a kernel with so much work; None where it takes more."""
        try:
            trace = state.run(kernel, self.options, work)
        except TooMuchWork:
            self.left -= work
            return None
        self.left -= trace.work
        return trace


def named_slots(contents: Mapping[int, Array]) -> dict[str, Array]:
    """Contents of slots by name."""
    return {f"b{slot}": array for slot, array in contents.items()}


def _first(
    source: KernelIR,
    expected: Mapping[int, Array],
    results: Mapping[int, Array],
    rule: Rule,
    places: Mapping[int, npt.NDArray[Any]] | None = None,
) -> str | None:
    """The first difference between results by slot."""
    for slot, array in expected.items():
        meta = source.buffer(slot)
        where = None if places is None else places.get(slot)
        name = f"buffer {meta.name or slot!r}"
        found = difference(name, meta.dtype, array, results.get(slot), rule=rule, places=where)
        if found is not None:
            return str(found)
    return None
