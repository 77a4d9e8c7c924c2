"""Whether the starts of a sequencer leave every kernel the time that its data and its hardware need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from tg2hdl_ir import PluginError
from tg2hdl_lower import HardwarePlan, MemoryArray, MemoryPlan
from tg2hdl_top.sequencer.access_times import MOST_CASES, AccessTimes, cases_of
from tg2hdl_top.sequencer.banks import least_banks
from tg2hdl_top.sequencer.base import Timeline, sequencer_named
from tg2hdl_top.sequencer.ledgers import row_ledgers
from tg2hdl_top.sequencer.offsets import Use, least_distance, meet, times_by_kernel
from tg2hdl_top.sequencer.plan import SequencerPlan, Sharing, read_use, write_use
from tg2hdl_top.sequencer.rings import KernelPair, holds

__all__ = ["check_timeline"]


def check_timeline(
    plan: SequencerPlan,
    plans: Sequence[HardwarePlan],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    arrays: Sequence[MemoryArray] = (),
) -> None:
    """Compare the starts that a sequencer predicts with the accesses that they let overlap.

    Kernels that run one after the other are right whatever they access.

    Parameters
    ----------
    plan : SequencerPlan
        As arranged by its policy.
    plans : sequence of HardwarePlan
        Of each run, in execution order.
    memories : sequence of MemoryPlan
        Of the buffers.
    arrays : sequence of MemoryArray, optional
        Those of which buffers are regions: kernels then share the ports of the array.

    Raises
    ------
    PluginError
        When a kernel starts before a word that it reads is written, overwrites a word that is still read, or uses a
        port or a shared unit while another kernel does.
    """
    if plan.rows:
        if plan.ledgers != row_ledgers(plans, memories):
            raise PluginError(
                f"sequencer {plan.policy!r} has other ledgers than its plans need",
                hint="correct its arrange()",
            )
        return
    longest = {v.name: v.high for each in plans for v in each.kernel.variables}
    timeline = _timeline(plan, plans, longest)
    if not plan.interval and all(end <= start for (_, end), (start, _) in pairwise(_runs(timeline))):
        return
    kernels = range(len(plans)) if plan.interval else sorted(_meeting(timeline))
    cases = cases_of([plans[kernel] for kernel in kernels])
    if cases is None:
        raise PluginError(
            f"sequencer {plan.policy!r} lets kernels meet whose loop bounds have more than {MOST_CASES:,} values",
            hint='correct its arrange() or predict(); schedule="serial" runs one kernel after the other',
        )
    for case in cases:
        _check_case(plan, plans, memories, sharing, arrays, kernels, longest | case)


def _timeline(plan: SequencerPlan, plans: Sequence[HardwarePlan], variables: Mapping[str, int]) -> Timeline:
    cycles = [each.cycles(dict(variables)) for each in plans]
    return sequencer_named(plan.policy).predict(cycles, plan)


def _check_case(
    plan: SequencerPlan,
    plans: Sequence[HardwarePlan],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    arrays: Sequence[MemoryArray],
    kernels: Collection[int],
    variables: Mapping[str, int],
) -> None:
    """The same for values of the run-time variables, and some kernels that meet."""
    timeline = _timeline(plan, plans, variables)
    times = times_by_kernel(plans, memories, kernels, variables)
    found = _hazard(timeline, times, memories) or _conflict(plan, timeline, times, memories, sharing, arrays)
    if found:
        kernel, reason = found
        raise PluginError(
            f"sequencer {plan.policy!r} starts kernel {kernel} ({plans[kernel].kernel.name}) in cycle "
            f"{timeline.starts[kernel]}, but {reason}",
            hint='correct its arrange() or predict(); schedule="serial" runs one kernel after the other',
        )
    for memory in memories if plan.interval else ():
        needed = least_banks([*times.values()], timeline.starts, memory, plan.interval, timeline.latency)
        if memory.banks < needed:
            raise PluginError(
                f"sequencer {plan.policy!r} starts a run every {plan.interval} cycles, but buffer {memory.name!r} "
                f"then needs {needed} banks and has {memory.banks}",
                hint="correct its arrange(), or start runs further apart",
            )


def _runs(timeline: Timeline) -> Iterable[tuple[int, int]]:
    return zip(timeline.starts, timeline.ends, strict=True)


def _meeting(timeline: Timeline) -> set[int]:
    """Kernels that run while another one does."""
    found, last = set[int](), -1
    runs = sorted((start, end, kernel) for kernel, (start, end) in enumerate(_runs(timeline)))
    for start, end, kernel in runs:
        if last >= 0 and start < timeline.ends[last]:
            found |= {last, kernel}
        if last < 0 or end > timeline.ends[last]:
            last = kernel
    return found


def _hazard(
    timeline: Timeline, times: Mapping[int, AccessTimes], memories: Sequence[MemoryPlan]
) -> tuple[int, str] | None:
    """The first kernel that starts too early for the words of a buffer, and why."""
    for memory in memories:
        for (earlier, other), (later, buffer) in combinations(sorted(memory.slots), 2):
            if earlier not in times or later not in times:
                continue
            start = timeline.starts[earlier] + least_distance(times[earlier], other, times[later], buffer)
            pair = KernelPair(times[earlier], times[later], timeline.starts[later] - timeline.starts[earlier])
            if memory.ring and later == earlier + 1 and buffer in pair.second.reads:
                if not holds(memory, memory, pair, other, buffer):
                    return later, f"buffer {memory.name!r} then needs more than {memory.ring} words"
            elif earlier != later and timeline.starts[later] < start:
                return (
                    later,
                    f"kernel {earlier} uses buffer {memory.name!r} so that cycle {start} is the earliest",
                )
    return None


def _conflict(
    plan: SequencerPlan,
    timeline: Timeline,
    times: Mapping[int, AccessTimes],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    arrays: Sequence[MemoryArray],
) -> tuple[int, str] | None:
    """The first kernel that uses hardware while another one does, or without a window to itself, and why."""
    runs = list(_runs(timeline))
    users: dict[str, list[Use]] = {}
    for use in _uses(plan, timeline, times, memories, sharing, arrays):
        users.setdefault(use.name, []).append(use)
    for one, other in (pair for found in users.values() for pair in combinations(found, 2)):
        (a, b), (c, d) = runs[one.kernel], runs[other.kernel]
        if one.kernel == other.kernel or (not plan.interval and (b <= c or d <= a)):
            continue
        if meet(one.interval, other.interval, plan.interval or None):
            return other.kernel, f"kernel {one.kernel} uses {one.name} in the same cycles"
        missing = [use.kernel for use in (one, other) if plan.window(use.kernel, use.name) is None]
        if missing:
            return other.kernel, f"kernel {missing[0]} has no window for {one.name}, which both use"
    return None


def _uses(
    plan: SequencerPlan,
    timeline: Timeline,
    times: Mapping[int, AccessTimes],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    arrays: Sequence[MemoryArray],
) -> list[Use]:
    """Shared hardware that each kernel needs, and when."""
    uses = []
    built = {name: array.memory for array in arrays for name in array.members}
    for kernel, mine in times.items():
        shared = sharing.of(mine.shared)
        uses += [Use(kernel, name, span.after(timeline.starts[kernel])) for name, span in shared.items()]
    for memory in memories:
        ports_of = built.get(memory.name, memory)
        for kernel, buffer in memory.slots:
            if kernel not in times:
                continue
            start, mine = timeline.starts[kernel], times[kernel]
            if buffer in mine.write_ports:
                uses.append(Use(kernel, write_use(ports_of.name), mine.write_ports[buffer].after(start)))
            # The address of a single word never changes.
            if memory.layout.words > 1 or (plan.interval and not memory.role.is_rom):
                ports = {port: span for (b, port), span in mine.read_ports.items() if b == buffer}
                uses += [
                    Use(
                        kernel,
                        read_use(ports_of.name, ports_of.port_of((kernel, buffer), port)),
                        span.after(start),
                    )
                    for port, span in ports.items()
                ]
    return sorted(uses, key=lambda use: use.kernel)
