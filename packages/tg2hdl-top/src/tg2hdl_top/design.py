"""A design: all decisions about the hardware of a program, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError, KernelIR, ProgramBuffer, ProgramIR
from tg2hdl_ir.collection import rare_collection
from tg2hdl_ir.content_cache import content_key
from tg2hdl_ir.files import write_file
from tg2hdl_ir.records import OPTIONAL, read_record, write_record
from tg2hdl_lower import Decision, HardwarePlan, HostLoop, HostShape, MemoryArray, MemoryPlan
from tg2hdl_lower.plan.variants import merged_plan
from tg2hdl_top.design_check import check_parts
from tg2hdl_top.external.memory_port import waiting_timeline
from tg2hdl_top.external.plan import ExternalPlan
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.ports import PortPlan
from tg2hdl_top.repeats.table import run_columns
from tg2hdl_top.sequencer import SequencerPlan, Sharing, Timeline, sequencer_named
from tg2hdl_top.validation.record import Validation

__all__ = ["Design", "plan_of_each_core"]


@dataclass(frozen=True, eq=False)
class Design:
    """A program and its hardware.

    Parameters
    ----------
    program : ProgramIR
        The program that the hardware computes, bit for bit.
    options : CompileOptions
    kernels : tuple of HardwarePlan
        One per kernel call, in execution order.
    buffers : tuple of MemoryPlan
        The memories, one per program buffer that a kernel uses.
    ports : tuple of PortPlan
        Host ports.
    sequencer : SequencerPlan
    sharing : Sharing
    sources : tuple of KernelIR
        One per kernel call, without lanes and interleaving.
    preparation : ProgramIR, optional
        Computes the weights that depend only on other weights; its outputs are buffers of `program` by name.
    cores : tuple of int
        Core of each kernel call: calls with one core have one plan, and run one after the other on the same hardware.
    arrays : tuple of MemoryArray
        Buffers that are regions of one memory, because a core reads another one in each run.
    external : ExternalPlan, optional
        Weights that are streamed from memory outside the chip.
    validation : Validation
        Comparisons with the program that the design was made of.
    decisions : tuple of Decision
        Decisions of the search about the program and its kernels; the plans have those of the planner.
    """

    program: ProgramIR
    options: CompileOptions
    kernels: tuple[HardwarePlan, ...]
    buffers: tuple[MemoryPlan, ...]
    ports: tuple[PortPlan, ...]
    sequencer: SequencerPlan
    sharing: Sharing
    sources: tuple[KernelIR, ...]
    preparation: ProgramIR | None = None
    cores: tuple[int, ...] = ()
    arrays: tuple[MemoryArray, ...] = ()
    external: ExternalPlan | None = None
    validation: Validation = field(default_factory=Validation)
    decisions: tuple[Decision, ...] = field(default=(), metadata=OPTIONAL)

    def to_json(self) -> str:
        """The design as JSON; units, lowerings and kinds are named, and must be installed where it is read."""
        return write_record(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Design:
        """Read a text that `to_json` wrote.

        Raises
        ------
        InputError
            For text that is damaged or holds no design, or one whose parts do not fit each other: plans whose
            operations or schedules do not compute the kernels of the program, or memories that do not suit them.
        """
        with rare_collection():
            design = read_record(text)
            if not isinstance(design, cls):
                raise InputError(
                    f"the record holds a {type(design).__name__}, not a design",
                    hint="give the text that Design.to_json returned",
                )
            check_parts(design)
        return design

    def save(self, path: str | PathLike[str]) -> None:
        """Write the design to a JSON file."""
        write_file(path, self.to_json())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Design:
        """Read a file of `save`; see `from_json`."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}", hint="give a file that Design.save wrote"
            ) from error
        return cls.from_json(text)

    # Time

    def timeline(self, variables: Mapping[str, int] | None = None) -> Timeline:
        """Start and end of each kernel; exact."""
        cycles = [plan.cycles(dict(variables or {})) for plan in self.kernels]
        if self.streams_weights:
            assert self.external is not None, "it has tiles"
            return waiting_timeline(cycles, self.external)
        return sequencer_named(self.sequencer.policy).predict(cycles, self.sequencer)

    def predicted_cycles(self, variables: Mapping[str, int] | None = None) -> int:
        """Clock cycles from start to done."""
        return self.timeline(variables).latency

    def longest_cycles(self) -> int:
        """Clock cycles from start to done with the largest values of all variables."""
        return self.predicted_cycles({v.name: v.high for v in self.variables})

    @property
    def host(self) -> HostShape:
        """Interface of the host port that starts the runs."""
        return next(port.serves for port in self.ports if port.serves.control)

    @property
    def loop(self) -> HostLoop | None:
        """Runs that the design starts itself."""
        return self.host.loop

    def loop_cycles(self, results: int, variables: Mapping[str, int] | None = None) -> int:
        """Clock cycles of a start of the loop, from start to done.

        Parameters
        ----------
        results : int
            Runs, each of which gives one.
        variables : mapping of str to int, optional
            Values in the first run; the loop's counter counts from there.

        Raises
        ------
        InputError
            For a design without a loop.
        """
        loop = self.loop
        if loop is None:
            raise InputError(
                f"the design {self.program.name} has no loop",
                hint="compile with options=tg2hdl.CompileOptions(loop=True)",
            )
        first, cycles = dict(variables or {}), 0
        for number in range(results):
            counted = {} if loop.counter is None else {loop.counter: first[loop.counter] + number}
            cycles += self.predicted_cycles(first | counted) + loop.gap
        return cycles

    @property
    def variables(self) -> tuple[Any, ...]:
        """Run-time variables that the host sets, each once."""
        calls = self.program.calls
        return tuple({v.name: v for call in calls for v in call.host_variables}.values())

    @cached_property
    def core_plans(self) -> tuple[HardwarePlan, ...]:
        """Plan of each core, in the order of their first runs."""
        return plan_of_each_core(self.cores, self.kernels)

    @property
    def repeats_cores(self) -> bool:
        """Whether a core runs several times."""
        return len(self.core_plans) < len(self.cores)

    @property
    def identity(self) -> str:
        """Sixteen digits in base 16 that differ for another design; the host ports tell them."""
        told = [port.serves.identity for port in self.ports if port.serves.identity]
        loop = [] if self.options.loop is None else [write_record(self.options.loop)]
        return told[0] if told else content_key("design", self._bare(), *loop)[:16]

    def _bare(self) -> str:
        """A record of the hardware; how it was found and validated makes no difference."""
        return write_record(replace(self, ports=(), validation=Validation()), optional=False)

    @property
    def streams_weights(self) -> bool:
        """Whether weights arrive from memory outside the chip while kernels run."""
        return self.external is not None and bool(self.external.tiles)

    # Buffers

    @cached_property
    def memories(self) -> dict[int, MemoryPlan]:
        """Memory of each program buffer that a kernel uses."""
        found = {}
        for memory in self.buffers:
            kernel, slot = memory.slots[0]
            call = self.program.calls[kernel]
            number = next(
                n for meta, n in zip(call.kernel.buffers, call.buffers, strict=True) if meta.idx == slot
            )
            found[number] = memory
        return found

    def memory(self, buffer: int) -> MemoryPlan:
        """Memory of a program buffer; a region of an array where `arrays` says so."""
        return self.memories[buffer]

    @property
    def built_memories(self) -> tuple[MemoryPlan, ...]:
        """The memories of the hardware: arrays, and buffers that are in none."""
        regions = {name for array in self.arrays for name in array.members}
        alone = (memory for memory in self.buffers if memory.name not in regions)
        return (*alone, *(array.memory for array in self.arrays))

    def loads(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[int, npt.NDArray[np.uint64]]:
        """Words to write through the host ports before `start`, by program buffer: bit patterns (words, lanes).

        Raises
        ------
        InputError
            When an input is missing or has another size or dtype.
        """
        return {
            number: memory.layout.pack(_input(self.program.buffers[number], inputs), memory.dtype)
            for number, memory in self.memories.items()
            if memory.role.host_writes and not memory.role.is_state
        }

    def load_cycles(self) -> int:
        """Clock cycles to write all inputs, one word of each memory after the other."""
        loaded = (m for m in self.buffers if m.role.host_writes and not m.role.is_state)
        return sum(memory.layout.words for memory in loaded)

    def readback_cycles(self) -> int:
        """Clock cycles to read all outputs, without the latency of each."""
        return sum(self.memory(n).layout.words for n in self.program.outputs)

    # Text

    def format(self) -> str:
        """Everything that was decided, readable."""
        time = "" if self.variables else f", {self.predicted_cycles()} cycles"
        sharing = "shared" if self.sharing.multipliers else "private"
        held = ", operands held at zero" if self.sharing.held_operands else ""
        count = f"{len(self.kernels)} kernels"
        if self.repeats_cores:
            count += f" on {len(self.core_plans)} cores"
        lines = [
            f"DESIGN {self.program.name}: {count}, {self.sequencer.policy}{time}, multipliers {sharing}{held}"
        ]
        lines += self.sequencer.format([plan.kernel.name for plan in self.kernels])
        lines += [f"  port {port.format()}" for port in self.ports]
        lines += [] if self.external is None else self.external.format()
        lines += [f"  memory {memory.format()}" for memory in self.buffers if not memory.role.streamed]
        lines += [f"  array {array.format()}" for array in self.arrays]
        if self.repeats_cores:
            calls = self.program.calls
            columns = run_columns(self.cores, calls, self.memories, self.arrays, self.kernels)
            lines += [
                f"  {columns.format(run, core, calls[run], self.memories)}"
                for run, core in enumerate(self.cores)
            ]
        lines += [f"  {self.validation.format()}"]
        lines += [plan.format() for plan in self.core_plans]
        return "\n".join(lines)


def plan_of_each_core(cores: Sequence[int], plans: Sequence[HardwarePlan]) -> tuple[HardwarePlan, ...]:
    """Plan of each core; merged where the plans of its runs differ.

    Parameters
    ----------
    cores : sequence of int
        Core of each run.
    plans : sequence of HardwarePlan
        Plan of each run.
    """
    found: dict[int, list[HardwarePlan]] = {}
    for core, plan in zip(cores, plans, strict=True):
        variants = found.setdefault(core, [])
        if plan not in variants:
            variants.append(plan)
    return tuple(merged_plan(found[core]) for core in range(len(found)))


def _input(buffer: ProgramBuffer, inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    array = inputs.get(buffer.name, buffer.initial)
    if array is None:
        raise InputError(f"input {buffer.name!r} is missing", hint=f"give an array of shape {buffer.shape}")
    array = np.asarray(array)
    if array.size != buffer.depth:
        raise InputError(
            f"input {buffer.name!r} has shape {array.shape}, expected {buffer.shape}",
            hint="reshape it, or compile the model for this shape",
        )
    if array.dtype != buffer.dtype.numpy():
        raise InputError(
            f"input {buffer.name!r} has dtype {array.dtype}, expected {buffer.dtype}",
            hint=f"convert it with .astype({str(buffer.dtype.numpy())!r})",
        )
    return array.reshape(-1)
