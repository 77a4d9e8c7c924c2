"""Bit-sliced simulation: every net is one integer with a bit for each of many independent lanes.

A lane is a copy of the design with its own operands, so that one pass through the gates computes tens of thousands
of results. One clock domain; memories are read-only.
"""

__all__ = ["BitSlicedSimulation"]

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Fragment
from amaranth.lib import wiring

from .amaranth_internals import PortDirection, ValueCastable, build_netlist, nir

Planes = list[int]


class BitSlicedSimulation:
    """Simulates a component in many lanes at once.

    Parameters
    ----------
    component : wiring.Component
        The design; its ports are reached by name, joined by ``__`` where they are nested.
    lanes : int
        Number of independent copies.
    """

    def __init__(self, component: Any, lanes: int) -> None:
        self.lanes = lanes
        self._all = (1 << lanes) - 1
        ports = {}
        for path, member, value in component.signature.flatten(component):
            value = value.as_value() if isinstance(value, ValueCastable) else value
            is_input = member.flow == wiring.In
            direction = PortDirection.Input if is_input else PortDirection.Output
            ports["__".join(map(str, path))] = (value, direction)
        netlist = build_netlist(Fragment.get(component, None), ports=ports)
        self._cells = netlist.cells
        self._top = netlist.top
        self._nets: dict[int, int] = {0: 0, 1: self._all}
        self._registers = [
            (index, cell) for index, cell in enumerate(self._cells) if isinstance(cell, nir.FlipFlop)
        ]
        self._reads = [
            (index, cell) for index, cell in enumerate(self._cells) if isinstance(cell, nir.SyncReadPort)
        ]
        for index, cell in self._reads:
            self._store(index, [0] * cell.width)
        for name, (_, width) in self._top.ports_i.items():
            init = ports[name][0].init if name in ports else 0
            self._set_planes(name, [self._all if init >> k & 1 else 0 for k in range(width)])
        for index, register in self._registers:
            self._store(
                index, [self._all if register.init >> k & 1 else 0 for k in range(len(register.data))]
            )
        self._order = self._sort()
        self._settled = False

    def set(self, name: str, values: npt.ArrayLike) -> None:
        """Drive an input with one value per lane, or one for all.

        Parameters
        ----------
        name : str
            Of the port.
        values : array_like
            One for each lane, or one for all.
        """
        _, width = self._top.ports_i[name]
        array = np.broadcast_to(np.asarray(values), (self.lanes,))
        self._set_planes(name, _planes(array, width))
        self._settled = False

    def get(self, name: str) -> npt.NDArray[np.uint64]:
        """Return an output of every lane, as an unsigned number of at most 64 bits."""
        self.settle()
        return self._numbers([self._nets[int(net)] for net in self._top.ports_o[name]])

    def settle(self) -> None:
        """Let the combinational logic settle."""
        if not self._settled:
            for index in self._order:
                self._store(index, self._evaluate(self._cells[index]))
            self._settled = True

    def tick(self, cycles: int = 1) -> None:
        """Let clock edges pass."""
        for _ in range(cycles):
            self.settle()
            following = [(index, self._read(register.data)) for index, register in self._registers]
            for index, port in self._reads:
                enabled, before = (
                    self._nets[int(port.en)],
                    [self._nets[index << 16 | k] for k in range(port.width)],
                )
                word = self._lookup(port)
                following.append(
                    (index, [b ^ ((a ^ b) & enabled) for a, b in zip(word, before, strict=True)])
                )
            for index, planes in following:
                self._store(index, planes)
            self._settled = False

    def _set_planes(self, name: str, planes: Planes) -> None:
        start, _ = self._top.ports_i[name]
        for k, plane in enumerate(planes):
            self._nets[start + k] = plane

    def _store(self, index: int, planes: Planes) -> None:
        for bit, plane in enumerate(planes):
            self._nets[index << 16 | bit] = plane

    def _read(self, nets: Iterable[int]) -> Planes:
        return [self._nets[int(net)] for net in nets]

    def _numbers(self, planes: Planes) -> npt.NDArray[np.uint64]:
        size = -(-self.lanes // 8)
        total = np.zeros(self.lanes, np.uint64)
        for k, plane in enumerate(planes):
            octets = np.frombuffer(plane.to_bytes(size, "little"), np.uint8)
            bits = np.unpackbits(octets, bitorder="little")[: self.lanes]
            total |= bits.astype(np.uint64) << np.uint64(k)
        return total

    def _sort(self) -> list[int]:
        combinational = (nir.Operator, nir.Part, nir.Matches, nir.PriorityMatch, nir.AssignmentList)
        order: list[int] = []
        done: set[int] = set()
        stack = [(index, False) for index in range(len(self._cells) - 1, 0, -1)]
        while stack:
            index, ready = stack.pop()
            cell = self._cells[index]
            if ready:
                order.append(index)
                continue
            if index in done or isinstance(cell, nir.FlipFlop | nir.Memory | nir.SyncReadPort):
                continue
            if not isinstance(cell, (*combinational, nir.AsyncReadPort)):
                raise TypeError(f"bit-sliced simulation has no {type(cell).__name__}")
            done.add(index)
            stack.append((index, True))
            sources = {int(net) >> 16 for net in cell.input_nets() if int(net) >> 16}
            stack.extend((source, False) for source in sources if source not in done)
        return order

    def _evaluate(self, cell: Any) -> Planes:
        if isinstance(cell, nir.Operator):
            return self._operator(cell.operator, [self._read(value) for value in cell.inputs])
        if isinstance(cell, nir.Part):
            return self._part(cell)
        if isinstance(cell, nir.Matches):
            value = self._read(cell.value)
            return [self._any(self._matches(value, pattern) for pattern in cell.patterns)]
        if isinstance(cell, nir.PriorityMatch):
            free, planes = self._nets[int(cell.en)], []
            for plane in self._read(cell.inputs):
                planes.append(plane & free)
                free &= ~plane
            return planes
        if isinstance(cell, nir.AssignmentList):
            planes = self._read(cell.default)
            for assignment in cell.assignments:
                condition = self._nets[int(assignment.cond)]
                for k, plane in enumerate(self._read(assignment.value), assignment.start):
                    planes[k] ^= (planes[k] ^ plane) & condition
            return planes
        return self._lookup(cell)

    def _lookup(self, cell: Any) -> Planes:
        """Read a memory at the address of a port."""
        memory = self._cells[cell.memory]
        address = np.minimum(self._numbers(self._read(cell.addr)), np.uint64(len(memory.init) - 1))
        read: Planes = []
        for low in range(0, cell.width, 64):
            table = np.array([word >> low & (1 << 64) - 1 for word in memory.init], np.uint64)
            read += _planes(table[address], min(cell.width - low, 64))
        return read

    def _matches(self, value: Planes, pattern: str) -> int:
        found = self._all
        for plane, symbol in zip(reversed(value), pattern, strict=True):
            if symbol != "-":
                found &= plane if symbol == "1" else ~plane
        return found

    def _part(self, cell: Any) -> Planes:
        value = self._read(cell.value)
        fill = value[-1] if cell.value_signed and value else 0
        planes = value + [fill] * cell.width
        for k, amount in reversed(list(enumerate(self._read(cell.offset)))):
            places = cell.stride << k
            moved = planes[places:] + [fill] * min(places, len(planes))
            planes = [a ^ ((a ^ b) & amount) for a, b in zip(planes, moved, strict=True)]
        return planes[: cell.width]

    @staticmethod
    def _any(planes: Iterable[int]) -> int:
        total = 0
        for plane in planes:
            total |= plane
        return total

    def _operator(self, name: str, inputs: list[Planes]) -> Planes:
        if name in _LOGIC:
            return [_LOGIC[name](a, b) for a, b in zip(*inputs, strict=True)]
        first = inputs[0]
        if name == "~":
            return [a ^ self._all for a in first]
        if name == "m":
            choice = first[0]
            return [b ^ ((a ^ b) & choice) for a, b in zip(inputs[1], inputs[2], strict=True)]
        if name in ("b", "r|"):
            return [self._any(first)]
        if name == "r&":
            return [self._any(a ^ self._all for a in first) ^ self._all]
        if name == "r^":
            total = 0
            for a in first:
                total ^= a
            return [total]
        if name == "-":
            left, right = ([0] * len(first), first) if len(inputs) == 1 else inputs
            return self._add(left, [x ^ self._all for x in right], self._all)[0]
        second = inputs[1]
        if name == "+":
            return self._add(first, second, 0)[0]
        if name == "*":
            return self._multiply(first, second)
        if name in ("==", "!="):
            different = self._any(a ^ b for a, b in zip(first, second, strict=True))
            return [different if name == "!=" else different ^ self._all]
        if name in ("<<", "u>>", "s>>"):
            return self._shift(name, first, second)
        return self._compare(name, first, second)

    def _add(self, a: Planes, b: Planes, carry: int) -> tuple[Planes, int]:
        planes = []
        for x, y in zip(a, b, strict=True):
            half = x ^ y
            planes.append(half ^ carry)
            carry = (x & y) | (half & carry)
        return planes, carry

    def _multiply(self, a: Planes, b: Planes) -> Planes:
        total = [0] * len(a)
        for k, y in enumerate(b):
            if y:
                row = [x & y for x in a[: len(a) - k]]
                total[k:] = self._add(total[k:], row, 0)[0]
        return total

    def _shift(self, name: str, value: Planes, amount: Planes) -> Planes:
        fill = value[-1] if name == "s>>" else 0
        for k, choice in enumerate(amount):
            places = min(1 << k, len(value))
            if name == "<<":
                moved = [0] * places + value[: len(value) - places]
            else:
                moved = value[places:] + [fill] * places
            value = [a ^ ((a ^ b) & choice) for a, b in zip(value, moved, strict=True)]
        return value

    def _compare(self, name: str, a: Planes, b: Planes) -> Planes:
        if name[0] == "s":
            a, b = [*a[:-1], a[-1] ^ self._all], [*b[:-1], b[-1] ^ self._all]
        if name[1:] in (">", "<="):
            a, b = b, a
        not_less = self._add(a, [y ^ self._all for y in b], self._all)[1]
        if name[1:] in ("<", ">"):
            return [not_less ^ self._all]
        if name[1:] in ("<=", ">="):
            return [not_less]
        raise TypeError(f"bit-sliced simulation has no operator {name!r}")


_LOGIC: dict[str, Callable[[int, int], int]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def _planes(array: npt.NDArray[Any], width: int) -> Planes:
    numbers = array.astype(np.uint64) if array.dtype.kind != "i" else array.astype(np.int64).view(np.uint64)
    planes = []
    for k in range(width):
        bits = (numbers >> np.uint64(min(k, 63))).astype(np.uint8) & 1
        planes.append(int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little"))
    return planes
