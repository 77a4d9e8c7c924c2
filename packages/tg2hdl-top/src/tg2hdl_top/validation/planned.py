"""Compares kernels as planned, with their lanes and interleaving, with the kernels that they were made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, IROp, KernelIR, ProgramIR, Tg2hdlError, operands, values_below
from tg2hdl_ir.golden.kernel import KernelTrace, TooMuchWork
from tg2hdl_ir.golden.program import CallRun, initial_contents, run_calls
from tg2hdl_lower import HardwarePlan
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import Rule, WrongResult, difference
from tg2hdl_top.validation.inputs import (
    index_buffers,
    telling_inputs,
    variable_values,
    with_special_values,
)
from tg2hdl_top.validation.kept_registers import telling_registers
from tg2hdl_top.validation.record import Validation
from tg2hdl_top.validation.slices import (
    few_iterations,
    iterations_at,
    places_kernel,
    work_of_an_element,
)
from tg2hdl_top.validation.states import KernelInputs, rule_for

__all__ = ["PlannedKernels", "PlannedProgram", "named_slots", "plans_compared"]

WORK = 12.0
"""Steps of evaluation for each node of a plan, which takes much longer to plan."""

LEAST_WORK = 1_000.0
"""Steps for any design."""

RESERVE = 10_000.0
"""Further steps of a design, for kernels that would not be compared at all."""

EXECUTIONS = 4_000
"""Executions of a statement in the evaluation of a planned kernel: above, a few iterations of it are evaluated."""

FEW_EXECUTIONS = 1_000
"""The same where the kernel that it was made of is evaluated for this only."""

FULL_WORK = 50_000.0
"""Steps in which a whole kernel must be evaluated, where there is no limit for a few iterations."""

FEW = 2
"""Inputs on which a planned kernel is compared, where not all are; the last ones also with special values."""

SPARSE = 4
"""Elements of a buffer for each special value, where one element depends on one other."""

PASSING = frozenset({"add", "sub", "mul", "neg", "mulacc"})
"""Ops that do with special values what they do with others."""

MOST_WORK = 1_000_000.0
"""Steps after which a kernel is not evaluated at all."""

Array = npt.NDArray[Any]
Pair = tuple[KernelIR, KernelIR]


class PlannedProgram(Protocol):
    """A program and its plans, as a `Design` has them."""

    @property
    def program(self) -> ProgramIR:
        """The computation of the hardware."""

    @property
    def options(self) -> CompileOptions:
        """Of the design."""

    @property
    def kernels(self) -> tuple[HardwarePlan, ...]:
        """A plan for each call."""

    @property
    def sources(self) -> tuple[KernelIR, ...]:
        """The kernel that each plan was made of."""


def plans_compared(design: PlannedProgram, kinds: Iterable[str], *, is_full: bool) -> Validation:
    """Compare plans with the kernels that they were made of, in runs of the program.

    Parameters
    ----------
    design : PlannedProgram
    kinds : iterable of str
        Of inputs, as of `telling_inputs`.
    is_full : bool
        Whether everything is compared, whatever it costs.

    Raises
    ------
    WrongResult
        When a plan computes something else.
    """
    program, options = design.program, design.options
    planned = PlannedKernels(design, options, is_full)
    units: dict[str, Any] = {"target": options.target, "units": options.units}
    compared, notes = [], []
    for kind in kinds:
        for values in variable_values(program):
            try:
                contents = initial_contents(program, telling_inputs(program, kind))
                for number, run in enumerate(run_calls(program, contents, values, **units)):
                    source, label = design.sources[number], f'"{kind}"'
                    if run.call.kernel is design.kernels[number].kernel:  # The program was made of plans.
                        state = KernelInputs(label, run.before, run.variables)
                        run = replace(run, results=state.run(source, options).results)
                    planned.compare(label, number, run)
            except WrongResult:
                raise
            except Tg2hdlError as error:
                notes.append(f"inputs {kind!r} cannot be evaluated: {error.message}")
                continue
            compared.append(kind)
    how = planned.how()
    found, told = tuple(dict.fromkeys(compared)), tuple(dict.fromkeys(notes))
    return Validation(found, len(how), how.count("whole"), how.count("sliced"), told)


class PlannedKernels:
    """Compares each planned kernel with its source, on the contents that it has in a run of the program.

    Parameters
    ----------
    is_full : bool
        Without a limit, on all inputs.
    """

    def __init__(self, design: PlannedProgram, options: CompileOptions, is_full: bool) -> None:
        self.design = design
        self.options = options
        self.is_full = is_full
        self.left = LEAST_WORK
        self.reserve = RESERVE
        self.spent = 0.0
        self.found: dict[Pair, str] = {}
        self.needed: dict[Pair, float] = {}
        self.runs: Counter[Pair] = Counter()
        self.results: dict[KernelIR, dict[int, Array]] = {}
        self.registers: dict[KernelIR, dict[int, Array]] = {}
        self.indices = index_buffers(design.program)

    def how(self) -> list[str]:
        """How each pair was compared: ``whole``, ``sliced``, or not (empty)."""
        pairs = zip(self.design.sources, (plan.kernel for plan in self.design.kernels), strict=True)
        return [self.found.get(pair, "whole" if pair[0] is pair[1] else "") for pair in dict.fromkeys(pairs)]

    def compare(self, label: str, number: int, run: CallRun) -> None:
        """Compare the kernel of a call that was evaluated.

        Parameters
        ----------
        label : str
            Names the inputs in an error.
        number : int
            Of the call.
        run : CallRun
            Contents before and results.

        Raises
        ------
        WrongResult
            Where its results differ.
        """
        source, plan = self.design.sources[number], self.design.kernels[number]
        if source is plan.kernel or not self._is_wanted(number):
            return
        state, rule, expected = (
            KernelInputs(label, run.before, run.variables),
            rule_for(self.options, source),
            run.results,
        )
        if rule is not Rule.BITS:
            state = state.with_whole_numbers()
            expected = state.run(source, self.options).results
        before = self.spent
        how = self._compared(state, source, plan.kernel, expected, rule)
        self._note(number, how, self.spent - before)
        if how and rule is Rule.BITS:
            self._with_special_values(number, source, state, state)

    def sample(
        self, state: KernelInputs, number: int, first: KernelIR, given: KernelInputs
    ) -> dict[int, Array]:
        """Compare some elements that the kernel of a call writes with those of the one that it was made of.

        Parameters
        ----------
        state : KernelInputs
            State before the planned kernel.
        first : KernelIR
            The one that it was made of.
        given : KernelInputs
            State before that one.

        Returns
        -------
        dict of int to ndarray
            Results of `first` by slot: the elements that were not evaluated have values of others.

        Raises
        ------
        WrongResult
            Where results differ.
        """
        is_wanted = self._is_wanted(number)
        if not is_wanted and first in self.results:
            return self.results[first]
        rule, before = rule_for(self.options, first), self.spent
        if rule is not Rule.BITS:
            state, given = state.with_whole_numbers(), given.with_whole_numbers()
        expected, is_partial, how = self._some(state, number, first, given, rule, is_wanted)
        if is_wanted:
            self._note(number, how, self.spent - before)
            if how and rule is Rule.BITS:
                self._with_special_values(number, first, state, given)
        self.results[first] = {
            slot: _filled(array, expected.written[slot]) if is_partial else array
            for slot, array in expected.results.items()
        }
        return self.results[first]

    def _some(
        self,
        state: KernelInputs,
        number: int,
        first: KernelIR,
        given: KernelInputs,
        rule: Rule,
        is_wanted: bool,
    ) -> tuple[KernelTrace, bool, str]:
        """Evaluation of `first`, whether that is a part of it, and how it was compared, if it is wanted."""
        planned, made, how = self.design.kernels[number].kernel, None, ""
        few = some = few_iterations(planned, FEW_EXECUTIONS)
        if is_wanted:
            made = self._within(self._allowed(self._pair(number)), state, planned, few)
        if made is None:
            some = few_iterations(first, FEW_EXECUTIONS)
        elif few:
            some = iterations_at(first, made.written)
        if not given.separate(first, self.options, some):
            some = {}
        expected = given.run(first, self.options, iterations=some)
        if made is not None:
            how = "sliced" if few else "whole"
            places = {slot: wrote & made.written.get(slot, False) for slot, wrote in expected.written.items()}
            found = _first(first, expected.results, made.results, rule, places if few or some else None)
            is_new = few and not self.found.get(self._pair(number))
            if found is not None or (is_new and self._same_places(state, first, planned) is False):
                # Iterations that read results of others are not separate: only whole kernels tell.
                whole = given.run(first, self.options).results
                found = _first(first, whole, self._whole(state, planned), rule)
            if found is not None:
                raise self._wrong(state, first, planned, found)
            self.registers[planned] = made.registers
            if not all(wrote.any() for wrote in places.values()):
                how = ""
        return expected, bool(some), how

    def _with_special_values(
        self, number: int, first: KernelIR, state: KernelInputs, given: KernelInputs
    ) -> None:
        """Compare once more with NaN, infinities and the ends of the types in some elements."""
        if self.runs[self._pair(number)] != FEW or self.needed[self._pair(number)] > self.left:
            return
        slots = self._special_slots(number, first)
        share = SPARSE * work_of_an_element(first)
        known = {slot: t for slot, t in slots.items() if slot in state.contents and slot in given.contents}
        if not known:
            return
        special = {
            slot: with_special_values(state.contents[slot], dtype, share, slot)
            for slot, dtype in known.items()
        }
        label = f"{state.inputs} with special values"
        made, first_made = (
            KernelInputs(label, {**old.contents, **special}, old.variables) for old in (state, given)
        )
        self._some(made, number, first, first_made, Rule.BITS, True)

    def _special_slots(self, number: int, first: KernelIR) -> dict[int, DType]:
        """Slots that may hold any number: floats that are not only added and multiplied, and integer inputs."""
        program, call = self.design.program, self.design.program.calls[number]
        values = values_below([v for s in first.loop_tree.statements() for v in operands(s)])
        is_passing = all(
            v.op in PASSING for v in values if isinstance(v, IROp) and any(s.dtype.is_float for s in v.srcs)
        )
        found = {}
        for slot, n in call.slots.items():
            buffer = program.buffers[n]
            is_input = buffer.role == "input" and buffer.initial is None
            is_float = buffer.dtype.is_float and buffer.initial is None and not is_passing
            if (is_float or (is_input and buffer.dtype.is_int)) and n not in self.indices:
                found[slot] = buffer.dtype
        return found

    def _pair(self, number: int) -> Pair:
        return self.design.sources[number], self.design.kernels[number].kernel

    def _is_wanted(self, number: int) -> bool:
        """Whether the kernel of a call is to be compared once more."""
        pair = self._pair(number)
        self.runs[pair] += 1
        if self.runs[pair] > FEW and not self.is_full:
            return False
        if pair not in self.needed:
            self.left += WORK * len(self.design.kernels[number].nodes)
            return True
        return self.needed[pair] <= (math.inf if self.is_full else self.left)

    def _note(self, number: int, how: str, work: float) -> None:
        """Note how the kernel of a call was compared, and the work that took."""
        pair = self._pair(number)
        self.needed[pair] = work if how else math.inf
        if how and self.found.get(pair) != "whole":
            self.found[pair] = how

    def _compared(
        self,
        state: KernelInputs,
        source: KernelIR,
        planned: KernelIR,
        expected: Mapping[int, Array],
        rule: Rule,
    ) -> str:
        """How a kernel was compared; empty where that takes too long."""
        few = few_iterations(planned, EXECUTIONS)
        trace, how = None, "sliced" if few else "whole"
        if self.is_full and few:
            trace = self._within(FULL_WORK, state, planned)
            how = "sliced" if trace is None else "whole"
        if trace is None:
            limit = MOST_WORK if self.is_full else self._allowed((source, planned))
            trace = self._within(limit, state, planned, few)
        if trace is None:
            return ""
        places = None if how == "whole" else trace.written
        found = _first(source, expected, trace.results, rule, places)
        if how == "sliced":
            is_known = self.found.get((source, planned)) == how
            same = is_known or self._same_places(state, source, planned)
            if same is None and found is None:
                return ""
            if found is not None or not same:
                # Iterations that read results of others are not separate: only the whole kernel tells.
                found = _first(source, expected, self._whole(state, planned), rule)
        if found is not None:
            raise self._wrong(state, source, planned, found)
        self.registers[planned] = trace.registers
        return how

    def _held(self, planned: KernelIR) -> dict[int, Array]:
        """What the registers of a planned kernel hold after the runs before."""
        return telling_registers(planned, self.registers.get(planned, {}))

    def _whole(self, state: KernelInputs, planned: KernelIR) -> dict[int, Array]:
        return state.run(planned, self.options, registers=self._held(planned)).results

    def _wrong(self, state: KernelInputs, source: KernelIR, planned: KernelIR, found: str) -> WrongResult:
        is_first = not any(array.any() for array in self._held(planned).values())
        after = "" if is_first else " after another run"
        what = f"kernel {source.name} as planned{after}, {found}"
        return WrongResult(what, state.inputs, (source,), (planned,), named_slots(state.contents))

    def _same_places(self, state: KernelInputs, source: KernelIR, planned: KernelIR) -> bool | None:
        """Whether two kernels write the same elements; None where that takes too long to know."""
        limit = MOST_WORK if self.is_full else self.left
        found = [places_kernel(kernel) for kernel in (source, planned)]
        one, two = (None if made is None else self._within(limit, state, *made) for made in found)
        if one is None or two is None:
            return None
        return all(np.array_equal(places, two.written.get(slot, ())) for slot, places in one.written.items())

    def _within(
        self,
        work: float,
        state: KernelInputs,
        kernel: KernelIR,
        iterations: Mapping[int, Array] | None = None,
    ) -> KernelTrace | None:
        """Evaluate a kernel with so much work; None where it takes more."""
        try:
            trace = state.run(kernel, self.options, work, iterations, self._held(kernel))
        except TooMuchWork:
            self._spend(work)
            return None
        self._spend(trace.work)
        return trace

    def _allowed(self, pair: Pair) -> float:
        """Steps for a comparison of a kernel; the reserve is for the first one."""
        return self.left if pair in self.needed else self.left + self.reserve

    def _spend(self, work: float) -> None:
        """Take steps from what is left, and from the reserve where that is not enough."""
        self.spent += work
        self.left -= work
        if self.left < 0.0 and not self.is_full:
            self.reserve, self.left = self.reserve + self.left, 0.0


def named_slots(contents: Mapping[int, Array]) -> dict[str, Array]:
    """Contents of slots by name."""
    return {f"b{slot}": array for slot, array in contents.items()}


def _filled(array: Array, known: npt.NDArray[np.bool_]) -> Array:
    """Contents whose unknown elements have values of the known ones."""
    found = array[known]
    if len(found):
        places = np.random.default_rng(array.size).integers(0, len(found), array.size)
        return np.where(known, array, found[places])
    return array


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
