"""Every rewrite evaluated when it has run: kernels and programs before and after it, on the same contents."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import KernelIR, ProgramIR, Tg2hdlError, registry, verify
from tg2hdl_ir.golden.kernel import TooMuchWork
from tg2hdl_ir.golden.program import run_calls
from tg2hdl_ir.passes.instrument import Rewritten
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.compare import Rule, WrongResult, difference
from tg2hdl_top.validation.inputs import (
    KINDS,
    index_buffers,
    telling_array,
    telling_inputs,
    variable_values,
)
from tg2hdl_top.validation.kept_registers import telling_registers
from tg2hdl_top.validation.slices import few_iterations
from tg2hdl_top.validation.states import KernelInputs, rule_for

__all__ = ["OutOfTime", "RewriteCheck"]

WORK = 20_000.0
"""Steps of the evaluation of a kernel, above which a few iterations of it are evaluated."""

EXECUTIONS = 20_000
"""Executions of a statement in these iterations."""

INITIAL = "set-initial-registers"
"""The rewrite whose result depends on no register of the run before."""

ROUNDING = frozenset({"fold-scales"})
"""Rewrites after which sums are rounded elsewhere."""

Array = npt.NDArray[Any]


class OutOfTime(Exception):
    """The rewrites took longer than they may."""


class RewriteCheck:
    """A watcher that evaluates the argument and the result of each rewrite.

    Contents come from runs of the programs that it sees: a kernel and its rewritten form are evaluated with the
    contents that it has there.

    Parameters
    ----------
    program : ProgramIR
        As captured.
    seconds : float, optional
        Time after which it raises `OutOfTime` (s).
    passed : collection of str
        Rewrites that are not evaluated.
    """

    def __init__(
        self,
        program: ProgramIR,
        options: CompileOptions,
        seconds: float = float("inf"),
        passed: Collection[str] = (),
    ) -> None:
        changing = (definition.name for definition in registry().passes() if definition.changes_numbers)
        self.passed = {*passed, *changing}
        self.program = program
        self.options = options
        self.end = time.monotonic() + seconds
        self.states: WeakKeyDictionary[KernelIR, list[KernelInputs]] = WeakKeyDictionary()
        self.known: WeakKeyDictionary[ProgramIR, list[list[Array]]] = WeakKeyDictionary()
        points = variable_values(program)
        # The order of sums decides where they overflow.
        kinds = KINDS if options.float_order == "strict" else KINDS[:2]
        self.runs = [(kind, points[n % len(points)]) for n, kind in enumerate(kinds)]
        self.last = self._run(program)

    def __call__(self, name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
        """Compare; see `PassWatcher`."""
        if time.monotonic() > self.end:
            raise OutOfTime
        if after is before and name != INITIAL:
            return
        if isinstance(before, KernelIR):
            made = after if isinstance(after, tuple) else (after,)
            kernels = tuple(k for k in made if isinstance(k, KernelIR))
            if name not in self.passed:
                self._kernels(name, before, kernels)
            for kernel, states in self._inherited(before, kernels).items():
                self.states.setdefault(kernel, states)
        elif name in self.passed:
            return
        elif isinstance(after, ProgramIR):
            self._programs(name, before, after)

    # Kernels

    def _kernels(self, name: str, before: KernelIR, made: tuple[KernelIR, ...]) -> None:
        _verify(name, before, made)
        rule = rule_for(self.options, before)
        for given in self.states.get(before, ()):
            state = given if rule is Rule.BITS else given.with_whole_numbers()
            if not all(state.fits(kernel) for kernel in (before, *made)):
                continue
            try:
                expected = state.run(before, self.options, WORK * 10).results
            except TooMuchWork:
                continue
            contents, places = self._sequence(_of(before, state), made)
            if contents is None:
                continue
            for slot, array in expected.items():
                meta = before.buffer(slot)
                found = difference(
                    f"buffer {meta.name or slot!r}",
                    meta.dtype,
                    array,
                    contents.get(slot),
                    rule=rule,
                    places=places.get(slot),
                )
                if found is not None:
                    named = {f"b{slot}": array for slot, array in state.contents.items()}
                    blamed = name, before.name
                    raise WrongResult(
                        f"kernel {before.name}, {found}", state.inputs, (before,), made, named, blamed
                    )
            self._registers(name, before, made, state)

    def _registers(
        self, name: str, before: KernelIR, made: tuple[KernelIR, ...], state: KernelInputs
    ) -> None:
        """A rewrite must not make results depend on what registers hold from the run before."""
        found = self._second_run(made[0], state) if len(made) == 1 else None
        if found is not None and (name == INITIAL or self._second_run(before, state) is None):
            named = {f"b{slot}": array for slot, array in state.contents.items()}
            what = f"kernel {before.name}, {found} in a second run: a register is read before it is written"
            raise WrongResult(what, state.inputs, (before,), made, named, (name, before.name))

    def _second_run(self, kernel: KernelIR, state: KernelInputs) -> str | None:
        """The first difference of a run whose registers were left by another one."""
        if not kernel.registers:
            return None
        try:
            first = state.run(kernel, self.options, WORK)
            held = telling_registers(kernel, first.registers)
            second = state.run(kernel, self.options, WORK, registers=held).results
        except TooMuchWork:
            return None
        for slot, array in first.results.items():
            meta = kernel.buffer(slot)
            found = difference(f"buffer {meta.name or slot!r}", meta.dtype, array, second[slot])
            if found is not None:
                return str(found)
        return None

    def _sequence(
        self, state: KernelInputs, made: tuple[KernelIR, ...]
    ) -> tuple[dict[int, Array] | None, dict[int, Array]]:
        """Contents after some kernels, and where they are known; None for the contents that take too long."""
        contents: dict[int, Array] = dict(state.contents)
        places: dict[int, Array] = {}
        for kernel in made:
            one = KernelInputs(state.inputs, contents, state.variables)
            try:
                trace = one.run(kernel, self.options, WORK)
            except TooMuchWork:
                few = few_iterations(kernel, EXECUTIONS)
                if not few or len(made) > 1:
                    return None, {}
                try:
                    trace = one.run(kernel, self.options, WORK, few)
                except TooMuchWork:
                    return None, {}
                places = trace.written
            contents |= trace.results
        return contents, places

    def _inherited(self, before: KernelIR, made: tuple[KernelIR, ...]) -> dict[KernelIR, list[KernelInputs]]:
        """Inputs of the kernels that were made; only the first one knows it without an evaluation."""
        found: dict[KernelIR, list[KernelInputs]] = {kernel: [] for kernel in made}
        for state in self.states.get(before, ()):
            contents = dict(_of(before, state).contents)
            for number, kernel in enumerate(made):
                one = KernelInputs(state.inputs, dict(contents), state.variables)
                found[kernel].append(one)
                if number + 1 < len(made) and one.fits(kernel):
                    try:
                        contents |= one.run(kernel, self.options, WORK).results
                    except TooMuchWork:
                        break
        return found

    # Programs

    def _programs(self, name: str, before: ProgramIR, after: ProgramIR) -> None:
        rules = {rule_for(self.options, call.kernel) for call in before.calls}
        rule = Rule.BOUND if name in ROUNDING or rules != {Rule.BITS} else Rule.BITS
        # The largest numbers overflow in one form only where they are rounded elsewhere.
        runs = self.runs[:1] if name in ROUNDING else self.runs
        first, second = self._run(before), self._run(after)
        pairs = list(zip(before.outputs, after.outputs, strict=True))
        written = {n for call in after.calls for n in call.accesses()[1]}
        numbers = {b.name: n for n, b in enumerate(after.buffers)}
        for n in before.calls[-1].accesses()[1]:
            if n in written and n < len(after.buffers):
                pairs.append((n, n))
        for n, buffer in enumerate(before.buffers):
            if buffer.initial is not None and buffer.role != "weight" and buffer.name in numbers:
                pairs.append((n, numbers[buffer.name]))
        for (kind, _), one, two in zip(runs, first, second, strict=False):
            for old, new in pairs:
                buffer = before.buffers[old]
                what = f"buffer {buffer.name!r}"
                found = difference(what, buffer.dtype, one[old], two[new], rule=rule)
                if found is not None:
                    inputs = telling_inputs(before, kind)
                    blamed = name, _changed(before, after)
                    raise WrongResult(str(found), f'"{kind}"', (before,), (after,), inputs, blamed)

    def _run(self, program: ProgramIR) -> list[list[Array]]:
        """Contents of all buffers after the program, for each kind of inputs; its kernels get their states."""
        if program not in self.known:
            self.known[program] = [
                self._run_once(program, number, kind, values)
                for number, (kind, values) in enumerate(self.runs)
            ]
        return self.known[program]

    def _run_once(self, program: ProgramIR, number: int, kind: str, values: dict[str, int]) -> list[Array]:
        contents = self._contents(program, number, kind)
        first = {call.kernel for call in program.calls if call.kernel not in self.states}
        options = self.options
        told = "".join(f", {name}={value}" for name, value in values.items())
        for run in run_calls(program, contents, values, target=options.target, units=options.units):
            kernel = run.call.kernel
            states = self.states.setdefault(kernel, [])
            if kernel in first or len(states) <= number:
                first.discard(kernel)
                states.append(KernelInputs(f'"{kind}"{told}', run.before, run.variables))
        return contents

    def _contents(self, program: ProgramIR, number: int, kind: str) -> list[Array]:
        """Contents before the program; those of a part of a program come from a run of the whole one."""
        inputs, indices = telling_inputs(program, kind), index_buffers(program)
        left: Mapping[str, Array] = {}
        if program is not self.program:
            names = [b.name for b in self.program.buffers]
            left = dict(zip(names, self.last[number], strict=True))
        found, fresh = [], _fresh(program)
        for n, buffer in enumerate(program.buffers):
            if n in fresh and buffer.initial is None:
                # Contents of the end would hide that nothing is written.
                array = np.zeros(buffer.depth, buffer.dtype.numpy())
            elif buffer.name in inputs:
                array = inputs[buffer.name]
            elif buffer.initial is not None:
                array = np.asarray(buffer.initial).reshape(-1)
            elif buffer.name in left and left[buffer.name].size == buffer.depth:
                array = left[buffer.name]
            else:
                array = telling_array(buffer, kind, n in indices, seed=n)
            found.append(np.asarray(array).reshape(-1))
        return found


def _of(kernel: KernelIR, state: KernelInputs) -> KernelInputs:
    """The contents of a kernel's own buffers: others may have their slots in its rewritten form."""
    slots = {meta.idx for meta in kernel.buffers}
    contents = {slot: array for slot, array in state.contents.items() if slot in slots}
    return KernelInputs(state.inputs, contents, state.variables)


def _verify(name: str, before: KernelIR, made: tuple[KernelIR, ...]) -> None:
    """A kernel that breaks rules of the IR, as by an address outside a buffer, may give the right result by chance."""
    for kernel in made:
        try:
            verify(kernel)
        except Tg2hdlError as error:
            what = f"kernel {kernel.name} breaks the rules of the IR: {error.message}"
            raise WrongResult(what, "any", (before,), made, {}, (name, before.name)) from error


def _fresh(program: ProgramIR) -> set[int]:
    """Buffers that are written before they are read."""
    fresh: set[int] = set()
    read: set[int] = set()
    for call in program.calls:
        read |= call.first_reads() - fresh
        fresh |= call.accesses()[1] - read
    return fresh


def _changed(before: ProgramIR, after: ProgramIR) -> str:
    """The first kernel that was made of another one; the program where there is none."""
    for old, new in zip(before.calls, after.calls, strict=False):
        if old.kernel is not new.kernel:
            return old.kernel.name
    return before.name
