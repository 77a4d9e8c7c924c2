"""Kernels that overlap with the one before them, in a design whose kernels otherwise run one after the other.

Some were planned for it, at the pace of the other.  Others happen to read words in the order in which they are written,
and need neither hardware nor ports of the other; loop bounds may then be known at run time only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from tg2hdl_lower import HardwarePlan, MemoryPlan, family_named, kind_named
from tg2hdl_lower.memory.choose import with_ports
from tg2hdl_top.sequencer.access_times import AccessTimes, cases_of
from tg2hdl_top.sequencer.offsets import least_distance, times_of
from tg2hdl_top.sequencer.plan import Sharing
from tg2hdl_top.sequencer.rings import ROUNDS, KernelPair, with_rings

__all__ = ["Followers", "find_followers"]

_LEAST = 2
"""Cycles from the start of a run to that of the following one, whose core is then known."""
_MOST_STEPS = 1 << 22
"""Steps of two kernels, for all values of their loop bounds, up to which their accesses are enumerated."""


@dataclass(frozen=True)
class Followers:
    """Kernels that follow the one before them, with the least cycles after its start at which they may start.

    Attributes
    ----------
    memories : list of MemoryPlan
        With a read port more where two kernels read at the same time.
    """

    delays: dict[int, int]
    memories: list[MemoryPlan]


def find_followers(
    plans: Sequence[HardwarePlan],
    memories: Sequence[MemoryPlan],
    sharing: Sharing,
    cores: Sequence[int] | None = None,
    arrays: Mapping[str, str] | None = None,
    *,
    also_unplanned: bool = False,
) -> Followers:
    """Find the kernels that were planned to follow and may.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        Of each run, in execution order.
    cores : sequence of int, optional
        Core of each run, where some run several times.
    arrays : mapping of str to str, optional
        Array of each memory that is a region of one.
    also_unplanned : bool
        Whether other kernels follow too, where that takes neither a change of their plan nor a port.
    """
    cores = list(range(len(plans)) if cores is None else cores)
    found = _found(plans, list(memories), sharing, cores, arrays or {})
    # The word of a ring of one is read later than that of a memory: the kernel may start earlier, and so on.
    for _ in range(ROUNDS if found.delays else 0):
        before, found = found, _found(plans, found.memories, sharing, cores, arrays or {})
        if found.delays == before.delays:
            break
    if also_unplanned:
        found.delays.update(_unplanned(plans, found, sharing, cores, arrays or {}))
    return found


def _unplanned(
    plans: Sequence[HardwarePlan],
    found: Followers,
    sharing: Sharing,
    cores: list[int],
    arrays: Mapping[str, str],
) -> dict[int, int]:
    """Delays of the kernels, none of a pair that is known, that save the most cycles together."""
    taken = {number - offset for number in found.delays for offset in (0, 1)}
    gains: dict[int, tuple[float, int]] = {}
    for number in range(1, len(plans)):
        if cores[number] == cores[number - 1] or {number - 1, number} & taken:
            continue
        pair = _Pair(number, plans, found.memories, arrays, is_single=False)
        gain = pair.gain(sharing)
        if gain is not None:
            gains[number] = gain
    # Most cycles saved by pairs up to a kernel, each of which is in one at most.
    best: list[tuple[float, tuple[int, ...]]] = [(0, ())] * 2
    for number in range(1, len(plans)):
        saved, chosen = best[-2]
        option = (saved + gains[number][0], (*chosen, number)) if number in gains else best[-1]
        best.append(max(best[-1], option, key=lambda each: each[0]))
    return {number: gains[number][1] for number in best[-1][1]}


def _found(
    plans: Sequence[HardwarePlan],
    memories: list[MemoryPlan],
    sharing: Sharing,
    cores: list[int],
    arrays: Mapping[str, str],
) -> Followers:
    found, pairs = Followers({}, memories), dict[int, KernelPair]()
    for number, plan in enumerate(plans):
        if plan.follows and number - 1 not in found.delays and not plans[number - 1].kernel.variables:
            pair = _Pair(number, plans, found.memories, arrays, cores.count(cores[number]) == 1)
            times = pair.times()
            delay = pair.delay(*times, sharing)
            if delay is not None:
                found.delays[number] = delay
                pairs[number] = KernelPair(*times, delay)
                found.memories[:] = [pair.changed.get(n, memory) for n, memory in enumerate(found.memories)]
    apart = [at for at, memory in enumerate(found.memories) if memory.name not in arrays]
    if pairs:
        ringed = with_rings([found.memories[at] for at in apart], pairs, family_named(plans[0].family))
        changed = dict(zip(apart, ringed, strict=True))
        found.memories[:] = [changed.get(n, memory) for n, memory in enumerate(found.memories)]
    return found


@dataclass
class _Pair:
    """A kernel and the one before it.

    Attributes
    ----------
    is_single : bool
        Whether its core has no other run.
    changed : dict of int to MemoryPlan
        Memories that need a port more, by number.
    """

    number: int
    plans: Sequence[HardwarePlan]
    memories: Sequence[MemoryPlan]
    arrays: Mapping[str, str]
    is_single: bool
    changed: dict[int, MemoryPlan] = field(default_factory=dict)

    def delay(self, first: AccessTimes, second: AccessTimes, sharing: Sharing) -> int | None:
        """Least cycles between two starts; None where the kernels need the same hardware or do not overlap."""
        number = self.number
        if set(sharing.of(first.shared)) & set(sharing.of(second.shared)):
            return None
        least = max(_LEAST, first.cycles + 1 - second.cycles)
        written: tuple[set[str], set[str]] = (set(), set())
        read: dict[str, set[int]] = {}
        for memory in self.memories:
            name = self.arrays.get(memory.name, memory.name)
            ones = [b for k, b in memory.slots if k == number - 1]
            others = [b for k, b in memory.slots if k == number]
            for one in ones:
                written[0].update({name} if one in first.writes else ())
                ports = (port for b, port in first.read_ports if b == one)
                read.setdefault(name, set()).update(memory.port_of((number - 1, one), p) for p in ports)
            written[1].update({name} if any(other in second.writes for other in others) else ())
            for one, other in product(ones, others):
                least = max(least, least_distance(first, one, second, other))
        if written[0] & written[1] or least >= first.cycles:
            return None
        for at, memory in enumerate(self.memories):
            # The address of a single word never changes.
            if memory.layout.words == 1 and memory.name not in self.arrays:
                continue
            taken = read.get(self.arrays.get(memory.name, memory.name), set())
            if not self._routed(at, memory, taken, second):
                return None
        return least

    def gain(self, sharing: Sharing) -> tuple[float, int] | None:
        """Cycles that a start next to the first kernel saves on average, and its delay; None where it may not be.

        For all run-time loop bounds; nothing is changed for it.
        """
        pair = self.plans[self.number - 1 : self.number + 1]
        pools = [
            set(sharing.of({use.pool: 0 for use in (*plan.products, *plan.shared_units)})) for plan in pair
        ]
        cases = None if pools[0] & pools[1] else cases_of(pair)
        if cases is None or sum(plan.steps(case) for plan in pair for case in cases) > _MOST_STEPS:
            return None
        delay, first_cycles = 0, []
        for case in cases:
            first, second = self.times(case)
            least = self.delay(first, second, sharing)
            if least is None or self.changed:
                return None
            delay = max(delay, least)
            first_cycles.append(first.cycles)
        saved = [cycles - delay for cycles in first_cycles]
        # While the second kernel waits, the first one runs.
        return (sum(saved) / len(saved), delay) if min(saved) > 0 else None

    def times(self, variables: Mapping[str, int] | None = None) -> tuple[AccessTimes, AccessTimes]:
        """Accesses of both kernels."""
        kernels = (self.number - 1, self.number)
        mine = [
            replace(m, slots=tuple((kernels.index(k), b) for k, b in m.slots if k in kernels))
            for m in self.memories
        ]
        first, second = times_of([self.plans[n] for n in kernels], mine, variables)
        return first, second

    def _routed(self, at: int, memory: MemoryPlan, taken: set[int], second: AccessTimes) -> bool:
        """Whether the kernel has read ports to itself, perhaps after one was added."""
        for kernel, buffer in memory.slots:
            for port in (p for b, p in second.read_ports if (kernel, b) == (self.number, buffer)):
                slot = kernel, buffer
                if memory.port_of(slot, port) in taken:
                    family = family_named(self.plans[0].family)
                    to = next((p for p in memory.ports if p not in taken), 1 + max(memory.ports))
                    most = kind_named(memory.kind).read_ports(memory.use, family)
                    if to >= max(most, len(memory.ports)) or memory.name in self.arrays or not self.is_single:
                        return False
                    ports = tuple(sorted({*memory.ports, to}))
                    memory = with_ports(memory, ports, (*memory.routes, (slot, port, to)), family)
                    self.changed[at] = memory
                taken = taken | {memory.port_of(slot, port)}
        return True
