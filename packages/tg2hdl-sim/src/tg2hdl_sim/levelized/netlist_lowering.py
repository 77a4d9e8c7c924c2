"""Cells of Amaranth's netlist as words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tg2hdl_ir import UnsupportedError
from tg2hdl_sim.amaranth_internals import nir
from tg2hdl_sim.levelized.builder import Builder
from tg2hdl_sim.levelized.cuts import Segments, find_segments, runs
from tg2hdl_sim.levelized.modules import ModuleWords
from tg2hdl_sim.levelized.nodes import MemorySegment, NetlistWords, Write
from tg2hdl_sim.levelized.operands import (
    Operand,
    bits_of,
    concat,
    constant,
    insert,
    part,
    sources,
    width_of,
)
from tg2hdl_sim.levelized.simplify import evaluation_order
from tg2hdl_sim.model import CLOCK, Elaboration

__all__ = ["NetlistLowering"]

_REFUSED = {
    nir.AsyncPrint: "Print",
    nir.SyncPrint: "Print",
    nir.AsyncProperty: "Assert, Assume or Cover",
    nir.SyncProperty: "Assert, Assume or Cover",
    nir.Initial: "Initial()",
    nir.AnyValue: "AnyConst or AnySeq",
    nir.Instance: "Instance",
    nir.IOBuffer: "IOBufferInstance",
}


def _widths(cells: Sequence[Any]) -> dict[int, int]:
    widths = {}
    for index, cell in enumerate(cells):
        match cell:
            case nir.Top():
                widths[index] = max((start + width for start, width in cell.ports_i.values()), default=0)
            case nir.Operator() | nir.Part() | nir.AsyncReadPort() | nir.SyncReadPort() | nir.Memory():
                widths[index] = cell.width
            case nir.Matches():
                widths[index] = 1
            case nir.PriorityMatch():
                widths[index] = len(cell.inputs)
            case nir.AssignmentList():
                widths[index] = len(cell.default)
            case nir.FlipFlop():
                widths[index] = len(cell.data)
            case nir.Instance():
                widths[index] = sum(width for _, width in cell.ports_o.values())
    return widths


class NetlistLowering:
    """Lowers the cells of a netlist, one after the other.

    Parameters
    ----------
    elaboration : Elaboration
    netlist : Netlist
        Of it, with or without instances.
    instances : mapping of int to ModuleWords
        Words of modules that are lowered already, by the cell of an instance.
    settled : bool
        Whether single bits of these modules are packed into words.
    in_bits : frozenset of int
        Cells that become a word for each bit.
    """

    def __init__(
        self,
        elaboration: Elaboration,
        netlist: Any,
        instances: Mapping[int, ModuleWords],
        settled: bool,
        in_bits: frozenset[int],
    ) -> None:
        self.elaboration, self.netlist = elaboration, netlist
        self.instances, self.settled = instances, settled
        self.cells = self.netlist.cells
        self.design = NetlistWords()
        self.build = Builder(self.design)
        self.where = elaboration.model.name
        self.widths = _widths(self.cells)
        self.segments: Segments = find_segments(
            self.cells, self.widths, in_bits, {index: words.inputs for index, words in self.instances.items()}
        )
        self.words: dict[int, list[int]] = {}  # node of each segment of a cell
        self.starts: dict[int, list[int]] = {}
        self.arrays: dict[int, list[int]] = {}  # index of each segment of a memory
        self.owner: dict[int, int] = {}
        self.clock: int | None = None
        self.by_path = {memory.path: index for index, memory in enumerate(elaboration.memories)}

    def run(self, watched: Iterable[tuple[str, Any]]) -> None:
        """Lower all cells; `watched` are further outputs."""
        self._add_inputs()
        self._add_memories()
        self._allocate()
        for index, cell in enumerate(self.cells):
            self._check(index, cell)
            first = len(self.design.nodes)
            self._lower(index, cell)
            self.owner |= dict.fromkeys(range(first, len(self.design.nodes)), index)
        for cell in self.cells:
            if isinstance(cell, nir.SyncWritePort):
                self._add_write(cell)
        outputs = self.design.outputs
        for name, value in self.cells[0].ports_o.items():
            outputs[name] = self.value(value)
        for name in self.design.inputs:
            if name == CLOCK:
                continue
            port = self.cells[0].ports_i[name]
            outputs[name] = self._bits(0, *port)
        for name, value in watched:
            outputs[name] = self.value(value)

    # Values

    def value(self, nets: Sequence[int]) -> Operand:
        """Bits of the design for nets."""
        pieces: list[Any] = []
        for _, cell, bit, count in runs(nets):
            if cell < 0:
                pieces += constant(bit, count)
            else:
                pieces += self._bits(cell, bit, count)
        return concat(pieces)

    def _bits(self, cell: int, bit: int, count: int) -> Operand:
        assert cell in self.words, f"_check lets {self._describe(self.cells[cell])} pass"
        starts, words = self.starts[cell], self.words[cell]
        segments = self.segments[cell]
        pieces: list[Any] = []
        index, end = bisect_right(starts, bit) - 1, bit + count
        while bit < end:
            low, high = segments[index]
            stop = min(high, end)
            pieces += bits_of(words[index], bit - low, stop - bit)
            bit = stop
            index += 1
        return concat(pieces)

    # Storage

    def _add_inputs(self) -> None:
        ports = self.cells[0].ports_i
        words, starts = [], []
        for name, (start, width) in ports.items():
            found = []
            for low, high in self.segments[0]:
                if start <= low < start + width:
                    node = self.design.add("in", [], high - low, (name, low - start))
                    words.append(node)
                    starts.append(low)
                    found.append((node, low - start))
                    if name == CLOCK:
                        self.clock = start
            self.design.inputs[name] = found
        order = sorted(range(len(starts)), key=starts.__getitem__)
        self.words[0] = [words[k] for k in order]
        self.starts[0] = [starts[k] for k in order]
        self.segments[0] = tuple(sorted(self.segments[0]))

    def _add_memories(self) -> None:
        by_path = self.by_path
        for index, cell in enumerate(self.cells):
            if isinstance(cell, nir.Memory):
                path = (*self.netlist.modules[cell.module_idx].name, cell.name)
                located = by_path.get(path, by_path.get(path[1:]))
                assert located is not None, path
                self.arrays[index] = []
                for low, high in self.segments[index]:
                    self.arrays[index].append(len(self.design.segments))
                    self.design.segments.append(MemorySegment(located, low, high - low, cell.depth))

    def _add_write(self, cell: Any) -> None:
        address = self.value(cell.addr)
        for array, (low, high) in zip(self.arrays[cell.memory], self.segments[cell.memory], strict=True):
            enable, data = self.value(cell.en[low : low + 1]), self.value(cell.data[low:high])
            self.design.writes.append(Write(array, address, data, enable))

    def _allocate(self) -> None:
        for index, cell in enumerate(self.cells):
            if index == 0 or index not in self.widths or isinstance(cell, nir.Memory):
                continue
            words = []
            for low, high in self.segments[index]:
                match cell:
                    case nir.FlipFlop():
                        init = cell.init >> low & ((1 << (high - low)) - 1)
                        words.append(self.design.add("ff", [], high - low, init))
                    case nir.SyncReadPort():
                        words.append(self.design.add("ff", [], high - low, 0))
                    case _:
                        words.append(self.design.add("copy", [], high - low))
                self.owner[words[-1]] = index
                if self.design.nodes[words[-1]].op == "ff":
                    self.design.origins[words[-1]] = index, low
            self.words[index] = words
            self.starts[index] = [low for low, _ in self.segments[index]]

    # Cells

    def _describe(self, cell: Any) -> str:
        return _REFUSED.get(type(cell), type(cell).__name__)

    def _check(self, index: int, cell: Any) -> None:
        module = index in self.instances
        if type(cell) in _REFUSED and not module:
            raise UnsupportedError(
                f"the levelized engine does not run {self._describe(cell)}",
                where=self.where,
                hint="use engine='amaranth' or 'cxxrtl', or take it out of the design",
            )
        if module or isinstance(cell, nir.FlipFlop | nir.SyncReadPort | nir.SyncWritePort):
            trouble = None
            clock = cell.ports_i[CLOCK][0] if module else cell.clk
            if not module and cell.clk_edge != "pos":
                trouble = "clocked by the falling edge"
            elif not (clock.is_cell and clock.cell == 0 and clock.bit == self.clock):
                trouble = f"clocked by another signal than the input {CLOCK!r}"
            elif isinstance(cell, nir.FlipFlop) and cell.arst != nir.Net.from_const(0):
                trouble = "reset asynchronously"
            if trouble:
                raise UnsupportedError(
                    f"the levelized engine does not run storage that is {trouble}",
                    where=self.where,
                    hint="use engine='amaranth' or 'cxxrtl', or clock everything in the domain 'sync'",
                )

    def _define(self, index: int, operand: Operand) -> None:
        for word, (low, high) in zip(self.words[index], self.segments[index], strict=True):
            self.design.nodes[word].ins = [part(operand, low, high - low)]

    def _lower(self, index: int, cell: Any) -> None:
        match cell:
            case nir.Operator():
                self._operator(index, cell)
            case nir.Part():
                offset = self.value(cell.offset)
                found = self.build.select_part(
                    self.value(cell.value), offset, cell.width, cell.stride, signed=cell.value_signed
                )
                self._define(index, found)
            case nir.Matches():
                self._define(index, self.build.matches(self.value(cell.value), cell.patterns))
            case nir.PriorityMatch():
                rest = self.value((cell.en,))
                pieces: list[Any] = []
                for net in cell.inputs:
                    bit = self.value((net,))
                    pieces += self.build.both(rest, bit)
                    rest = self.build.both(rest, self.build.invert(bit))
                self._define(index, concat(pieces))
            case nir.AssignmentList():
                self._assignments(index, cell)
            case nir.FlipFlop():
                self._define(index, self.value(cell.data))
            case nir.AsyncReadPort():
                address = self.value(cell.addr)
                for word, array, (low, high) in self._memory_words(index, cell):
                    self.design.nodes[word].ins = [self.build.node("read", [address], high - low, array)]
            case nir.SyncReadPort():
                self._synchronous_read(index, cell)
            case nir.Instance():
                self._instance(index, cell)

    def _instance(self, index: int, cell: Any) -> None:
        words, module = self.instances[index], self.elaboration.modules[cell.type]
        path = (*self.netlist.modules[cell.module_idx].name, cell.name)[1:]
        first = len(self.design.nodes)
        outputs = words.copy(
            self.design,
            [self.value(cell.ports_i[port][low : low + width]) for port, low, width in words.inputs],
            [self.by_path[path + memory.path[1:]] for memory in module.memories],
            index,
        )
        if self.settled:
            self.design.settled.update(range(first, len(self.design.nodes)))
        ports = sorted(cell.ports_o, key=lambda name: cell.ports_o[name])
        self._define(index, concat(piece for name in ports for piece in outputs[name]))

    def _memory_words(self, index: int, cell: Any) -> Iterable[tuple[int, int, tuple[int, int]]]:
        return zip(self.words[index], self.arrays[cell.memory], self.segments[index], strict=True)

    def _synchronous_read(self, index: int, cell: Any) -> None:
        build = self.build
        address, enable = self.value(cell.addr), self.value((cell.en,))
        for word, array, (low, high) in self._memory_words(index, cell):
            found = build.node("read", [address], high - low, array)
            for number in cell.transparent_for:
                port = self.cells[number]
                same = build.equal(self.value(port.addr), address)
                hit = build.both(same, self.value(port.en[low : low + 1]))
                found = build.mux(hit, self.value(port.data[low:high]), found)
            self.design.nodes[word].ins = [build.mux(enable, found, bits_of(word, 0, high - low))]

    def _operator(self, index: int, cell: Any) -> None:
        build, op = self.build, cell.operator
        ins = [self.value(value) for value in cell.inputs]
        if op in ("&", "|", "^", "~", "m"):
            for word, (low, high) in zip(self.words[index], self.segments[index], strict=True):
                if op == "m":
                    cut = [ins[0], *(part(value, low, high - low) for value in ins[1:])]
                else:
                    cut = [part(value, low, high - low) for value in ins]
                self.design.nodes[word].ins = [build.node("mux" if op == "m" else op, cut, high - low)]
            return
        match op, len(ins):
            case "-", 1:
                found = build.negate(*ins)
            case (("b" | "r|"), _):
                found = build.any(*ins)
            case "r&", _:
                found = build.all(*ins)
            case "r^", _:
                found = build.parity(*ins)
            case "+", _:
                found = build.add(*ins)
            case "-", _:
                found = build.subtract(*ins)
            case "*", _:
                found = build.multiply(*ins)
            case (("u//" | "s//" | "u%" | "s%"), _):
                found = build.divide(*ins, signed=op[0] == "s", remainder=op[1] == "%")
            case "<<", _:
                found = build.shift_left(*ins)
            case (("u>>" | "s>>"), _):
                found = build.shift_right(*ins, signed=op[0] == "s")
            case "==", _:
                found = build.equal(*ins)
            case "!=", _:
                found = build.invert(build.equal(*ins))
            case (("u<" | "s<" | "u<=" | "s<="), _):
                found = build.less(*ins, signed=op[0] == "s", or_equal=op[1:] == "<=")
            case (("u>" | "s>" | "u>=" | "s>="), _):
                found = build.less(ins[1], ins[0], signed=op[0] == "s", or_equal=op[1:] == ">=")
            case _:
                raise AssertionError(f"Amaranth has no operator {op!r}")
        self._define(index, found)

    def _assignments(self, index: int, cell: Any) -> None:
        default = self.value(cell.default)
        steps = [(a.cond, a.start, self.value(a.value)) for a in cell.assignments]
        for word, (low, high) in zip(self.words[index], self.segments[index], strict=True):
            mine = []
            for condition, start, value in steps:
                first, last = max(low, start), min(high, start + width_of(value))
                if first < last:
                    mine.append((condition, first - low, part(value, first - start, last - first)))
            self.design.nodes[word].ins = [self._chain(part(default, low, high - low), mine)]

    def _chain(self, found: Operand, steps: list[tuple[Any, int, Operand]]) -> Operand:
        """Execute assignments in order; the branches of one switch become one chain of multiplexers."""
        place = 0
        while place < len(steps):
            net = steps[place][0]
            if net.is_const or not isinstance(self.cells[net.cell], nir.PriorityMatch):
                _, low, value = steps[place]
                found = self.build.mux(self.value((net,)), insert(found, low, value), found)
                place += 1
                continue
            switch = net.cell
            branches: dict[int, Operand] = {}
            while place < len(steps):
                net, low, value = steps[place]
                if net.is_const or net.cell != switch or (branches and net.bit < max(branches)):
                    break
                branches[net.bit] = insert(branches.get(net.bit, found), low, value)
                place += 1
            cell, before = self.cells[switch], found
            for bit in reversed(range(max(branches) + 1)):
                condition = self.value((cell.inputs[bit],))
                found = self.build.mux(condition, branches.get(bit, before), found)
            found = self.build.mux(self.value((cell.en,)), found, before)
        return found

    def check_clock(self) -> None:
        """Refuse designs that read the clock as a value."""
        clock = {node for node, _ in self.design.inputs.get(CLOCK, ())}
        if clock & set(evaluation_order(self.design)):
            raise UnsupportedError(
                "the levelized engine does not run designs that read the clock as a value",
                where=self.where,
                hint="use engine='amaranth' or 'cxxrtl', or take ClockSignal() out of the logic",
            )

    def cells_in_loops(self) -> set[int]:
        """Cells of combinational loops among words, which do not loop among bits."""
        nodes = self.design.nodes
        state = bytearray(len(nodes))
        looping: set[int] = set()
        for root in range(len(nodes)):
            if state[root]:
                continue
            stack = [root]
            while stack:
                node = stack[-1]
                if state[node]:
                    stack.pop()
                    state[node] = 2
                    continue
                state[node] = 1
                if nodes[node].op in ("ff", "in"):
                    continue
                for operand in nodes[node].ins:
                    for source in sources(operand):
                        if not state[source]:
                            stack.append(source)
                        elif state[source] == 1 and nodes[source].op not in ("ff", "in"):
                            on_path = [n for n in stack if state[n] == 1]
                            start = on_path.index(source)
                            looping |= {self.owner[n] for n in on_path[start:]}
        return looping
