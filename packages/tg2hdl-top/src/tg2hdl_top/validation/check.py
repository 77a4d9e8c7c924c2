"""The captured program beside the design: its program on several inputs, and each of its kernels as planned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.golden.kernel import TooMuchWork, Trace
from tg2hdl_ir.golden.program import CallRun, evaluate_program, initial_contents, run_calls
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.pipeline import rewrite_program
from tg2hdl_ir.program import ProgramIR
from tg2hdl_top.design import Design
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import Rule, WrongResult, difference
from tg2hdl_top.validation.inputs import (
    KINDS,
    index_buffers,
    telling_array,
    telling_inputs,
    variable_values,
)
from tg2hdl_top.validation.record import Validation
from tg2hdl_top.validation.slices import sliced, stores_of
from tg2hdl_top.validation.states import State, rule_for, steps

__all__ = ["compared"]

FEW = 2
"""Kinds of inputs that every program gets; the others where it is cheap to evaluate."""

CHEAP = 2_000_000
"""Statements of a program that is cheap to evaluate."""

MOST = 200_000_000
"""Statements of a program that is evaluated unless everything is."""

WORK = 40.0
"""Steps of evaluation that each node of a plan allows, which takes much longer to plan."""

LEAST_WORK = 2_000.0
"""Steps that are allowed for any design."""

STORE_WORK = 20_000.0
"""Steps that may be taken to find where a kernel writes."""

FULL_WORK = 50_000.0
"""Steps from which on a kernel is evaluated in a few iterations, however much time there is."""

Array = npt.NDArray[Any]


def compared(program: ProgramIR, design: Design, options: CompileOptions, *, is_full: bool) -> Validation:
    """Compare a captured program with the design that was made of it.

    Parameters
    ----------
    is_full : bool
        All kinds of inputs and all kernels, whatever that takes.

    Raises
    ------
    WrongResult
        For the first difference.
    """
    return _Comparison(program, design, options, is_full).run()


@dataclass
class _Comparison:
    program: ProgramIR
    design: Design
    options: CompileOptions
    is_full: bool
    left: float = 0.0
    found: dict[tuple[KernelIR, KernelIR], str] = field(default_factory=dict)
    tried: dict[tuple[KernelIR, KernelIR], int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def run(self) -> Validation:
        self.left = LEAST_WORK + WORK * sum(len(plan.nodes) for plan in self.design.core_plans)
        reference = self._folded() if self.options.fold_batchnorm else self.program
        compared = []
        for kind, label, values in self._runs():
            try:
                inputs = self._inputs(kind)
                expected = evaluate_program(reference, inputs, values, **self._units)
            except Tg2hdlError as error:
                self.notes[f"inputs {kind!r} cannot be evaluated: {error.message}"] = None
                continue
            self._compare(label, reference, inputs, expected, self._design(label, inputs, values))
            compared.append(kind)
        pairs = list(zip(self.design.sources, (plan.kernel for plan in self.design.kernels), strict=True))
        how = [self.found.get(pair, "whole" if pair[0] is pair[1] else "") for pair in dict.fromkeys(pairs)]
        skipped = how.count("")
        if skipped:
            self.notes[f"{skipped} kernels as planned take too long to evaluate"] = None
        return Validation(
            tuple(dict.fromkeys(compared)),
            len(how),
            how.count("whole"),
            how.count("sliced"),
            tuple(self.notes),
        )

    @property
    def is_regrouped(self) -> bool:
        """Whether sums of floats may be added in another order."""
        return any(rule_for(self.options, call.kernel) is not Rule.BITS for call in self.program.calls)

    @property
    def _units(self) -> dict[str, Any]:
        return {"target": self.options.target, "units": self.options.units}

    def _runs(self) -> Iterator[tuple[str, str, dict[str, int]]]:
        """Kind of inputs, with the variables in words, and the variables of each run."""
        points = variable_values(self.program)
        taken = 0 if self.is_full else sum(steps(call.kernel) for call in self.program.calls)
        if taken > MOST:
            self.notes[f"its {taken:,} steps take too long to evaluate"] = None
            return
        # The order of sums decides where they overflow.
        cheap = taken <= CHEAP and not self.is_regrouped
        kinds = KINDS if cheap else KINDS[:FEW]
        for number, kind in enumerate(kinds):
            for values in points if self.is_full else points[number % len(points) :][:1]:
                told = "".join(f", {name}={value}" for name, value in values.items())
                yield kind, f'"{kind}"{told}', values
        if self.options.weights == "loadable" and cheap:
            yield "other weights", '"other weights"', points[0]

    def _inputs(self, kind: str) -> dict[str, Array]:
        if kind != "other weights":
            return telling_inputs(self.program, kind)
        indices, inputs = index_buffers(self.program), telling_inputs(self.program, KINDS[0])
        for n in self.program.constant_buffers() - indices:
            buffer = self.program.buffers[n]
            inputs[buffer.name] = telling_array(buffer, KINDS[0], is_index=False, seed=n)
        return inputs

    def _compare(
        self,
        label: str,
        reference: ProgramIR,
        inputs: Mapping[str, Array],
        expected: Mapping[str, Array],
        made: Mapping[str, Array],
        *,
        rule: Rule = Rule.BITS,
    ) -> None:
        if self.is_regrouped:
            rule = Rule.BOUND
        types = {b.name: b.dtype for b in reference.buffers}
        outputs = [reference.buffers[n].name for n in reference.outputs]
        for name, array in expected.items():
            what = f"output {name!r}" if name in outputs else f"state {name!r}"
            found = difference(what, types[name], array, made.get(name), rule=rule)
            if found is not None:
                raise WrongResult(str(found), label, (reference,), (self.design.program,), dict(inputs))
        if rule is Rule.BOUND and any(not types[name].is_float for name in expected):
            self.notes["integer results of floats that are rounded elsewhere are not compared"] = None

    def _folded(self) -> ProgramIR:
        """The program with scales in its weights, the reference for the rest; compared within a bound itself."""
        program = rewrite_program(self.program)
        folded = fold_scales(program)
        inputs, values = telling_inputs(program, KINDS[0]), variable_values(program)[0]
        expected, made = (
            evaluate_program(each, inputs, values, **self._units) for each in (self.program, folded)
        )
        self._compare(f'"{KINDS[0]}"', self.program, inputs, expected, made, rule=Rule.BOUND)
        return folded

    # The design

    def _design(self, label: str, inputs: Mapping[str, Array], values: dict[str, int]) -> dict[str, Array]:
        """Results of the design's program; each of its kernels is compared with its plan on the way."""
        program = self.design.program
        known = dict(inputs)
        if (
            self.design.preparation is not None
            and known.keys() - telling_inputs(self.program, KINDS[0]).keys()
        ):
            names = {b.name for b in self.design.preparation.buffers}
            given = {name: array for name, array in known.items() if name in names}
            known |= evaluate_program(self.design.preparation, given, **self._units)
        contents = initial_contents(program, known)
        written: set[int] = set()
        for number, run in enumerate(run_calls(program, contents, values, **self._units)):
            written |= run.written.keys()
            self._claims(label, run)
            self._plan(label, number, run)
        kept = [n for n in written if program.buffers[n].initial is not None]
        return {program.buffers[n].name: contents[n] for n in (*program.outputs, *kept)}

    def _claims(self, label: str, run: CallRun) -> None:
        """Values must fit the element types of their memories."""
        for number, array in run.written.items():
            memory = self.design.memories.get(number)
            if memory is None or not memory.dtype.is_int or not array.size:
                continue
            low, high = int(array.min()), int(array.max())
            if low < memory.dtype.min_value or high > memory.dtype.max_value:
                name, kernel = self.design.program.buffers[number].name, run.call.kernel
                what = f"buffer {name!r}: values from {low} to {high} do not fit {memory.dtype}, the type of its memory"
                blamed = ("element-types", kernel.name)
                raise WrongResult(what, label, (kernel,), (), _named(run.before), blamed)

    def _plan(self, label: str, number: int, run: CallRun) -> None:
        """The planned kernel must compute what its source does."""
        source, planned = self.design.sources[number], self.design.kernels[number].kernel
        pair = source, planned
        if source is planned or self.tried.get(pair, 0) >= (math.inf if self.is_full else FEW):
            return
        self.tried[pair] = self.tried.get(pair, 0) + 1
        state = State(label, run.before, run.variables)
        rule = rule_for(self.options, source)
        if rule is Rule.BITS:
            expected = run.results
        else:
            state = state.with_whole_numbers()
            expected = state.run(source, self.options).results
        self._compare_kernels(state, source, planned, expected, rule)

    def _compare_kernels(
        self,
        state: State,
        source: KernelIR,
        planned: KernelIR,
        expected: Mapping[int, Array],
        rule: Rule,
    ) -> None:
        few = sliced(planned)
        how, trace = "whole", self._within(self._whole_work(few is not None), state, planned)
        if trace is None and few is not None:
            how, trace = "sliced", self._within(math.inf if self.is_full else self.left, state, few)
        if trace is None:
            return
        places = None if how == "whole" else trace.written
        found = _first(source, expected, trace.results, rule, places)
        same = how == "whole" or self._same_places(state, source, planned)
        if same is None:
            return
        if how == "sliced" and (found is not None or not same):
            # Iterations that read what others wrote are not separate: only the whole kernel tells.
            found = _first(source, expected, state.run(planned, self.options).results, rule)
        if found is not None:
            what = f"kernel {source.name} as planned, {found}"
            raise WrongResult(what, state.inputs, (source,), (planned,), _named(state.contents))
        if self.found.get((source, planned)) != "whole":
            self.found[source, planned] = how

    def _same_places(self, state: State, source: KernelIR, planned: KernelIR) -> bool | None:
        """Whether two kernels write the same elements; None where that takes too long to know."""
        stores = [stores_of(kernel) for kernel in (source, planned)]
        one, two = (None if k is None else self._within(STORE_WORK, state, k) for k in stores)
        if one is None or two is None:
            return None
        return all(np.array_equal(places, two.written.get(slot, ())) for slot, places in one.written.items())

    def _whole_work(self, has_slice: bool) -> float:
        """Work that the evaluation of a whole kernel may take."""
        if self.is_full:
            return FULL_WORK if has_slice else math.inf
        return self.left / 10 if has_slice else self.left

    def _within(self, work: float, state: State, kernel: KernelIR) -> Trace | None:
        """Evaluate a kernel with so much work; None where it takes more."""
        try:
            trace = state.run(kernel, self.options, work)
        except TooMuchWork:
            self.left -= work if math.isfinite(work) else 0
            return None
        self.left -= trace.work
        return trace


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
        found = difference(
            f"buffer {meta.name or slot!r}",
            meta.dtype,
            array,
            results.get(slot),
            rule=rule,
            places=where,
        )
        if found is not None:
            return str(found)
    return None


def _named(contents: Mapping[int, Array]) -> dict[str, Array]:
    return {f"b{slot}": array for slot, array in contents.items()}
