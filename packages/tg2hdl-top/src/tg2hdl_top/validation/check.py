"""Compares a captured program with its design: the design's program on several inputs, and each planned kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import DType, KernelCall, ProgramIR, Tg2hdlError, evaluate_program
from tg2hdl_ir.golden.program import CallRun, initial_contents, run_calls
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.pipeline import rewrite_program
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
from tg2hdl_top.validation.planned import PlannedKernels, named_slots
from tg2hdl_top.validation.record import Validation
from tg2hdl_top.validation.states import KernelInputs, rule_for, steps

__all__ = ["compared"]

FEW = 2
"""Kinds of inputs that every program gets; the others where it is cheap to evaluate."""

CHEAP = 2_000_000
"""Statements of a program that is cheap to evaluate."""

MOST = 200_000_000
"""Statements of a program that is evaluated unless everything is; of a larger one some elements may be."""

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
    return _ProgramComparison(
        program, design, options, is_full, PlannedKernels(design, options, is_full)
    ).run()


@dataclass
class _ProgramComparison:
    program: ProgramIR
    design: Design
    options: CompileOptions
    is_full: bool
    planned: PlannedKernels
    notes: dict[str, None] = field(default_factory=dict)

    def run(self) -> Validation:
        reference = self._folded() if self.options.fold_batchnorm else self.program
        compared = []
        is_sampled = self._is_sampled(reference)
        for kind, label, values in self._runs(is_sampled):
            try:
                inputs = self._inputs(kind)
                if is_sampled:
                    self._sample(label, reference, inputs, values)
                    compared.append(kind)
                    continue
                expected = evaluate_program(reference, inputs, values, **self._units)
            except Tg2hdlError as error:
                self.notes[f"inputs {kind!r} cannot be evaluated: {error.message}"] = None
                continue
            self._compare(label, reference, inputs, expected, self._design(label, inputs, values))
            compared.append(kind)
        how = self.planned.how()
        if is_sampled and compared:
            self.notes["of the results of each call some elements are compared"] = None
        if skipped := how.count(""):
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

    def _runs(self, is_sampled: bool) -> Iterator[tuple[str, str, dict[str, int]]]:
        """Kind of inputs, with the variables in words, and the variables of each run."""
        points = variable_values(self.program)
        taken = 0 if self.is_full else sum(steps(call.kernel) for call in self.program.calls)
        if taken > MOST and not is_sampled:
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

    # Some elements

    def _is_sampled(self, reference: ProgramIR) -> bool:
        """Whether some elements of each call are compared: its buffers must be those of the captured call."""
        calls, made = reference.calls, self.design.program.calls
        if self.is_full or len(calls) != len(made) or sum(steps(call.kernel) for call in calls) <= CHEAP:
            return False
        for one, two in zip(calls, made, strict=True):
            slots, others = one.slots, two.slots
            for slot in slots.keys() & others.keys():
                old, new = reference.buffers[slots[slot]], self.design.program.buffers[others[slot]]
                is_temporary = old.role == new.role == "temporary"
                if old.depth != new.depth or old.dtype != new.dtype:
                    return False
                if old.name != new.name and not is_temporary:
                    return False
        return True

    def _sample(
        self, label: str, reference: ProgramIR, inputs: Mapping[str, Array], values: dict[str, int]
    ) -> None:
        """Compare some elements of each call with those of the captured one, on the same contents."""
        program = self.design.program
        first = initial_contents(reference, inputs)
        second = initial_contents(program, self._known(inputs))
        for number, (call, made) in enumerate(zip(reference.calls, program.calls, strict=True)):
            given, state = (
                KernelInputs(label, {s: contents[n] for s, n in one.slots.items()}, values | dict(one.values))
                for one, contents in ((call, first), (made, second))
            )
            read = call.first_reads()
            for slot, n in call.slots.items():
                if n in read and slot in state.contents:
                    name = reference.buffers[n].name
                    self._same(label, name, call, given.contents[slot], state.contents[slot])
            results = self.planned.sample(state, number, call.kernel, given)
            for slot, array in results.items():
                first[call.slots[slot]] = second[made.slots[slot]] = array
            self._claims(label, CallRun(made, dict(state.contents), dict(state.variables), results))
        for old, new in zip(reference.outputs, program.outputs, strict=True):
            self._same(label, reference.buffers[old].name, reference.calls[-1], first[old], second[new])

    def _same(self, label: str, name: str, call: KernelCall, before: Array, after: Array) -> None:
        """A buffer must have its contents in the design's program too."""
        if before.ctypes.data == after.ctypes.data and before.size == after.size:
            return
        found = difference(f"buffer {name!r}", self._types[name], before, after)
        if found is not None:
            what = f"before kernel {call.kernel.name}, {found}"
            raise WrongResult(what, label, (self.program,), (self.design.program,), {})

    # The design

    def _known(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Contents of the design's program by name, with those that are prepared of the weights."""
        known = dict(inputs)
        if (
            self.design.preparation is not None
            and known.keys() - telling_inputs(self.program, KINDS[0]).keys()
        ):
            names = {b.name for b in self.design.preparation.buffers}
            given = {name: array for name, array in known.items() if name in names}
            known |= evaluate_program(self.design.preparation, given, **self._units)
        return known

    @property
    def _types(self) -> dict[str, DType]:
        return {b.name: b.dtype for b in self.program.buffers}

    def _design(self, label: str, inputs: Mapping[str, Array], values: dict[str, int]) -> dict[str, Array]:
        """Results of the design's program; each of its kernels is compared with its plan on the way."""
        program = self.design.program
        contents = initial_contents(program, self._known(inputs))
        written: set[int] = set()
        for number, run in enumerate(run_calls(program, contents, values, **self._units)):
            written |= run.written.keys()
            self._claims(label, run)
            self.planned.compare(label, number, run)
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
                raise WrongResult(what, label, (kernel,), (), named_slots(run.before), blamed)
