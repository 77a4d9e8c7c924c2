"""Where wide cells are cut into words of at most 64 bits.

Cells that treat every bit alike (registers, memories, multiplexers, bitwise operators) are cut where their users
slice them, so that lanes packed in one word become separate variables.  Bits that an operator reads as one number
stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tg2hdl_sim.amaranth_internals import nir

__all__ = ["WORD", "Segments", "find_segments", "runs"]

WORD = 64
BITWISE = ("&", "|", "^", "~")
Segments = dict[int, tuple[tuple[int, int], ...]]


def runs(value: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (place, cell, first bit, count) of runs of bits; the cell of a constant is -1, and its bit the value."""
    place, end = 0, len(value)
    nets = [int(net) for net in value]
    while place < end:
        net = nets[place]
        stop = place + 1
        if net < 2:
            while stop < end and nets[stop] < 2:
                net |= nets[stop] << (stop - place)
                stop += 1
            yield place, -1, net, stop - place
        else:
            # Bits of a cell are numbered in the low half of a net.
            while stop < end and nets[stop] == net + stop - place:
                stop += 1
            yield place, net >> 16, net & 0xFFFF, stop - place
        place = stop


def _ones(low: int, high: int) -> int:
    return ((1 << high) - 1) & -(1 << low) if high > low else 0


@dataclass
class _Cell:
    """Bit sets over the boundaries between the bits of a cell: where it may be cut, and where it must not."""

    cut: int = 0
    joined: int = 0


@dataclass
class _Cuts:
    cells: list[_Cell]
    parallel: list[tuple[int, list[tuple[int, int, int, int]]]] = field(default_factory=list)

    def read_as_number(self, value: Sequence[int]) -> None:
        for _, cell, bit, count in runs(value):
            if cell >= 0:
                self.cells[cell].cut |= 1 << bit | 1 << (bit + count)
                if count <= WORD:
                    self.cells[cell].joined |= _ones(bit + 1, bit + count)

    def read_in_parts(self, value: Sequence[int]) -> None:
        for _, cell, bit, count in runs(value):
            if cell >= 0:
                self.cells[cell].cut |= 1 << bit | 1 << (bit + count)

    def bit_by_bit(self, cell: int, values: Iterable[tuple[Sequence[int], int]]) -> None:
        for value, start in values:
            pieces = [(start + place, source, bit, count) for place, source, bit, count in runs(value)]
            self.parallel.append((cell, pieces))
            for _, source, bit, count in pieces:
                if source >= 0:
                    self.cells[source].cut |= 1 << bit | 1 << (bit + count)

    def propagate(self, ties: Sequence[tuple[int, int]]) -> None:
        changed = True
        while changed:
            changed = False
            for cell, pieces in reversed(self.parallel):
                mine = self.cells[cell]
                for place, source, bit, count in pieces:
                    before = mine.cut
                    mine.cut |= 1 << place | 1 << (place + count)
                    if source >= 0:
                        theirs = self.cells[source]
                        inner = _ones(1, count)
                        cut = theirs.cut | (mine.cut >> place & inner) << bit
                        joined = theirs.joined | (mine.joined >> place & inner) << bit
                        changed |= cut != theirs.cut or joined != theirs.joined
                        theirs.cut, theirs.joined = cut, joined
                        mine.cut |= (cut & ~joined) >> bit << place & inner << place
                    changed |= mine.cut != before
            for port, memory in ties:
                one, two = self.cells[port], self.cells[memory]
                if (one.cut, one.joined) != (two.cut, two.joined):
                    one.cut = two.cut = one.cut | two.cut
                    one.joined = two.joined = one.joined | two.joined
                    changed = True

    def segments(self, cell: int, low: int, high: int) -> tuple[tuple[int, int], ...]:
        mine = self.cells[cell]
        places = mine.cut & ~mine.joined
        found, start = [], low
        for place in range(low + 1, high + 1):
            if place == high or places >> place & 1 or place - start == WORD:
                found.append((start, place))
                start = place
        return tuple(found)


def find_segments(
    cells: Sequence[Any],
    widths: Mapping[int, int],
    in_bits: frozenset[int] = frozenset(),
    inputs: Mapping[int, Sequence[tuple[str, int, int]]] = MappingProxyType({}),
) -> Segments:
    """Return the (low, high) of each word of each cell.

    Parameters
    ----------
    widths : mapping of int to int
        Bits of each cell; of the inputs (cell 0), the highest bit.
    in_bits : frozenset of int
        Cells that are cut into single bits.
    inputs : mapping of int to sequence of (str, int, int)
        Port, first bit and width of each word that an instance reads.
    """
    cuts = _Cuts([_Cell() for _ in cells])
    ties = []
    bitwise = set()
    for index, cell in enumerate(cells):
        match cell:
            case nir.Operator(operator=op) if op in BITWISE:
                cuts.bit_by_bit(index, ((value, 0) for value in cell.inputs))
                bitwise.add(index)
            case nir.Operator(operator="m"):
                cuts.read_as_number(cell.inputs[0])
                cuts.bit_by_bit(index, ((value, 0) for value in cell.inputs[1:]))
                bitwise.add(index)
            case nir.Operator():
                for value in cell.inputs:
                    cuts.read_as_number(value)
            case nir.Part():
                cuts.read_as_number(cell.offset)
                cuts.read_as_number(cell.value)
            case nir.Matches():
                cuts.read_as_number(cell.value)
            case nir.AssignmentList():
                values = [(cell.default, 0)] + [(a.value, a.start) for a in cell.assignments]
                cuts.bit_by_bit(index, values)
                for a in cell.assignments:
                    cuts.cells[index].cut |= 1 << a.start | 1 << (a.start + len(a.value))
                bitwise.add(index)
            case nir.FlipFlop():
                cuts.bit_by_bit(index, [(cell.data, 0)])
                bitwise.add(index)
            case nir.AsyncReadPort() | nir.SyncReadPort():
                cuts.read_as_number(cell.addr)
                ties.append((index, cell.memory))
                bitwise |= {index, cell.memory}
            case nir.SyncWritePort():
                cuts.read_as_number(cell.addr)
                cuts.bit_by_bit(cell.memory, [(cell.data, 0)])
                for place in range(1, len(cell.en)):
                    if cell.en[place] != cell.en[place - 1]:
                        cuts.cells[cell.memory].cut |= 1 << place
                bitwise.add(cell.memory)
            case nir.Instance():
                for name, low, width in inputs.get(index, ()):
                    cuts.read_as_number(cell.ports_i[name][low : low + width])
            case nir.Top():
                for start, width in cell.ports_i.values():
                    cuts.cells[0].cut |= 1 << start | 1 << (start + width)
                for value in cell.ports_o.values():
                    cuts.read_in_parts(value)
    for index in in_bits:
        cuts.cells[index].cut |= _ones(0, widths[index] + 1)
    cuts.propagate(ties)
    # A different enable for each part of a word forces a cut, even if a reader uses the word as one number.
    for cell in cells:
        if isinstance(cell, nir.SyncWritePort):
            for place in range(1, len(cell.en)):
                if cell.en[place] != cell.en[place - 1]:
                    cuts.cells[cell.memory].joined &= ~(1 << place)
    for port, memory in ties:
        cuts.cells[port].joined = cuts.cells[memory].joined
        cuts.cells[port].cut = cuts.cells[memory].cut
    for index in in_bits:
        cuts.cells[index].joined = 0
    found: Segments = {}
    for index, width in widths.items():
        if index == 0:
            ports = cells[0].ports_i.values()
            found[0] = tuple(s for start, w in ports for s in cuts.segments(0, start, start + w))
        elif index in bitwise:
            found[index] = cuts.segments(index, 0, width)
        elif isinstance(cells[index], nir.PriorityMatch):
            found[index] = tuple((bit, bit + 1) for bit in range(width))
        else:
            found[index] = tuple((low, min(low + WORD, width)) for low in range(0, width, WORD))
    for port, memory in ties:
        found[port] = found[memory]
    return found
