"""From nodes to the units that make up the generated code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tg2hdl_sim.levelized.decoders import merge_decoders
from tg2hdl_sim.levelized.delays import merge_delays
from tg2hdl_sim.levelized.lanes import find_lanes
from tg2hdl_sim.levelized.nodes import MemorySegment, NetlistWords
from tg2hdl_sim.levelized.operands import CONST, Operand
from tg2hdl_sim.levelized.packing import pack_bits, varying_nodes
from tg2hdl_sim.levelized.simplify import evaluation_order
from tg2hdl_sim.levelized.units import (
    Lifted,
    LiftedPiece,
    Ref,
    Unit,
    UnitMemory,
    UnitWrite,
    exact_forms,
)

__all__ = ["LevelizedProgram", "build_program", "refs"]

WISH_ROUNDS = 4


@dataclass
class LevelizedProgram:
    """Units, arrays and writes.

    Attributes
    ----------
    tables : list of tuple of int
        Lane numbers, and constants, that follow no rule.
    """

    batch: bool = False
    units: list[Unit] = field(default_factory=list)
    memories: list[UnitMemory] = field(default_factory=list)
    writes: list[UnitWrite] = field(default_factory=list)
    outputs: dict[str, Lifted] = field(default_factory=dict)
    inputs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    tables: list[tuple[int, ...]] = field(default_factory=list)
    segment_places: dict[int, tuple[int, int]] = field(default_factory=dict)
    segments: list[MemorySegment] = field(default_factory=list)


def refs(operand: Lifted) -> Iterator[Ref]:
    """Yield the references of an operand."""
    for ref, _, _ in operand:
        if ref is not None:
            yield ref


def _order(design: NetlistWords) -> list[int]:
    """Nodes in the order of evaluation, then inputs that nothing reads."""
    order = evaluation_order(design)
    present = set(order)
    return order + [n for n, node in enumerate(design.nodes) if node.op == "in" and n not in present]


def build_program(
    design: NetlistWords, varying: Iterable[str] = (), *, batch: bool = False
) -> LevelizedProgram:
    """Group nodes into units.

    Parameters
    ----------
    varying : iterable of str
        Inputs whose values differ among the inputs of a batch.
    batch : bool
        Whether vectors hold the inputs of a batch; otherwise they hold lanes.
    """
    merge_decoders(design)
    pack_bits(design, varying)
    order = _order(design)
    groups, memory_sets = find_lanes(design, order)
    rolled = [group for group in groups if len(group) > 1]
    in_loops = {n for group in rolled for n in group}
    if merge_delays(design, set(order) - in_loops, varying_nodes(design, varying)):
        order = _order(design)
        groups = [*rolled, *([n] for n in order if n not in in_loops)]
    program = LevelizedProgram(batch=batch, inputs=design.inputs, segments=design.segments)
    for members in memory_sets:
        first = design.segments[members[0]]
        number = len(program.memories)
        program.memories.append(UnitMemory(number, members, first.width, first.depth))
        for lane, segment in enumerate(members):
            program.segment_places[segment] = number, lane
    for members in groups:
        node = design.nodes[members[0]]
        number = len(program.units)
        program.units.append(Unit(number, node.op, node.width, members))
        for lane, member in enumerate(members):
            program.places[member] = number, lane
    lifter = _Lifter(design, program)
    for unit in program.units:
        nodes = [design.nodes[n] for n in unit.members]
        unit.ins = [lifter.lift([node.ins[k] for node in nodes]) for k in range(len(nodes[0].ins))]
        unit.data = [node.data for node in nodes]
        if unit.op == "read":
            unit.place = lifter.reference([program.segment_places[segment] for segment in unit.data])
    for ports in _write_groups(design, program):
        writes = [design.writes[k] for k in ports]
        memory, _ = program.segment_places[writes[0].segment]
        program.writes.append(
            UnitWrite(
                memory,
                lifter.lift([w.address for w in writes]),
                lifter.lift([w.data for w in writes]),
                lifter.lift([w.enable for w in writes]),
                len(writes),
            )
        )
    for name, operand in design.outputs.items():
        program.outputs[name] = lifter.lift([operand])
    _mark_varying(program, design, set(varying))
    for unit in program.units:
        unit.vector = unit.varies or (not batch and unit.lanes > 1)
    _choose_forms(program)
    return program


def _write_groups(design: NetlistWords, program: LevelizedProgram) -> list[list[int]]:
    """Return the writes port by port, each with the lanes of its memory in order."""
    ports: dict[tuple[int, int], dict[int, int]] = {}
    seen: Counter[int] = Counter()
    order: list[tuple[int, int]] = []
    for number, write in enumerate(design.writes):
        memory, lane = program.segment_places[write.segment]
        port = seen[write.segment]
        seen[write.segment] += 1
        key = memory, port
        if key not in ports:
            ports[key] = {}
            order.append(key)
        ports[key][lane] = number
    return [[ports[key][lane] for lane in sorted(ports[key])] for key in order]


class _Lifter:
    def __init__(self, design: NetlistWords, program: LevelizedProgram) -> None:
        self.design, self.program = design, program
        self.numbers: dict[tuple[int, ...], int] = {}

    def table(self, values: tuple[int, ...]) -> int:
        if values not in self.numbers:
            self.numbers[values] = len(self.program.tables)
            self.program.tables.append(values)
        return self.numbers[values]

    def lift(self, operands: Sequence[Operand]) -> Lifted:
        """Return the operand of a unit from those of its lanes, which have the same form."""
        if len(operands) == 1:
            return tuple(self._single(piece) for piece in operands[0])
        found: list[LiftedPiece] = []
        for pieces in zip(*operands, strict=True):
            node, low, count = pieces[0]
            if node == CONST:
                values = tuple(value for _, value, _ in pieces)
                if len(set(values)) == 1:
                    found.append((None, low, count))
                else:
                    found.append(((-1, 3, self.table(values), 0), 0, count))
                continue
            found.append((self.reference([self.program.places[n] for n, _, _ in pieces]), low, count))
        return tuple(found)

    def _single(self, piece: tuple[int, int, int]) -> LiftedPiece:
        node, low, count = piece
        if node == CONST:
            return None, low, count
        unit, lane = self.program.places[node]
        return (unit, 0, lane, 0), low, count

    def reference(self, places: list[tuple[int, int]]) -> Ref:
        """Return one reference for the places of all lanes."""
        unit = places[0][0]
        assert all(other == unit for other, _ in places)
        lanes = [lane for _, lane in places]
        if len(set(lanes)) == 1:
            return unit, 0, lanes[0], 0
        step = lanes[1] - lanes[0]
        if all(lane == lanes[0] + step * i for i, lane in enumerate(lanes)):
            return unit, 1, step, lanes[0]
        return unit, 2, self.table(tuple(lanes)), 0


def _mark_varying(program: LevelizedProgram, design: NetlistWords, varying: set[str]) -> None:
    units = program.units
    users: defaultdict[int, set[int]] = defaultdict(set)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    for unit in units:
        for operand in unit.ins:
            for ref in refs(operand):
                if ref[0] >= 0:
                    users[ref[0]].add(unit.number)
        if unit.op == "read":
            for segment in unit.data:
                readers[program.segment_places[segment][0]].add(unit.number)
    written: defaultdict[int, set[int]] = defaultdict(set)
    for write in program.writes:
        for operand in (write.address, write.data, write.enable):
            for ref in refs(operand):
                if ref[0] >= 0:
                    written[ref[0]].add(write.memory)
    work = [unit.number for unit in units if unit.op == "in" and unit.data[0][0] in varying]
    while work:
        number = work.pop()
        if units[number].varies:
            continue
        units[number].varies = True
        work.extend(users[number])
        for memory in written[number]:
            if not program.memories[memory].varies:
                program.memories[memory].varies = True
                work.extend(readers[memory])


def _choose_forms(program: LevelizedProgram) -> None:
    units = program.units
    wishes: list[Counter[str]] = [Counter() for _ in units]
    memory_wishes: list[Counter[str]] = [Counter() for _ in program.memories]

    def wish(operand: Lifted, form: str) -> None:
        for place, (ref, low, count) in enumerate(operand):
            if ref is None or ref[0] < 0 or count < 0:
                continue
            unit = units[ref[0]]
            if low or count != unit.width:
                continue
            rest = operand[place + 1 :]
            if not rest:
                wishes[ref[0]][form] += 1
            elif len(rest) == 1 and rest[0][2] < 0 and rest[0][0] == ref:
                wishes[ref[0]]["s"] += 1
            else:
                wishes[ref[0]]["z"] += 1

    def pick(unit: Unit) -> str:
        if unit.width == 1:
            return "s" if unit.vector else "z"
        found = wishes[unit.number]
        if not found["s"] and not found["z"]:
            return "d"
        return "s" if found["s"] >= found["z"] else "z"

    def exact(unit: Unit) -> str:
        found, forms = wishes[unit.number], exact_forms(unit)
        wanted = max(forms, key=lambda form: found[form], default="d")
        return wanted if found[wanted] else "d"

    for unit in units:
        match unit.op:
            case "+" | "-" | "*" if exact_forms(unit):
                pass
            case "+" | "-" | "*" | "~" | "&" | "|" | "^":
                for operand in unit.ins:
                    wish(operand, "d")
            case "shl":
                wish(unit.ins[0], "d")
                wish(unit.ins[1], "z")
            case "sar":
                wish(unit.ins[0], "s")
                wish(unit.ins[1], "z")
            case "slt" | "sle" | "sdiv" | "smod":
                for operand in unit.ins:
                    wish(operand, "s")
            case "ff" | "mux":
                pass
            case _:
                for operand in unit.ins:
                    wish(operand, "z")
    for write in program.writes:
        wish(write.address, "z")
    for _ in range(WISH_ROUNDS):
        for unit in reversed(units):
            if unit.op in ("+", "-", "*") and exact_forms(unit):
                form = exact(unit)
                for operand in unit.ins:
                    wish(operand, form)
            elif unit.op in ("mux", "ff"):
                form = pick(unit)
                for operand in unit.ins[1:] if unit.op == "mux" else unit.ins:
                    wish(operand, form)
    for unit in units:
        if unit.op == "read":
            memory_wishes[program.segment_places[unit.data[0]][0]].update(wishes[unit.number])
    for memory in program.memories:
        found = memory_wishes[memory.number]
        if memory.width == 1:
            vector = memory.varies or (not program.batch and memory.lanes > 1)
            memory.form = "s" if vector else "z"
        else:
            memory.form = "s" if found["s"] > found["z"] else "z"
    for unit in units:
        if unit.width == 1:
            unit.form = "s" if unit.vector else "z"
        elif unit.op in ("ff", "mux"):
            unit.form = pick(unit)
        elif unit.op == "read":
            unit.form = program.memories[program.segment_places[unit.data[0]][0]].form
        elif unit.op in ("+", "-", "*"):
            unit.form = exact(unit)
        elif unit.op in ("~", "shl", "sdiv", "smod"):
            unit.form = "d"
        elif unit.op in ("&", "|", "^"):
            found = wishes[unit.number]
            unit.form = "z" if found["z"] else "s" if found["s"] else "d"
        elif unit.op == "sar":
            unit.form = "s"
        else:
            unit.form = "z"
