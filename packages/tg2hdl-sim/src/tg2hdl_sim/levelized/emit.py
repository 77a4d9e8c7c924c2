"""The C of a program: one function per clock edge, and tables for the interface."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from tg2hdl_sim.levelized.expressions import STATE, Expressions, Scope
from tg2hdl_sim.levelized.program import Program, refs
from tg2hdl_sim.levelized.units import Lifted, LiftedPiece, Unit, UnitMemory, UnitWrite, container
from tg2hdl_sim.words import chunks_of

__all__ = ["emit"]

_INTERFACE_TYPES = (
    "typedef struct Port { const Field *fields; int count; void (*value)(State *, u32 *); u32 chunks; } Port;",
    "typedef struct Storage { const Field *fields; int count; u32 chunks; } Storage;",
)


def emit(program: Program, ports: Sequence[str], memory_count: int, batch: int = 0) -> str:
    """Return the C of a program.

    Parameters
    ----------
    ports : sequence of str
        Ports in the order of their indices on the interface.
    memory_count : int
        Number of memories on the interface.
    batch : int
        Inputs side by side; 0 for a model of one.
    """
    emitter = _Emitter(program, batch)
    edge = emitter.edge()
    outputs = [emitter.output(index, program.outputs.get(name, ())) for index, name in enumerate(ports)]
    lines = [f"#define LANES {max(batch, 1)}"]
    if batch:
        lines.append("#define BATCH")
    lines.append('#include "levelized.h"')
    lines += emitter.tables()
    lines += emitter.structure()
    lines += ["static NOINLINE void edge(State *restrict s) {", *edge, "}"]
    lines += [line for output in outputs for line in output]
    lines += emitter.interface(ports, memory_count)
    lines.append('#include "levelized_interface.h"')
    return "\n".join(lines) + "\n"


class _Emitter:
    def __init__(self, program: Program, batch: int) -> None:
        self.program, self.batch = program, batch
        self.units = program.units

    # Declarations

    def tables(self) -> list[str]:
        lines = []
        for number, table in enumerate(self.program.tables):
            type_ = "u64" if max(table) >> 32 else "u32"
            text = ", ".join(map(hex, table))
            lines.append(f"static const {type_} table{number}[] = {{{text}}};")
        return lines

    def structure(self) -> list[str]:
        lines = ["typedef struct State {"]
        for unit in self.units:
            if unit.op in STATE:
                lanes = f"[{unit.lanes}]" if unit.lanes > 1 else ""
                inputs = "[CHUNKS]" if unit.varies else ""
                lines.append(f"  {self._type(unit)} q{unit.number}{lanes}{inputs};")
        for memory in self.program.memories:
            lanes = f"[{memory.lanes}]" if memory.lanes > 1 else ""
            inputs = "[CHUNKS]" if memory.varies else ""
            lines.append(f"  {self._element(memory)} m{memory.number}[{memory.rows}]{lanes}{inputs};")
        return [*lines, "  u64 cycles;", "} State;", *_INTERFACE_TYPES]

    @staticmethod
    def _type(unit: Unit) -> str:
        return f"{'v' if unit.varies else ''}u{unit.bits}"

    @staticmethod
    def _element(memory: UnitMemory) -> str:
        if memory.varies:
            return f"vu{container(memory.width)}"
        size = next(size for size in (8, 16, 32, 64) if memory.width <= size)
        return f"{'i' if memory.form == 's' else 'u'}{size}"

    # One clock edge

    def edge(self) -> list[str]:
        expressions = Expressions(self.program)
        control = _Phase(self.program, expressions, varies=False, hold=self.batch > 0)
        if self.batch:
            control.cone(*_varying_operands(self.units, _sinks(self.program, varies=True)))
        control.run()
        after: list[str] = control.commits
        if not self.batch:
            return [*expressions.control.lines, *after]
        expressions.varying = Scope()
        varying = _Phase(self.program, expressions, varies=True, hold=False)
        varying.run()
        return [
            *expressions.control.lines,
            "for (int k = 0; k < CHUNKS; k++) {",
            *expressions.varying.lines,
            *varying.commits,
            "}",
            *after,
        ]

    # Interface

    def output(self, index: int, operand: Lifted) -> list[str]:
        """Write the function that gives the settled value of a port."""
        expressions = Expressions(self.program)
        head = f"static NOINLINE void port{index}(State *restrict s, u32 *restrict out) {{"
        chunks = chunks_of(sum(abs(count) for _, _, count in operand))
        words = [_cut(operand, 32 * k, 32) for k in range(chunks)]
        varies = expressions.varies(operand)
        if varies:
            expressions.varying = Scope()
        lines: list[str] = []
        phases = {
            phase: _Phase(self.program, expressions, varies=phase, hold=True) for phase in (False, True)
        }
        for k, word in enumerate(words):
            phases[False].cone(word, *_varying_operands(self.units, [word]))
            if varies:
                phases[True].cone(word)
            text = expressions.value(word, "z", 32, varies) if word else "0"
            if varies:
                lines.append(
                    f"{{ const vu32 e = {text}; for (int l = 0; l < VECTOR; l++)"
                    f" out[(k * VECTOR + l) * {chunks} + {k}] = e[l]; }}"
                )
            else:
                lines.append(f"out[{k}] = {text};")
        if varies:
            assert expressions.varying is not None
            lines = ["for (int k = 0; k < CHUNKS; k++) {", *expressions.varying.lines, *lines, "}"]
        elif self.batch:
            lines.append(f"for (int l = 1; l < LANES; l++) memcpy(out + l * {chunks}, out, 4 * {chunks});")
        return [head, *expressions.control.lines, *lines, "}"]

    def interface(self, ports: Sequence[str], memory_count: int) -> list[str]:
        lines = []
        widths = []
        for index, name in enumerate(ports):
            operand = self.program.outputs.get(name, ())
            widths.append(sum(abs(count) for _, _, count in operand))
            fields = []
            for node, low in self.program.inputs.get(name, ()):
                unit = self.units[self.program.places[node][0]]
                fields.append(
                    f"{{offsetof(State, q{unit.number}), {unit.bits // 8}, 0, 0, {unit.width}, {low},"
                    f" {int(unit.form == 's')}, {int(unit.varies)}}}"
                )
            lines.append(f"static const Field fields{index}[] = {{{', '.join([*fields, '{0}'])}}};")
            lines.append(f"enum {{ FIELDS{index} = {len(fields)} }};")
        entries = [f"{{fields{k}, FIELDS{k}, port{k}, {chunks_of(widths[k])}}}" for k in range(len(ports))]
        lines.append(f"static const Port ports[] = {{{', '.join([*entries, '{0}'])}}};")
        by_memory: defaultdict[int, list[str]] = defaultdict(list)
        depths: dict[int, int] = {}
        return lines + self._memory_tables(by_memory, depths, memory_count)

    def _memory_tables(
        self, by_memory: defaultdict[int, list[str]], depths: dict[int, int], memory_count: int
    ) -> list[str]:
        lines = []
        widths: defaultdict[int, int] = defaultdict(int)
        for segment, (number, lane) in self.program.segment_places.items():
            memory = self.program.memories[number]
            located = self.program.segments[segment]
            size = container(memory.width) // 8 if memory.varies else int(self._element(memory)[1:]) // 8
            copies = "LANES" if memory.varies else "1"
            by_memory[located.memory].append(
                f"{{offsetof(State, m{number}) + {lane} * {size} * {copies}, {size},"
                f" {memory.lanes} * {size} * {copies}, 0, {memory.width}, {located.low},"
                f" {int(memory.form == 's')}, {int(memory.varies)}}}"
            )
            widths[located.memory] = max(widths[located.memory], located.low + memory.width)
        for index in range(memory_count):
            entries = by_memory[index]
            lines.append(f"static const Field segments{index}[] = {{{', '.join([*entries, '{0}'])}}};")
        entries = [
            f"{{segments{k}, {len(by_memory[k])}, {chunks_of(widths[k])}}}" for k in range(memory_count)
        ]
        lines.append(f"static const Storage storages[] = {{{', '.join([*entries, '{0}'])}}};")
        lines.append("static void power_on(State *s) {")
        for unit in self.units:
            if unit.op != "ff":
                continue
            for lane, init in enumerate(unit.data):
                if not init:
                    continue
                value = init
                if unit.form == "s" and init >> (unit.width - 1):
                    value |= -1 << unit.width
                value &= (1 << unit.bits) - 1
                place = f"s->q{unit.number}" + (f"[{lane}]" if unit.lanes > 1 else "")
                if unit.varies:
                    lines.append(f"for (int k = 0; k < CHUNKS; k++) {place}[k] = bc{unit.bits}({value:#x}u);")
                else:
                    lines.append(f"{place} = {value:#x}u;")
        lines.append("}")
        return lines


def _sinks(program: Program, *, varies: bool) -> list[Lifted]:
    """Return the next values of registers and the operands of writes."""
    found = [unit.ins[0] for unit in program.units if unit.op == "ff" and unit.varies == varies]
    for write in program.writes:
        if program.memories[write.memory].varies == varies:
            found += [write.address, write.data, write.enable]
    return found


def _varying_operands(units: Sequence[Unit], roots: Iterable[Lifted]) -> list[Lifted]:
    """Return the roots and the operands of varying words that are combinational below them."""
    found = list(roots)
    seen: set[int] = set()
    for operand in found:  # grows
        for ref in refs(operand):
            if ref[0] >= 0 and ref[0] not in seen:
                seen.add(ref[0])
                unit = units[ref[0]]
                if unit.varies and unit.op not in STATE:
                    found += unit.ins
    return found


def _cut(operand: Lifted, low: int, count: int) -> Lifted:
    """Return some bits of the operand of a single lane."""
    found: list[LiftedPiece] = []
    place = 0
    for ref, start, length in operand:
        size = abs(length)
        first, last = max(low, place), min(low + count, place + size)
        if first < last:
            if ref is None:
                found.append((ref, start >> (first - place) & ((1 << (last - first)) - 1), last - first))
            elif length < 0:
                if found:
                    found.append((ref, start, first - last))
                else:
                    found.append((ref, start, 1))
                    if last - first > 1:
                        found.append((ref, start, first - last + 1))
            else:
                found.append((ref, start + first - place, last - first))
        place += size
    return tuple(found)


class _Phase:
    """The units of one phase in the order of execution."""

    def __init__(self, program: Program, expressions: Expressions, *, varies: bool, hold: bool) -> None:
        self.program, self.x, self.varies, self.hold = program, expressions, varies, hold
        self.units = program.units
        self.done: set[int] = set()
        self.commits: list[str] = []
        self.read_by: defaultdict[int, int] = defaultdict(int)
        self.waiting: set[int] = set()
        self.committed: set[int] = set()

    @property
    def lines(self) -> list[str]:
        scope = self.x.varying if self.varies else self.x.control
        assert scope is not None
        return scope.lines

    def run(self) -> None:
        """Emit every register and write of the phase."""
        writes = [w for w in self.program.writes if self.program.memories[w.memory].varies == self.varies]
        registers = [u for u in self.units if u.op == "ff" and u.varies == self.varies]
        for unit in self.units:
            if unit.op != "in" and unit.varies == self.varies:
                for register in self._registers(unit.ins) - ({unit.number} if unit.op == "ff" else set()):
                    self.read_by[register] += 1
        queue: deque[UnitWrite | Unit] = deque(writes)
        seen: set[int] = set()
        rest = deque(registers)
        stores: list[str] = []
        while queue or rest:
            if not queue:
                unit = rest.popleft()
                if unit.number in seen:
                    continue
                seen.add(unit.number)
                queue.append(unit)
            sink = queue.popleft()
            operands = [sink.address, sink.data, sink.enable] if isinstance(sink, UnitWrite) else sink.ins
            reached = self.cone(*operands)
            if isinstance(sink, UnitWrite):
                stores += self._store(sink)
            else:
                self.waiting.add(sink.number)
                self._settle([sink.number])
            for register in sorted(reached):
                if register not in seen:
                    seen.add(register)
                    queue.append(self.units[register])
        if self.hold:
            for number in sorted(self.waiting):
                self._commit(number, temporary=True)
        else:
            while self.waiting:
                number = min(self.waiting)
                self._commit(number, temporary=True)
        self.commits += stores

    def _registers(self, operands: Iterable[Lifted]) -> set[int]:
        found = set()
        for operand in operands:
            for ref in refs(operand):
                if ref[0] >= 0:
                    unit = self.units[ref[0]]
                    if unit.op == "ff" and unit.varies == self.varies:
                        found.add(ref[0])
        return found

    def cone(self, *operands: Lifted) -> set[int]:
        """Emit what is combinational below some operands; returns the registers of this phase that are read."""
        reached = self._registers(operands)
        stack = [(ref[0], False) for operand in operands for ref in refs(operand) if ref[0] >= 0]
        while stack:
            number, ready = stack.pop()
            unit = self.units[number]
            if unit.op in STATE or unit.varies != self.varies or number in self.done:
                continue
            if ready:
                self.done.add(number)
                self._emit(unit)
                mine = self._registers(unit.ins)
                reached |= mine
                self._settle(mine, read=True)
                continue
            stack.append((number, True))
            for operand in unit.ins:
                stack += [(ref[0], False) for ref in refs(operand) if ref[0] >= 0]
        return reached

    def _emit(self, unit: Unit) -> None:
        type_ = self.x.type_of(unit.bits, unit.varies)
        text = self.x.compute(unit)
        self.lines.append(f"const {type_} t{unit.number} = {text};")

    def _store(self, write: UnitWrite) -> list[str]:
        memory = self.program.memories[write.memory]
        x, bits = self.x, container(memory.width)
        self.x.fresh += 1
        name = f"w{self.x.fresh}"
        array = f"s->m{memory.number}"
        by_input = memory.varies and (x.varies(write.address) or x.varies(write.enable))
        address = x.value(write.address, "z", 32, by_input)
        enable = x.value(write.enable, "z", 32, by_input)
        data = x.value(write.data, memory.form, bits, memory.varies)
        index_type = "vu32" if by_input else "u32"
        self.lines.append(f"const {index_type} {name}a = {address}, {name}e = {enable};")
        self.lines.append(f"const {x.type_of(bits, memory.varies)} {name}d = {data};")
        inside = "" if memory.rows == memory.depth else f" && {name}a < {memory.depth}u"
        if not memory.varies:
            return [f"if ({name}e{inside}) {array}[{name}a] = {name}d;"]
        if not by_input:
            return [f"if ({name}e{inside}) {array}[{name}a][k] = {name}d;"]
        inside = inside.replace(f"{name}a", f"{name}a[l]")
        return [
            f"for (int l = 0; l < VECTOR; l++) if ({name}e[l]{inside})"
            f" ((u{bits} *)&{array}[{name}a[l]][k])[l] = {name}d[l];"
        ]

    # Registers take their next values when nobody needs the old ones any more

    def _settle(self, registers: Iterable[int], *, read: bool = False) -> None:
        work = []
        for number in registers:
            if read:
                self.read_by[number] -= 1
            work.append(number)
        if self.hold:
            return
        while work:
            number = work.pop()
            if number in self.waiting and not self.read_by[number]:
                work += self._commit(number)

    def _commit(self, number: int, *, temporary: bool = False) -> set[int]:
        unit = self.units[number]
        self.waiting.discard(number)
        text = self.x.value(unit.ins[0], unit.form, unit.bits, unit.varies)
        place = f"s->q{number}" + ("[k]" if unit.varies else "")
        if temporary:
            self.lines.append(f"const {self.x.type_of(unit.bits, unit.varies)} n{number} = {text};")
            self.commits.append(f"{place} = n{number};")
        else:
            self.lines.append(f"{place} = {text};")
        freed = self._registers(unit.ins) - {number}
        for other in freed:
            self.read_by[other] -= 1
        if temporary and not self.hold:
            self._settle(freed)
            return set()
        return freed
