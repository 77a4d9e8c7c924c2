"""Lanes: nodes that do the same to different words become one loop.

Colour refinement finds them: nodes have one colour when they have the same operator, width and place in the order, and
operands of the same colours.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import CONST, Operand, sources

__all__ = ["LANES", "Refinement", "find_lanes", "memory_groups"]

LANES = 6  # fewer are not worth a loop
ROUNDS = 64


def memory_groups(design: NetlistWords, groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return segments that are read together, and the others one by one.

    Parameters
    ----------
    design : NetlistWords
    groups : iterable of sequence of int
        Segments of each group, lane after lane.
    """
    found = [list(group) for group in groups]
    taken = {segment for group in found for segment in group}
    return found + [[segment] for segment in range(len(design.segments)) if segment not in taken]


def find_lanes(design: NetlistWords, order: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the groups of nodes and of memory segments; in each, lane after lane.

    Parameters
    ----------
    design : NetlistWords
    order : sequence of int
        Numbers of the nodes, operands first.
    """
    colours = _Colours(design, order)
    colours.refine()
    nodes, segments = colours.groups()
    _order_lanes(design, nodes, segments)
    taken = {n for group in nodes for n in group}
    return nodes + [[n] for n in order if n not in taken], memory_groups(design, segments)


def _shape(operand: Operand) -> tuple[Any, ...]:
    return tuple((CONST, 0, count) if node == CONST else (0, low, count) for node, low, count in operand)


class _Colours:
    def __init__(self, design: NetlistWords, order: Sequence[int]) -> None:
        self.design, self.order = design, order
        nodes = design.nodes
        self.level: dict[int, int] = {}
        for n in order:
            if nodes[n].op in ("ff", "in"):
                self.level[n] = 0
        for n in order:
            if nodes[n].op not in ("ff", "in"):
                below = (self.level[s] for operand in nodes[n].ins for s in sources(operand))
                self.level[n] = 1 + max(below, default=0)
        self.writes: defaultdict[int, list[Any]] = defaultdict(list)
        for write in design.writes:
            self.writes[write.segment].append(write)
        self.readers: defaultdict[int, list[int]] = defaultdict(list)
        for n in order:
            if nodes[n].op == "read":
                self.readers[nodes[n].data].append(n)
        self.sources = {n: [s for operand in nodes[n].ins for s in sources(operand)] for n in order}
        self.write_sources = {
            segment: [
                s for w in writes for operand in (w.address, w.data, w.enable) for s in sources(operand)
            ]
            for segment, writes in self.writes.items()
        }
        self.colour: dict[int, int] = {}
        self.segment_colour: dict[int, int] = {}

    def _start(self) -> None:
        ids: dict[Any, int] = {}
        for n in self.order:
            node = self.design.nodes[n]
            match node.op:
                case "ff":
                    data: Any = None
                case "read":
                    segment = self.design.segments[node.data]
                    data = segment.width, segment.depth
                case "in":
                    data = node.data[0]
                case _:
                    data = node.data
            key: Any = node.op, node.width, data, self.level[n], tuple(map(_shape, node.ins))
            self.colour[n] = ids.setdefault(key, len(ids))
        for number, segment in enumerate(self.design.segments):
            ports = tuple((_shape(w.address), _shape(w.data), _shape(w.enable)) for w in self.writes[number])
            held = "memory", segment.width, segment.depth, ports
            self.segment_colour[number] = ids.setdefault(held, len(ids))

    def _round(self) -> int:
        """Refine once; returns the number of colours."""
        ids: dict[Any, int] = {}
        colour, segment_colour, nodes = self.colour, self.segment_colour, self.design.nodes
        fresh: dict[int, int] = {}
        for n in self.order:
            key: Any = (colour[n], *[colour[s] for s in self.sources[n]])
            if nodes[n].op == "read":
                key = "read", key, segment_colour[nodes[n].data]
            fresh[n] = ids.setdefault(key, len(ids))
        for number in segment_colour:
            key = (
                "memory",
                segment_colour[number],
                tuple(colour[s] for s in self.write_sources.get(number, ())),
                tuple(colour[n] for n in self.readers[number]),
            )
            segment_colour[number] = ids.setdefault(key, len(ids))
        self.colour = fresh
        return len(ids)

    def refine(self) -> None:
        """Refine until nothing changes and every colour is of one node or of enough for a loop."""
        self._start()
        refinement = Refinement(self._reads())
        while True:
            if not self._settle_at_once(refinement) and not self._settle():
                self._separate(lambda members: True)
                return
            if not self._separate(lambda members: 1 < len(members) < LANES):
                return

    def _settle(self) -> bool:
        """Refine round by round; returns whether that ended."""
        count = 0
        for _ in range(ROUNDS):
            found = self._round()
            if found == count:
                return True
            count = found
        return False

    def _settle_at_once(self, refinement: Refinement) -> bool:
        """Refine by hashes; returns whether the colours are those of `_settle`."""
        before, before_segments = self.colour, dict(self.segment_colour)
        start = np.array([*map(before.__getitem__, self.order), *before_segments.values()], np.int64)
        found = refinement.settled(start, ROUNDS)
        if found is None:
            return False
        colours = found.tolist()
        self.colour = dict(zip(self.order, colours, strict=False))
        self.segment_colour = dict(zip(before_segments, colours[len(self.order) :], strict=True))
        count = len(set(colours))
        # No collision of hashes: every colour is within one of those before, and a round changes nothing.
        if len(set(zip(start.tolist(), colours, strict=True))) == count == self._round():
            return True
        self.colour, self.segment_colour = before, before_segments
        return False

    def _reads(self) -> list[list[int]]:
        """Return the operands of each node and each segment, by their places among all of them."""
        nodes, places = self.design.nodes, {n: place for place, n in enumerate(self.order)}
        found = [[places[s] for s in self.sources[n]] for n in self.order]
        for place, n in enumerate(self.order):
            if nodes[n].op == "read":
                found[place].append(len(self.order) + nodes[n].data)
        for segment in self.segment_colour:
            read = (*self.write_sources.get(segment, ()), *self.readers[segment])
            found.append([places[n] for n in read])
        return found

    def _classes(self) -> tuple[list[list[int]], list[list[int]]]:
        nodes: defaultdict[int, list[int]] = defaultdict(list)
        segments: defaultdict[int, list[int]] = defaultdict(list)
        for n, colour in self.colour.items():
            nodes[colour].append(n)
        for number, colour in self.segment_colour.items():
            segments[colour].append(number)
        return list(nodes.values()), list(segments.values())

    def _separate(self, wanted: Any) -> bool:
        """Give every member of some classes a colour of its own."""
        nodes, segments = self._classes()
        fresh, changed = len(self.colour) + len(self.segment_colour) + 1, False
        for members in nodes:
            if wanted(members):
                changed = True
                for n in members:
                    self.colour[n] = fresh
                    fresh += 1
        for members in segments:
            if wanted(members):
                changed = True
                for number in members:
                    self.segment_colour[number] = fresh
                    fresh += 1
        return changed

    def groups(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return the classes that become loops."""
        nodes, segments = self._classes()
        return (
            [sorted(members) for members in nodes if len(members) >= LANES],
            [sorted(members) for members in segments if len(members) >= LANES],
        )


def _order_lanes(design: NetlistWords, nodes: list[list[int]], segments: list[list[int]]) -> None:
    """Sort the members of each group so that lane i reads lane i of its operands, where that is possible."""
    # Segments of memories are members as well, with negative numbers: reads use them, and they use the writes.
    groups = [*nodes, *([-2 - segment for segment in group] for group in segments)]
    group_of = {member: k for k, group in enumerate(groups) for member in group}
    inputs = _inputs(design)
    operands: list[list[list[int]]] = []
    users: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for k, group in enumerate(groups):
        operands.append([list(column) for column in zip(*map(inputs, group), strict=True)])
        for place, column in enumerate(operands[k]):
            if column[0] in group_of and len(set(column)) == len(column):
                users[group_of[column[0]]].append((k, place))
    original = [{member: lane for lane, member in enumerate(group)} for group in groups]
    ordered: set[int] = set()
    # From the narrow end of adder trees, so that the operands of each level are two halves of the one below.
    for seed in sorted(range(len(groups)), key=lambda k: len(groups[k])):
        if seed in ordered:
            continue
        ordered.add(seed)
        queue = deque([seed])
        while queue:
            k = queue.popleft()
            lane = {member: place for place, member in enumerate(groups[k])}
            rows = [original[k][member] for member in groups[k]]
            wanted: defaultdict[int, dict[int, None]] = defaultdict(dict)
            for column in operands[k]:
                other = group_of.get(column[0])
                if other is not None and other not in ordered:
                    wanted[other] |= dict.fromkeys(column[row] for row in rows)
            for other, members in wanted.items():
                groups[other] = [*members, *(m for m in groups[other] if m not in members)]
                ordered.add(other)
                queue.append(other)
            for other, place in users[k]:
                if other not in ordered:
                    column = operands[other][place]
                    places = {m: lane[column[row]] for m, row in original[other].items()}
                    groups[other] = sorted(groups[other], key=places.__getitem__)
                    ordered.add(other)
                    queue.append(other)
    nodes[:] = groups[: len(nodes)]
    segments[:] = [[-2 - member for member in group] for group in groups[len(nodes) :]]


def _inputs(design: NetlistWords) -> Callable[[int], list[int]]:
    """Return the function that gives the dependences of a node or a segment of a memory."""
    written: defaultdict[int, list[int]] = defaultdict(list)
    for write in design.writes:
        for operand in (write.address, write.data, write.enable):
            written[write.segment] += sources(operand)

    def inputs(member: int) -> list[int]:
        if member < 0:
            return written[-2 - member]
        node = design.nodes[member]
        found = [source for operand in node.ins for source in sources(operand)]
        return [*found, -2 - node.data] if node.op == "read" else found

    return inputs


Hashes = NDArray[np.uint64]


class Refinement:
    """Items, and the items that each of them reads, in order.

    A round gives two items one colour when they had one, and read items of the same colours.
    """

    def __init__(self, reads: Sequence[Sequence[int]]) -> None:
        counts = np.array([len(sources) for sources in reads], np.int64)
        self._sources = np.array([source for sources in reads for source in sources], np.int64)
        self._readers = np.flatnonzero(counts)
        self._starts = (np.cumsum(counts) - counts)[self._readers]
        place = np.arange(len(self._sources)) - np.repeat(self._starts, counts[self._readers])
        self._weights = _mixed(place.astype(np.uint64) + np.uint64(1)) | np.uint64(1)

    def settled(self, start: NDArray[np.int64], rounds: int) -> NDArray[np.int64] | None:
        """Return the colours once a round separates no more items; None when `rounds` are too few.

        Different colours may collide, with a chance of 1 in 2**30 for 100,000 items: a caller checks them.

        Parameters
        ----------
        start : ndarray
            First colour of each item.
        rounds : int
            Upper bound.
        """
        hashes, count = _mixed(start.astype(np.uint64)), 0
        for _ in range(rounds):
            hashes = self._round(hashes)
            _, colours = np.unique(hashes, return_inverse=True)
            found = int(colours.max(initial=-1)) + 1
            if found == count:
                return colours.reshape(-1)
            count = found
        return None

    def _round(self, hashes: Hashes) -> Hashes:
        found = hashes * np.uint64(0x9E3779B97F4A7C15)
        if len(self._readers):
            found[self._readers] += np.add.reduceat(hashes[self._sources] * self._weights, self._starts)
        return _mixed(found)


def _mixed(values: Hashes) -> Hashes:
    """Return the finalizer of SplitMix64: every bit of a value changes half of the bits of its hash."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
