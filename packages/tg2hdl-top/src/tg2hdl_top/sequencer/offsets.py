"""The earliest start of each kernel without a conflict of reads, writes, ports or shared units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tg2hdl_ir import FamilyDef
from tg2hdl_lower import HardwarePlan, MemoryPlan, Slot, kind_named
from tg2hdl_lower.memory.choose import with_ports
from tg2hdl_top.sequencer.access_times import (
    NEVER,
    AccessTimes,
    CycleRange,
    WordTimes,
    access_times,
    bounds_of,
)
from tg2hdl_top.sequencer.plan import Sharing, read_use, write_use

__all__ = [
    "NoRoomError",
    "Offsets",
    "Use",
    "least_distance",
    "meet",
    "smallest_offsets",
    "times_by_kernel",
    "times_of",
]


MOST_SLOTS = 4
"""Intervals that a kernel may be moved to where all that it shares is free at once."""


class NoRoomError(Exception):
    """Nothing is free in any cycle of the interval."""


@dataclass(frozen=True)
class Use:
    """Shared hardware that a kernel needs in an interval of cycles."""

    kernel: int
    name: str
    interval: CycleRange


@dataclass
class Offsets:
    """Starts in cycles, the uses of shared hardware at these starts, and the memories with their ports."""

    starts: list[int] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    memories: list[MemoryPlan] = field(default_factory=list)


def times_of(
    plans: Sequence[HardwarePlan],
    memories: Sequence[MemoryPlan],
    variables: Mapping[str, int] | None = None,
) -> list[AccessTimes]:
    """Access times of every kernel of a design, for values of its run-time variables.

    Parameters
    ----------
    plans : sequence of HardwarePlan
    memories : sequence of MemoryPlan
    variables : mapping of str to int, optional
        Values by name.
    """
    return [*times_by_kernel(plans, memories, range(len(plans)), variables).values()]


def times_by_kernel(
    plans: Sequence[HardwarePlan],
    memories: Sequence[MemoryPlan],
    kernels: Iterable[int],
    variables: Mapping[str, int] | None = None,
) -> dict[int, AccessTimes]:
    """Access times of some kernels of a design, for values of its run-time variables.

    Parameters
    ----------
    plans : sequence of HardwarePlan
    memories : sequence of MemoryPlan
    kernels : iterable of int
        Numbers.
    variables : mapping of str to int, optional
        Values by name.
    """
    sampled: list[dict[int, CycleRange]] = [{} for _ in plans]
    for memory in memories:
        cycles = CycleRange(*kind_named(memory.kind).sampled(memory))
        for kernel, buffer in memory.slots:
            sampled[kernel][buffer] = cycles
    return {kernel: _times_of(plans[kernel], sampled[kernel], variables or {}) for kernel in kernels}


def _times_of(
    plan: HardwarePlan, sampled: dict[int, CycleRange], variables: Mapping[str, int]
) -> AccessTimes:
    """Times of a plan, kept while its program is planned: every trial of another kernel needs them again."""
    used = {v.name: variables[v.name] for v in plan.kernel.variables if v.name in variables}
    bounds = bounds_of(plan, used)
    key = id(plan), tuple(sorted(sampled.items())), bounds
    if key not in _known:
        _known[key] = plan, access_times(plan, sampled, used)
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[key][1]


_known: OrderedDict[tuple[Any, ...], tuple[HardwarePlan, AccessTimes]] = OrderedDict()
"""With the plans, whose ids stay theirs as long as they live."""
_KEPT = 256


def smallest_offsets(
    times: Sequence[AccessTimes],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    family: FamilyDef,
    interval: int | None = None,
) -> Offsets:
    """Start each kernel, in order, as soon as those before it allow.

    Every word that a kernel reads has been written, no word is written that an earlier kernel still reads or will
    write itself, and no two kernels use a memory port or shared hardware in the same cycle.  Where a kernel would wait
    for a read port only, it gets one of its own while the memory may have more.

    Parameters
    ----------
    interval : int, optional
        Cycles from one run to the next, whose kernels must not meet those of this one either.  The host then reads
        through port 0 at any time.

    Raises
    ------
    NoRoomError
        When the interval has no free place.
    """
    search = _OffsetSearch(times, list(memories), sharing, family, interval)
    for kernel in range(len(times)):
        search.place(kernel)
    return search.found()


class _OffsetSearch:
    def __init__(
        self,
        times: Sequence[AccessTimes],
        memories: list[MemoryPlan],
        sharing: Sharing,
        family: FamilyDef,
        interval: int | None,
    ) -> None:
        self.times = times
        self.interval = interval
        self.sharing = sharing
        self.starts: list[int] = []
        self.uses: list[Use] = []
        self.memories = memories
        self.family = family
        self.ports = [set(memory.ports) for memory in memories]
        self.routes: list[dict[tuple[Slot, int], int]] = [{} for _ in memories]
        self.slots: list[dict[int, int]] = [{} for _ in times]
        self.host_ports = [{0} if interval and memory.role.host_reads else set() for memory in memories]
        for number, memory in enumerate(memories):
            for kernel, buffer in memory.slots:
                self.slots[kernel][buffer] = number

    def place(self, kernel: int) -> None:
        """Find the start of a kernel."""
        start = earliest = self._after_hazards(kernel)
        while True:
            fixed, later = self._uses_at(kernel, start)
            if later == start:
                break
            if later == NEVER or (
                self.interval is not None and later - earliest > MOST_SLOTS * self.interval
            ):
                raise NoRoomError
            start = later
        self.starts.append(start)
        self.uses += fixed

    def found(self) -> Offsets:
        """The result, with the memories' ports as they are now."""
        memories = []
        for number, memory in enumerate(self.memories):
            ports = tuple(sorted(self.ports[number]))
            readers = {(slot[0], to) for (slot, _), to in self.routes[number].items()}
            assert len(readers) == len(self.routes[number]), "each read of a kernel has a port of its own"
            routes = tuple((slot, port, to) for (slot, port), to in self.routes[number].items() if port != to)
            if ports != memory.ports or routes:
                memory = with_ports(memory, ports, routes, self.family)
            memories.append(memory)
        return Offsets(self.starts, self.uses, memories)

    # Words

    def _after_hazards(self, kernel: int) -> int:
        mine = self.times[kernel]
        least = 0
        for earlier, start in enumerate(self.starts):
            theirs = self.times[earlier]
            for buffer, memory in self.slots[kernel].items():
                for other in (b for b, m in self.slots[earlier].items() if m == memory):
                    least = max(least, start + least_distance(theirs, other, mine, buffer))
        return least

    # Ports and shared hardware

    def _uses_at(self, kernel: int, start: int) -> tuple[list[Use], int]:
        """Uses of a kernel that starts then, and the next start to try: the same one if there is no conflict."""
        mine = self.times[kernel]
        shared = self.sharing.of(mine.shared)
        uses = [Use(kernel, name, interval.after(start)) for name, interval in shared.items()]
        for buffer, interval in mine.write_ports.items():
            memory = self.memories[self.slots[kernel][buffer]]
            uses.append(Use(kernel, write_use(memory.name), interval.after(start)))
        later = max([start, *(self._free_from(use, start) for use in uses)])
        if later > start:
            return [], later
        taken: dict[int, set[int]] = {}
        routes: list[tuple[int, tuple[Slot, int], int]] = []
        for (buffer, port), interval in mine.read_ports.items():
            number = self.slots[kernel][buffer]
            memory = self.memories[number]
            if memory.layout.words == 1 and (self.interval is None or memory.role.is_rom):
                continue  # The address never changes: there is one bank.
            mine_there = taken.setdefault(number, set())
            to, later = self._read_port(
                number, port, Use(kernel, "", interval.after(start)), mine_there, start
            )
            if later > start:
                return [], later
            mine_there.add(to)
            routes.append((number, ((kernel, buffer), port), to))
            uses.append(Use(kernel, read_use(self.memories[number].name, to), interval.after(start)))
        for number, route, to in routes:
            self.routes[number][route] = to
            self.ports[number].add(to)
        return uses, start

    def _read_port(self, number: int, wanted: int, use: Use, taken: set[int], start: int) -> tuple[int, int]:
        """Port of a memory for a reader, and from when on it is free."""
        memory = self.memories[number]
        limit = max(kind_named(memory.kind).read_ports(memory.use, self.family), len(memory.ports))
        if self.interval is not None:
            # One port would be busy most of the time; that of the host serves no kernel.
            limit = max(limit, self.family.memory.block_ports) + len(self.host_ports[number])
        usable = self.ports[number] - self.host_ports[number] - taken
        existing = sorted(usable, key=lambda port: (port != wanted, port))
        free = [
            (self._free_from(replace(use, name=read_use(memory.name, port)), start), n, port)
            for n, port in enumerate(existing)
        ]
        best = min(free, default=None)
        if best is not None and best[0] == start:
            return best[2], start
        ports = self.ports[number] | taken
        if best is None or len(ports) < limit:
            return max(ports, default=-1) + 1, start
        return best[2], best[0]

    def _free_from(self, use: Use, start: int) -> int:
        """First start from this one on at which a use of the kernel conflicts with no other; `NEVER` without one."""
        moved = use.interval
        others = [other.interval for other in self.uses if other.name == use.name]
        while True:
            hit = next((other for other in others if meet(other, moved, self.interval)), None)
            if hit is None:
                return start + moved.first - use.interval.first
            beyond = hit.last + 1 - moved.first
            moved = moved.after(beyond if self.interval is None else (beyond - 1) % self.interval + 1)
            if self.interval is not None and moved.first - use.interval.first >= self.interval:
                return NEVER


def meet(one: CycleRange, other: CycleRange, interval: int | None) -> bool:
    """Whether two uses share a cycle; with runs that follow each other after `interval` cycles, in any of them.

    Parameters
    ----------
    one, other : CycleRange
        In cycles, both ends included.
    interval : int or None
        Cycles from one run to the next; None for a single run.
    """
    if interval is None:
        return one.meets(other)
    gap = (other.first - one.first) % interval
    return gap <= one.last - one.first or (-gap) % interval <= other.last - other.first


def least_distance(earlier: AccessTimes, other: int, later: AccessTimes, buffer: int) -> int:
    """Cycles from the start of an earlier kernel to that of a later one, for its accesses to one memory.

    Parameters
    ----------
    earlier : AccessTimes
        Accesses of the two kernels, in cycles after their starts.
    other : int
        Slot of the memory in the earlier kernel.
    later : AccessTimes
        Accesses of the two kernels, in cycles after their starts.
    buffer : int
        Slot of the memory in the later kernel.
    """
    pairs: list[tuple[Mapping[int, WordTimes], Mapping[int, WordTimes], int]] = [
        (earlier.writes, later.reads, 1),
        (earlier.reads, later.writes, 0),
        (earlier.writes, later.writes, 1),
    ]
    gaps = [
        int((before[other].last - after[buffer].first).max()) + cycles
        for before, after, cycles in pairs
        if other in before and buffer in after
    ]
    return max(gaps, default=0)
