"""Buffers that are never needed together share a memory, and ROMs that no kernel reads together are stacked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, count
from math import log2

from tg2hdl_ir import FamilyDef
from tg2hdl_lower import Alternative, Cost, MemoryArray, MemoryPlan, Slot, family_named, kind_named
from tg2hdl_lower.decisions import Trials, luts_per_block
from tg2hdl_lower.memory.array import joined_array
from tg2hdl_lower.memory.choose import with_kind
from tg2hdl_lower.memory.kind import choose_kind
from tg2hdl_lower.memory.lut import luts_of_rom
from tg2hdl_lower.memory.use import MemoryUse
from tg2hdl_top.design import Design
from tg2hdl_top.lifetimes import run_times
from tg2hdl_top.memory_blocks import lane_enables, memory_blocks
from tg2hdl_top.memory_turns import calls_at_ports, free_port, spares
from tg2hdl_top.region_places import RegionPlaces
from tg2hdl_top.sequencer.plan import read_use, write_use

__all__ = ["with_shared_memories"]

MOST_WORDS_IN_LUTS = 256
"""Words of a ROM in LUTs."""

_TABLES = (0, 32, 64, 128, 256, 512)
"""Most LUTs of a ROM that is made of them: each is tried."""

_IN_THREES = 24
"""Groups of words of one width of which all threes are tried: 2,024, where a hundred groups have 161,700."""

BLOCKS_TO_SPARE = 28
"""Block RAMs that each part has: half of those of the smallest ECP5; designs with fewer have no ROM moved to LUTs."""

LUTS_PER_BIT = 0.67
"""LUTs that select a bit among several sources, for each of them: two gated bits are a LUT, and so is their OR."""


@dataclass(frozen=True)
class _Unit:
    """A memory that is built, as planned so far.

    Parameters
    ----------
    members : tuple of MemoryPlan
        The buffers in it.
    cores : frozenset of int
        Cores that read it.
    readers, writers : frozenset of int
        Calls that read and write it.
    reads : mapping of int to frozenset of int
        Calls that read at each read port.
    lane : int
        As in `MemoryUse`.
    """

    memory: MemoryPlan
    members: tuple[MemoryPlan, ...]
    cores: frozenset[int]
    readers: frozenset[int]
    writers: frozenset[int]
    reads: Mapping[int, frozenset[int]]
    lane: int
    blocks: int


@dataclass(frozen=True)
class _Joined:
    """How a group of units would share a memory.

    Parameters
    ----------
    units : tuple of _Unit
        The group in the order of `bases` and of ports.
    bases : tuple of int
        First word of each member of the units.
    """

    units: tuple[_Unit, ...]
    bases: tuple[int, ...]
    ports: int
    adds: bool
    blocks: int
    luts: float

    def cost(self, prefer: str) -> float:
        """Block RAMs, with the LUTs that are worth one."""
        return self.blocks + self.luts / luts_per_block(prefer)


def with_shared_memories(design: Design) -> Design:
    """The design with as few block RAMs as joining its memories makes; bits of results and cycles stay.

    Units are joined greedily: the pair that spares most is first, then three where no pair spares any; then groups go
    whose units are cheaper in others.
    ROMs of few words are made of LUTs where that spares block RAMs.
    """
    sequencer = design.sequencer
    if not design.options.share_memories or sequencer.interval or sequencer.rows or design.streams_weights:
        return design
    return _PairSearch(design).best()


class _PairSearch:
    def __init__(self, design: Design) -> None:
        self.design = design
        self.prefer = design.options.prefer
        self.family: FamilyDef = family_named(design.options.target)
        self.places = RegionPlaces(design)
        self.times = run_times(design)
        self.accesses = [call.accesses() for call in design.program.calls]
        self.blocks = memory_blocks(design, self.family)
        self.cycles = design.longest_cycles()
        self._known: dict[frozenset[str], _Joined | None] = {}

    @cached_property
    def units(self) -> list[_Unit]:
        """Memories in block RAM that may share one."""
        blocks = self.blocks
        arrays = {array.memory.name: array for array in self.design.arrays}
        regions = {memory.name: memory for memory in self.design.buffers}
        found = []
        for memory in self.design.built_memories:
            array = arrays.get(memory.name)
            members = (memory,) if array is None else tuple(regions[name] for name in array.members)
            kept = memory.ring or any(m.role.is_weight and m.role.host_writes for m in members)
            if memory.kind == "block" and blocks[memory.name] and not kept:
                found.append(self._unit(memory, members, blocks[memory.name]))
        return found

    def _unit(self, memory: MemoryPlan, members: tuple[MemoryPlan, ...], blocks: int) -> _Unit:
        design = self.design
        names = {member.name for member in members}
        numbers = {n for n, m in design.memories.items() if m.name in names}
        readers = frozenset(k for k, (read, _) in enumerate(self.accesses) if numbers & read)
        reads = calls_at_ports(design, memory)[0]
        return _Unit(
            memory,
            members,
            frozenset(design.cores[k] for k in readers),
            readers,
            frozenset(k for k, (_, written) in enumerate(self.accesses) if numbers & written),
            {n: frozenset(reads[port]) for n, port in enumerate(memory.ports)},
            lane_enables(memory, design, names),
            blocks,
        )

    # Which units share a memory

    def best(self) -> Design:
        """The design with the memories that are worth their LUTs, and the decision."""
        design = self.design
        trials: Trials[Callable[[], Design]] = Trials(
            "share-memories",
            design.program.name,
            "shared memories",
            self._alternative([], {}, "a memory for each buffer"),
            lambda: design,
            prefer=self.prefer,
            scope="program",
        )
        few = sum(unit.blocks for unit in self.units) < BLOCKS_TO_SPARE and self.prefer != "block-ram"
        luts = {} if few else {unit.memory.name: _luts_of_table(unit) for unit in self.units}
        tried = []
        for most in _TABLES if any(luts.values()) else (0,):
            tables = {name: count for name, count in luts.items() if 0 < count <= most}
            groups = self.groups([unit for unit in self.units if unit.memory.name not in tables])
            if tables not in tried and (tables or any(map(self.improves, groups))):
                tried.append(tables)
                trials.offer(self._alternative(groups, tables), partial(self.applied, groups, tables))
        if not tried and (pair := self._sparing_pair()):
            trials.offer(self._alternative([pair], {}), None)
        decision = trials.decision(
            "their contents are not needed at the same time, or no kernel reads both",
            "the LUTs are worth more than the block RAMs",
        )
        if len(decision.alternatives) == 1:
            return design
        shared = trials.best()
        return replace(shared, decisions=(*shared.decisions, decision))

    def _alternative(
        self,
        groups: Sequence[Sequence[_Unit]],
        tables: Mapping[str, int],
        name: str = "memories that buffers share",
    ) -> Alternative:
        """The block RAMs of groups that share a memory and the others, with the LUTs that ROMs are made of."""
        shared = [joined for group in groups if self.improves(group) and (joined := self.joined(group))]
        gone = {unit.memory.name for joined in shared for unit in joined.units} | set(tables)
        blocks = sum(n for memory, n in self.blocks.items() if memory not in gone)
        blocks += sum(joined.blocks for joined in shared)
        luts = sum(tables.values()) + sum(
            max(0.0, j.luts - sum(map(self._alone, j.units))) for j in shared if len(j.units) > 1
        )
        rest = [unit for unit in self.units if unit.memory.name not in gone]
        tie = sum(unit.blocks + self._alone(unit) / luts_per_block(self.prefer) for unit in rest)
        tie += sum(joined.cost(self.prefer) for joined in shared)
        tie += sum(tables.values()) / luts_per_block(self.prefer, moved=True)
        if tables:
            name += f", and {len(tables)} ROM{'' if len(tables) == 1 else 's'} in LUTs"
        cost = Cost(self.cycles, block_rams=blocks, tie=tie)
        return Alternative(name, cost, f"about {luts:,.0f} LUTs more" if round(luts) else "")

    def groups(self, units: Sequence[_Unit]) -> list[list[_Unit]]:
        """Units that share a memory."""
        groups = [[unit] for unit in units]
        saved = {(id(a), id(b)): self._saved(a, b) for a, b in combinations(groups, 2) if _alike(a[0], b[0])}
        while saved:
            (first, second), most = max(saved.items(), key=lambda item: item[1])
            if most <= 0:
                break
            one = next(g for g in groups if id(g) == first)
            other = next(g for g in groups if id(g) == second)
            joined = [*one, *other]
            gone = {first, second}
            saved = {pair: value for pair, value in saved.items() if not gone & set(pair)}
            groups = [g for g in groups if id(g) not in gone]
            saved |= {(id(g), id(joined)): self._saved(g, joined) for g in groups if _alike(g[0], joined[0])}
            groups.append(joined)
        return self._fewer(self._in_threes(groups))

    def _in_threes(self, groups: list[list[_Unit]]) -> list[list[_Unit]]:
        """Groups of words of one width, joined where no two of them spare block RAMs but three do."""
        equal: dict[tuple[bool, int, int], list[list[_Unit]]] = {}
        for group in groups:
            first = group[0].memory
            if all(unit.memory.word_width == first.word_width for unit in group):
                equal.setdefault((first.role.is_rom, first.read_latency, first.word_width), []).append(group)
        for each in equal.values():
            for three in combinations(each[:_IN_THREES], 3):
                if self._saved(*three) > 0:
                    rest = [group for group in groups if not any(group is one for one in three)]
                    return self._in_threes([*rest, [unit for group in three for unit in group]])
        return groups

    def _fewer(self, groups: list[list[_Unit]]) -> list[list[_Unit]]:
        """Groups without those whose units are cheaper in the others."""
        for group in sorted(groups, key=len):
            rest = [list(other) for other in groups if other is not group]
            before = self._cost(group) + sum(map(self._cost, rest))
            for unit in group:
                found = [
                    (joined.cost(self.prefer) - self._cost(other), number)
                    for number, other in enumerate(rest)
                    if _alike(unit, other[0]) and (joined := self.joined([*other, unit])) is not None
                ]
                if not found:
                    break
                rest[min(found)[1]].append(unit)
            else:
                if sum(map(self._cost, rest)) < before:
                    return self._fewer(rest)
        return groups

    def _saved(self, *groups: Sequence[_Unit]) -> float:
        """Block RAMs that joining groups spares, LUTs counted."""
        after = self.joined([unit for group in groups for unit in group])
        if after is None:
            return 0.0
        return sum(map(self._cost, groups)) - after.cost(self.prefer)

    def _cost(self, group: Sequence[_Unit]) -> float:
        joined = self.joined(group)
        assert joined is not None, "each group is one memory"
        return joined.cost(self.prefer)

    def improves(self, group: Sequence[_Unit]) -> bool:
        """Whether a group takes fewer block RAMs as one memory than as planned."""
        joined = self.joined(group)
        return joined is not None and joined.blocks < sum(unit.blocks for unit in group)

    def joined(self, group: Sequence[_Unit]) -> _Joined | None:
        """How a group would share a memory; None where it cannot."""
        key = frozenset(unit.memory.name for unit in group)
        if key not in self._known:
            found = self._joined(group)
            if len(group) == 1 and (found is None or found.blocks > group[0].blocks):
                found = _Joined((*group,), (), 0, False, group[0].blocks, 0.0)  # as planned
            self._known[key] = found
        return self._known[key]

    def _joined(self, group: Sequence[_Unit]) -> _Joined | None:
        members = [member for unit in group for member in unit.members]
        rom = group[0].memory.role.is_rom
        if len(group) > 1 and (_reaches_several(members) or self._clash(group)):
            return None
        lanes, bits = max(m.layout.lanes for m in members), max(m.dtype.bit_width for m in members)
        width = max(m.word_width for m in members) if rom else lanes * bits
        uneven = len({m.layout.lanes for m in members}) > 1
        lane = 0 if rom else bits if uneven or any(unit.lane for unit in group) else 0
        ports = self._ports(group)[1]
        wide = self.family.memory.wide_bits
        if any((m.word_width >= wide) != (width >= wide) for m in members):
            return None  # whose address would fan out without a register, or with one too many
        kind, before = kind_named("block"), group[0].memory
        turns = ports > 1 and self._takes_turns(group)

        def made(bases: tuple[int, ...], adds: bool) -> _Joined | None:
            words = max(base + m.layout.words for base, m in zip(bases, members, strict=True))
            use = MemoryUse(words, width, before.role, before.read_latency, lane)
            slower = kind.extra_latency(use, self.family) != kind.extra_latency(before.use, self.family)
            if slower or choose_kind(replace(use, lane=0), self.family) != "block":
                return None
            pieces = kind.pieces(use, self.family, ports)
            use = replace(use, turns=turns and spares(pieces, ports, self.family))
            area = kind.area(use, self.family, ports)
            luts = area.lut + self._luts(group, width, words, adds)
            return _Joined((*group,), bases, ports, adds, area.bram, luts)

        places = [made(self.places.first_words(members, aligned=True), False)]
        if len(members) > 1:
            places.append(made(self.places.first_words(members, aligned=False), True))
        found = [place for place in places if place is not None]
        return (
            min(found, key=lambda place: (place.cost(self.prefer), place.luts, place.adds)) if found else None
        )

    def _clash(self, group: Sequence[_Unit]) -> bool:
        """Whether a call writes several units, or calls that run at the same time read two units, or write them."""
        writers: set[int] = set()
        for unit in group:
            if writers & unit.writers:
                return True
            writers |= unit.writers
        if not (self.design.sequencer.starts or self.design.sequencer.followers):
            return False
        return any(
            self.times[k].meets(self.times[n])
            for a, b in combinations(group, 2)
            for one, other in ((a.readers, b.readers), (a.writers, b.writers))
            for k in one
            for n in other
            if k != n
        )

    def _ports(self, group: Sequence[_Unit]) -> tuple[list[int], int]:
        """First read port of each unit, and the number of all: no core reads two units at one port."""
        placed: list[tuple[int, _Unit]] = []
        for unit in group:
            taken = {
                first + n
                for first, other in placed
                if unit.cores & other.cores
                for n in range(len(other.memory.ports))
            }
            width = len(unit.memory.ports)
            at = next(n for n in count() if not taken & set(range(n, n + width)))
            placed.append((at, unit))
        return [at for at, _ in placed], max(at + len(unit.memory.ports) for at, unit in placed)

    def _takes_turns(self, group: Sequence[_Unit]) -> bool:
        """Whether the write port of the memory of a group also reads."""
        firsts, ports = self._ports(group)
        reads: dict[int, set[int]] = {port: set() for port in range(ports)}
        for unit, first in zip(group, firsts, strict=True):
            for number, calls in unit.reads.items():
                reads[first + number] |= calls
        if any(member.role.host_reads for unit in group for member in unit.members):
            del reads[0]
        return free_port(self.times, reads, {call for unit in group for call in unit.writers}) is not None

    def _luts(self, group: Sequence[_Unit], width: int, words: int, adds: bool) -> float:
        """LUTs that join the writers and the addresses of all cores."""
        cores = self.design.cores
        writers = {cores[k] for unit in group for k in unit.writers}
        readers = {cores[k] for unit in group for k in unit.readers}
        bits = log2(max(2, words))
        sources = width * max(0, len(writers) - 1) + bits * (len(readers) + len(writers))
        return LUTS_PER_BIT * sources + (bits * (len(readers) + len(writers)) if adds else 0)

    # The design with them

    def applied(self, groups: Sequence[Sequence[_Unit]], tables: Mapping[str, int]) -> Design:
        """The design whose memories are joined, and which has these ROMs in LUTs."""
        design = self.design
        names = {memory.name for memory in design.built_memories}
        fresh = (name for n in count() if (name := f"shared{n}") not in names)
        made: list[MemoryArray] = []
        gone: set[str] = set()
        uses: dict[tuple[int, str], str] = {}
        for group in groups:
            joined = self.joined(group)
            if joined is None or not self.improves(group):
                continue
            array, renamed = self._array(next(fresh), joined)
            made.append(array)
            uses |= renamed
            gone |= {unit.memory.name for unit in group}
        kept = [a for a in design.arrays if a.memory.name not in gone]
        arrays = (*(replace(a, memory=self._placed(a.memory, tables)) for a in kept), *made)
        windows = tuple(replace(w, use=uses.get((w.kernel, w.use), w.use)) for w in design.sequencer.windows)
        sequencer = replace(design.sequencer, windows=windows)
        buffers = tuple(self._placed(memory, tables) for memory in design.buffers)
        return replace(design, buffers=buffers, arrays=arrays, sequencer=sequencer)

    def _placed(self, memory: MemoryPlan, tables: Collection[str]) -> MemoryPlan:
        return with_kind(memory, "lut", self.family) if memory.name in tables else memory

    def _array(self, name: str, joined: _Joined) -> tuple[MemoryArray, dict[tuple[int, str], str]]:
        """A memory, and the names of its ports by call and former name."""
        routes: list[tuple[Slot, int, int]] = []
        uses: dict[tuple[int, str], str] = {}
        for unit, first in zip(joined.units, self._ports(joined.units)[0], strict=True):
            memory = unit.memory
            number = {port: first + n for n, port in enumerate(memory.ports)}
            for slot in memory.slots:
                uses[slot[0], write_use(memory.name)] = write_use(name)
                for port in self.design.kernels[slot[0]].ports:
                    if port.reads and port.buffer == slot[1]:
                        before = memory.port_of(slot, port.number)
                        uses[slot[0], read_use(memory.name, before)] = read_use(name, number[before])
                        routes.append((slot, port.number, number[before]))
        members = [member for unit in joined.units for member in unit.members]
        table = tuple(dict.fromkeys(route for route in routes if route[1] != route[2]))
        array = joined_array(name, members, joined.bases, joined.ports, table, self.family, adds=joined.adds)
        return array, uses

    def _sparing_pair(self) -> list[_Unit]:
        """The pair that would spare most block RAMs; empty where no pair spares any."""
        pairs = [[one, other] for one, other in combinations(self.units, 2) if _alike(one, other)]

        def spared(pair: list[_Unit]) -> tuple[int, float]:
            joined = self.joined(pair)
            return (0, 0.0) if joined is None else (sum(u.blocks for u in pair) - joined.blocks, -joined.luts)

        return max(filter(self.improves, pairs), key=spared, default=[])

    def _alone(self, unit: _Unit) -> float:
        joined = self.joined([unit])
        return 0.0 if joined is None else joined.luts


def _luts_of_table(unit: _Unit) -> int:
    """LUTs of a ROM that may be made of them; 0 for another memory."""
    memory = unit.memory
    if not memory.role.is_rom or memory.layout.words > MOST_WORDS_IN_LUTS:
        return 0
    return len(memory.ports) * luts_of_rom(memory.words(), memory.word_width)


def _alike(one: _Unit, other: _Unit) -> bool:
    """Whether two memories may be one: contents at power on and written words never join."""
    a, b = one.memory, other.memory
    return a.role.is_rom == b.role.is_rom and a.read_latency == b.read_latency


def _reaches_several(members: Sequence[MemoryPlan]) -> bool:
    """Whether the host would reach two regions at once."""
    reached: list[Callable[[MemoryPlan], bool]] = [
        lambda m: m.role.host_writes,
        lambda m: m.role.host_reads,
    ]
    return any(sum(map(reaches, members)) > 1 for reaches in reached)
