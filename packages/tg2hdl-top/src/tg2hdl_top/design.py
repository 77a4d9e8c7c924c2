"""A design: all decisions about the hardware of a program, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.content_cache import content_key
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.program import ProgramBuffer, ProgramIR
from tg2hdl_ir.records import read_record, write_record
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.families import family_named
from tg2hdl_lower.memory.array import MemoryArray, plan_array, union_of_roles
from tg2hdl_lower.memory.choose import plan_memory
from tg2hdl_lower.memory.host import HostShape
from tg2hdl_lower.memory.plan import MemoryPlan, Slot
from tg2hdl_lower.sharing.arbiter import HeldOperands
from tg2hdl_top.external.memory_port import check_memory, image_buffer
from tg2hdl_top.external.plan import ExternalPlan, plan_external
from tg2hdl_top.external.times import waiting_timeline
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.ports import PortPlan, need_identity, overlaps_runs, plan_ports
from tg2hdl_top.repeats import Repeats
from tg2hdl_top.repeats.table import run_columns
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.sequencer import SequencerPlan, Sharing, Timeline, sequencer_named

__all__ = ["Design", "design_program", "plan_memories", "sharing_of"]


@dataclass(frozen=True, eq=False)
class Design:
    """A program and its hardware.

    Parameters
    ----------
    program : ProgramIR
        What the hardware computes, bit for bit.
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
        Computes the weights that depend on other weights alone; its outputs are buffers of `program` by name.
    cores : tuple of int
        Core of each kernel call: calls with one core have one plan, and run one after the other on the same hardware.
    arrays : tuple of MemoryArray
        Buffers that are regions of one memory, because a core reads another one in each run.
    external : ExternalPlan, optional
        Weights that are streamed from memory outside the chip.
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

    def to_json(self) -> str:
        """The design as JSON; units, lowerings and kinds are named, and must be installed where it is read."""
        return write_record(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Design:
        """Read what `to_json` wrote.

        Raises
        ------
        InputError
            For text that is damaged or holds no design.
        """
        design = read_record(text)
        if not isinstance(design, cls):
            raise InputError(f"the record holds a {type(design).__name__}, not a design")
        return design

    def save(self, path: str | PathLike[str]) -> None:
        """Write the design to a JSON file."""
        Path(path).write_text(self.to_json())

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
    def variables(self) -> tuple[Any, ...]:
        """Run-time variables of the kernels, each once."""
        return _variables(self.program)

    @cached_property
    def core_plans(self) -> tuple[HardwarePlan, ...]:
        """Plan of each core, in the order of their first runs."""
        return _distinct(self.cores, self.kernels)

    @property
    def repeats_cores(self) -> bool:
        """Whether a core runs several times."""
        return len(self.core_plans) < len(self.cores)

    @property
    def identity(self) -> str:
        """Sixteen digits in base 16 that differ for another design; the host ports tell them."""
        told = [port.serves.identity for port in self.ports if port.serves.identity]
        return told[0] if told else _identity_of(replace(self, ports=()))

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
            if memory.role.host_writes
        }

    def load_cycles(self) -> int:
        """Clock cycles to write all inputs, one word of each memory after the other."""
        return sum(memory.layout.words for memory in self.buffers if memory.role.host_writes)

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
            columns = run_columns(self.cores, calls, self.memories, self.arrays)
            lines += [
                f"  {columns.format(run, core, calls[run], self.memories)}"
                for run, core in enumerate(self.cores)
            ]
        lines += [plan.format() for plan in self.core_plans]
        return "\n".join(lines)


def design_program(
    program: ProgramIR,
    options: CompileOptions,
    plans: Sequence[HardwarePlan],
    sources: Sequence[KernelIR],
    preparation: ProgramIR | None = None,
    repeats: Repeats | None = None,
    notes: Sequence[str] | None = None,
) -> Design:
    """Decide what surrounds planned kernels: memories, ports, sequencer, sharing.

    Parameters
    ----------
    program : ProgramIR
        Calls in the order of the plans.
    repeats : Repeats, optional
        Which calls run on one core; each has its own when absent.
    notes : sequence of str, optional
        Why each weight is where it is; with ``weights="external"`` only.

    Raises
    ------
    InputError
        When kernels that share a buffer disagree about its size or layout.
    """
    plans = list(plans)
    memories = plan_memories(program, options, plans, repeats)
    cores = tuple(range(len(plans))) if repeats is None else repeats.cores
    sharing = sharing_of(_distinct(cores, plans), options)
    sequencing = sequencer_named(options.schedule).arrange(options.schedule, plans, memories, sharing)
    others = [port for port in options.ports if not overlaps_runs(port)]
    if sequencing.plan.interval and others:
        raise InputError(
            f"host port {others[0]!r} starts runs one after the other; with schedule={options.schedule!r} they overlap",
            hint='choose schedule="overlap", or the port native or axi-stream',
        )
    ends = [start + plan.cycles() for start, plan in zip(sequencing.plan.starts, plans, strict=False)]
    order = sorted(range(len(plans)), key=lambda n: ends[n] if ends else n)
    order = [cores[n] for n in order]
    design = Design(
        program,
        options,
        tuple(plans),
        sequencing.memories,
        (),
        sequencing.plan,
        sharing,
        tuple(sources),
        preparation,
        cores,
        () if repeats is None else _arrays(program, options, sequencing.memories, repeats),
    )
    if notes is not None:
        roles = [buffer.role for buffer in program.buffers]
        found = plan_external(
            options.memory_port,
            check_memory(options.memory_port, options.memory),
            program.calls,
            roles,
            design.memories,
            design.arrays,
            notes,
        )
        design = replace(design, external=found)
    return replace(design, ports=plan_ports(options.ports, _host_shape(design, order)))


def sharing_of(plans: Sequence[HardwarePlan], options: CompileOptions) -> Sharing:
    """What planned kernels share besides memories."""
    return Sharing(options.share_multipliers, options.share_multipliers and HeldOperands.suit(list(plans)))


def plan_memories(
    program: ProgramIR,
    options: CompileOptions,
    plans: Sequence[HardwarePlan],
    repeats: Repeats | None = None,
) -> list[MemoryPlan]:
    """Memory of each buffer that planned kernels use.

    Raises
    ------
    InputError
        When kernels that share a buffer disagree about its size or layout.
    """
    plans = list(plans)
    uses: dict[int, list[Slot]] = {}
    for number, call in enumerate(program.calls):
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True):
            uses.setdefault(buffer, []).append((number, meta.idx))
    family = family_named(options.target)
    names = _identifiers([program.buffers[buffer].name for buffer in uses])
    roles = buffer_roles(program, options)
    regions = {} if repeats is None else repeats.groups.regions()
    unions = {n: union_of_roles([roles[k] for k in found]) for found in regions.values() for n in found}
    memories = []
    for (buffer, slots), name in zip(uses.items(), names, strict=True):
        _check_slots(plans, slots)
        loadable = program.buffers[buffer].role == "weight" and options.weights == "loadable"
        contents = None if loadable or roles[buffer].streamed else program.buffers[buffer].initial
        memories.append(
            plan_memory(name, plans, tuple(slots), roles[buffer], family, contents, unions.get(buffer))
        )
    return memories


def _arrays(
    program: ProgramIR, options: CompileOptions, memories: Sequence[MemoryPlan], repeats: Repeats
) -> tuple[MemoryArray, ...]:
    used = dict.fromkeys(n for call in program.calls for n in call.buffers)
    of = dict(zip(used, memories, strict=True))
    return tuple(
        plan_array(f"array{n}", [of[buffer] for buffer in found], family_named(options.target))
        for n, found in enumerate(repeats.groups.regions().values())
    )


def _distinct(cores: Sequence[int], plans: Sequence[HardwarePlan]) -> tuple[HardwarePlan, ...]:
    """Plan of each core."""
    found = dict(zip(cores, plans, strict=True))
    return tuple(found[core] for core in range(len(found)))


def _variables(program: ProgramIR) -> tuple[Any, ...]:
    """Variables that the host sets, each once."""
    return tuple({v.name: v for call in program.calls for v in call.host_variables}.values())


def _host_shape(design: Design, order: Sequence[int]) -> HostShape:
    """Everything that the host ports of a design serve, whose kernels are done in this order."""
    program, interval = design.program, design.sequencer.interval
    shape = HostShape.of(design.buffers, _variables(program), order)
    buffers = {memory.name: program.buffers[number] for number, memory in design.memories.items()}
    described = [
        replace(b, title=buffers[b.name].name, role=buffers[b.name].role, shape=buffers[b.name].shape)
        for b in shape.buffers
    ]
    if design.external is not None:
        image = image_buffer(design.external, buffers)
        described += [] if image is None else [image]
    shape = replace(
        shape,
        buffers=tuple(described),
        inputs=tuple(
            memory.name
            for number, memory in sorted(design.memories.items())
            if program.buffers[number].role == "input"
        ),
        outputs=tuple(design.memory(number).name for number in program.outputs),
        overlap=-(-design.sequencer.latency // interval) if interval else 1,
        program=program.name,
        keeps_state=any(
            program.buffers[n].initial is not None for call in program.calls for n in call.accesses()[1]
        ),
    )
    if not need_identity(design.options.ports):
        return shape
    return replace(shape, identity=_identity_of(design), cycles=design.longest_cycles())


def _identity_of(design: Design) -> str:
    return content_key("design", design.to_json())[:16]


def _check_slots(plans: Sequence[HardwarePlan], slots: Sequence[Slot]) -> None:
    def facts(slot: Slot) -> tuple[Any, int, Any]:
        kernel, buffer = slot
        plan = plans[kernel]
        return plan.storage[buffer], plan.kernel.buffer(buffer).depth, plan.layouts[buffer].merged()

    for slot in slots[1:]:
        if facts(slot) != facts(slots[0]):
            (storage, depth, layout), other = facts(slots[0]), facts(slot)
            raise InputError(
                f"connected buffers differ: {storage}[{depth}] {layout} of kernel {slots[0][0]} and "
                f"{other[0]}[{other[1]}] {other[2]} of kernel {slot[0]}",
                hint="plan both kernels with the same layout for the buffer",
            )


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


def _identifiers(names: Sequence[str]) -> list[str]:
    """Distinct names of signature members."""
    found: dict[str, None] = {}
    for name in names:
        clean = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_") or "buffer"
        clean = f"b{clean}" if clean[0].isdigit() or clean == "signature" else clean
        while clean in found:
            clean += "_"
        found[clean] = None
    return list(found)
