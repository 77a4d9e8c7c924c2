"""The design around planned kernels: memories, host ports, sequencer, shared hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tg2hdl_ir import InputError, KernelIR, ProgramIR
from tg2hdl_lower import Decision, HardwarePlan, HostShape, MemoryArray, MemoryPlan, Slot, family_named
from tg2hdl_lower.memory.array import array_words, plan_array, union_of_roles
from tg2hdl_lower.memory.choose import plan_memory
from tg2hdl_lower.sharing.arbiter import HeldOperands
from tg2hdl_top.design import Design, plan_of_each_core
from tg2hdl_top.external.memory_port import check_memory, image_buffer
from tg2hdl_top.external.plan import plan_external
from tg2hdl_top.loop_plan import plan_loop, results_buffer
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.ports import need_identity, overlaps_runs, plan_ports
from tg2hdl_top.repeats import Repeats
from tg2hdl_top.roles import buffer_roles
from tg2hdl_top.sequencer import Sharing, sequencer_named
from tg2hdl_top.sequencer.check import check_timeline
from tg2hdl_top.sequencer.followers import find_followers

__all__ = ["design_program", "plan_arrays", "plan_memories", "sharing_of"]


def design_program(
    program: ProgramIR,
    options: CompileOptions,
    plans: Sequence[HardwarePlan],
    sources: Sequence[KernelIR],
    preparation: ProgramIR | None = None,
    repeats: Repeats | None = None,
    notes: Sequence[str] | None = None,
    decisions: Sequence[Decision] = (),
) -> Design:
    """Decide about memories, ports, sequencer and sharing of planned kernels.

    Parameters
    ----------
    program : ProgramIR
        Calls in the order of the plans.
    repeats : Repeats, optional
        Which calls run on one core; each has its own when absent.
    notes : sequence of str, optional
        Why each weight is where it is; with ``weights="external"`` only.
    decisions : sequence of Decision, optional
        Those that made the program.

    Raises
    ------
    InputError
        When kernels that share a buffer disagree about its size or layout.
    """
    plans = list(plans)
    memories = plan_memories(program, options, plans, repeats)
    cores = tuple(range(len(plans))) if repeats is None else repeats.cores
    sharing = replace(sharing_of(plan_of_each_core(cores, plans), options), cores=repeats is not None)
    sequencing = sequencer_named(options.schedule).arrange(options.schedule, plans, memories, sharing)
    arrays = () if repeats is None else plan_arrays(program, options, sequencing.memories, repeats)
    if repeats is not None and sequencer_named(options.schedule).follows:
        members = {name: array.memory.name for array in arrays for name in array.members}
        beside = find_followers(
            plans, sequencing.memories, sharing, cores, members, also_unplanned=notes is None
        )
        followed = replace(sequencing.plan, followers=tuple(beside.delays.items()))
        sequencing = replace(sequencing, plan=followed, memories=tuple(beside.memories))
    check_timeline(sequencing.plan, plans, sequencing.memories, sharing)
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
        arrays,
        decisions=(*decisions, *([] if sequencing.decision is None else [sequencing.decision])),
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
    """The resources that planned kernels share besides memories.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        By call.
    options : CompileOptions
    """
    return Sharing(options.share_multipliers, options.share_multipliers and HeldOperands.suit(list(plans)))


def plan_memories(
    program: ProgramIR,
    options: CompileOptions,
    plans: Sequence[HardwarePlan],
    repeats: Repeats | None = None,
) -> list[MemoryPlan]:
    """Memory of each buffer that planned kernels use.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
    plans : sequence of HardwarePlan
        By call.
    repeats : Repeats, optional
        Calls that share a core; each has its own unless given.

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
    sizes = {n: plans[slots[0][0]].layouts[slots[0][1]].words for n, slots in uses.items()}
    words = {
        n: array_words(each)
        for found in regions.values()
        if len(set(each := [sizes[k] for k in found])) > 1
        for n in found
    }
    memories = []
    for (buffer, slots), name in zip(uses.items(), names, strict=True):
        _check_slots(plans, slots)
        loadable = program.buffers[buffer].role == "weight" and options.weights == "loadable"
        contents = None if loadable or roles[buffer].streamed else program.buffers[buffer].initial
        memories.append(
            plan_memory(
                name,
                plans,
                tuple(slots),
                roles[buffer],
                family,
                contents,
                unions.get(buffer),
                words.get(buffer, 0),
            )
        )
    return memories


def plan_arrays(
    program: ProgramIR, options: CompileOptions, memories: Sequence[MemoryPlan], repeats: Repeats
) -> tuple[MemoryArray, ...]:
    """Arrays of the buffers that the runs of a core reach in one slot.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
    memories : sequence of MemoryPlan
        Of the buffers.
    repeats : Repeats
        Calls that share a core.

    Raises
    ------
    InputError
        When the kernels were not planned for such an array.
    """
    used = dict.fromkeys(n for call in program.calls for n in call.buffers)
    of = dict(zip(used, memories, strict=True))
    return tuple(
        plan_array(f"array{n}", [of[buffer] for buffer in found], family_named(options.target))
        for n, found in enumerate(repeats.groups.regions().values())
    )


def _host_shape(design: Design, order: Sequence[int]) -> HostShape:
    """Everything that the host ports of a design serve, whose kernels are done in this order."""
    program, interval = design.program, design.sequencer.interval
    shape = HostShape.of(design.buffers, design.variables, order)
    buffers = {memory.name: program.buffers[number] for number, memory in design.memories.items()}
    described = [
        replace(
            b,
            title=buffers[b.name].name,
            role=buffers[b.name].role,
            shape=buffers[b.name].shape,
            is_paced=any(ledger.buffer == b.name for ledger in design.sequencer.ledgers),
        )
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
        # A run may start in the cycle in which the one before it is done.
        overlap=max(2, -(-design.sequencer.latency // interval)) if interval else 1,
        program=program.name,
        keeps_state=bool(program.state_buffers()),
    )
    keeps = need_identity(design.options.ports)
    if design.options.loop is not None:
        loop = plan_loop(design, shape, design.options.loop, keeps_results=keeps)
        results = results_buffer(loop, program.buffers[program.outputs[0]].shape)
        more = () if results is None else (results,)
        shape = replace(shape, loop=loop, buffers=(*shape.buffers, *more))
    return replace(shape, identity=design.identity, cycles=design.longest_cycles()) if keeps else shape


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
