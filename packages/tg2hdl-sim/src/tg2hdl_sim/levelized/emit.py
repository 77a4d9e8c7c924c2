"""The C of a program: one function per clock edge, and tables for the interface."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tg2hdl_sim.levelized.c_operands import STATE, Scope
from tg2hdl_sim.levelized.expressions import Expressions
from tg2hdl_sim.levelized.phase import Phase
from tg2hdl_sim.levelized.program import LevelizedProgram, refs
from tg2hdl_sim.levelized.units import Lifted, LiftedPiece, Unit, UnitMemory
from tg2hdl_sim.levelized.wave import Wave
from tg2hdl_sim.words import chunks_of

__all__ = ["emit"]

MOST_LOCAL = 128
"""Registers that may be variables while edges run, so that the compiler keeps the busiest in machine registers."""
AT_A_TIME = 2
"""Edges in one pass of the loop then: a value that only moves between registers changes its name instead."""
MOST_WATCHED = 16
"""Statements that give a port's value, which are repeated where a run checks it after every edge."""

_INTERFACE_TYPES = (
    "typedef struct Port {",
    "  const Field *fields; int count; void (*value)(State *, u32 *); u32 chunks; int watched;",
    "} Port;",
    "typedef struct Storage { const Field *fields; int count; u32 chunks; } Storage;",
)


def emit(
    program: LevelizedProgram,
    ports: Sequence[str],
    memory_count: int,
    batch: int = 0,
    wave: Wave | None = None,
) -> str:
    """Return the C of a program.

    Parameters
    ----------
    ports : sequence of str
        Ports in the order of their indices on the interface.
    memory_count : int
        Number of memories on the interface.
    batch : int
        Inputs simulated at once; 0 for a model of a single input.
    wave : Wave, optional
        Signals that the model writes to a waveform.
    """
    emitter = _SourceEmitter(program, batch)
    edges = emitter.edges(ports)
    outputs = [emitter.output(index, program.outputs.get(name, ())) for index, name in enumerate(ports)]
    lines = [f"#define LANES {max(batch, 1)}"]
    if batch:
        lines.append("#define BATCH")
    if wave is not None:
        lines.append("#define WAVE")
    lines.append('#include "levelized.h"')
    lines += emitter.tables()
    lines += emitter.structure()
    lines += edges
    lines += [line for output in outputs for line in output]
    lines += emitter.interface(ports, memory_count)
    if wave is not None:
        lines += emitter.sample(wave)
    lines.append('#include "levelized_interface.h"')
    return "\n".join(lines) + "\n"


def _without_unused_arrays(lines: list[str]) -> list[str]:
    """Drop the arrays of words that only their own loop reads."""
    uses = Counter(name for line in lines for name in re.findall(r"\ba\d+\b", line))
    unused = {name for name, count in uses.items() if count == 2}  # declaration and assignment
    kept = []
    for line in lines:
        match = re.match(r"(?:v?u(?:32|64) |STORE(?:32|64)\()?(a\d+)\[", line)
        if match is None or match[1] not in unused:
            kept.append(line)
    return kept


class _SourceEmitter:
    def __init__(self, program: LevelizedProgram, batch: int) -> None:
        self.program, self.batch = program, batch
        self.units = program.units
        self.watched: set[int] = set()
        local = [u for u in self.units if u.op == "ff" and u.lanes == 1 and not u.varies]
        self.local = {unit.number: unit for unit in local} if len(local) <= MOST_LOCAL else {}

    # Declarations

    def tables(self) -> list[str]:
        lines = []
        for number, table in enumerate(self.program.tables):
            type_ = "u64" if max(table) >> 32 else "u32"
            text = ", ".join(map(hex, table))
            lines.append(f"static const {type_} table{number}[PADDED({len(table)})] = {{{text}}};")
        return lines

    def structure(self) -> list[str]:
        lines = ["typedef struct State {"]
        for unit in self.units:
            if unit.op in STATE:
                lanes = f"[PADDED({unit.lanes})]" if unit.lanes > 1 else ""
                inputs = "[CHUNKS]" if unit.varies else ""
                lines.append(f"  {self._type(unit)} q{unit.number}{lanes}{inputs};")
        for memory in self.program.memories:
            lanes = f"[{memory.lanes}]" if memory.lanes > 1 else ""
            inputs = "[CHUNKS]" if memory.varies else ""
            lines.append(f"  {self._element(memory)} m{memory.number}[{memory.rows}]{lanes}{inputs};")
        wave_field = ["#ifdef WAVE", "  struct Wave *wave;", "#endif"]
        return [*lines, "  u64 cycles;", "  u64 tail[VECTOR];", *wave_field, "} State;", *_INTERFACE_TYPES]

    @staticmethod
    def _type(unit: Unit) -> str:
        return f"{'v' if unit.varies else ''}{unit.element}"

    @staticmethod
    def _element(memory: UnitMemory) -> str:
        return f"{'v' if memory.varies else ''}{memory.element}"

    # Clock edges

    def edges(self, ports: Sequence[str]) -> list[str]:
        """Write the function that runs until a port has a value, or to a limit."""
        edge = _without_unused_arrays(self._edge())
        once = [
            "{",
            "u32 now = ~wanted;",
            "switch (watch) {",
            *[line for index, name in enumerate(ports) for line in self._watch(index, name)],
            "}",
            "if (now == wanted || used == limit) break;",
            *(edge if self.local else ["one_edge(s);"]),
            "}",
            "used++;",
        ]
        kept = [(f"q{number}", f"s->q{number}", unit.bits) for number, unit in self.local.items()]
        alone = [] if self.local else ["static NOINLINE void one_edge(State *restrict s) {", *edge, "}"]
        return [
            *alone,
            f"static NOINLINE {'BRANCHES ' if kept else ''}"
            "u64 edges(State *restrict s, u64 limit, int watch, u32 wanted) {",
            *[f"u{bits} {name} = {place};" for name, place, bits in kept],
            "u64 used = 0;",
            "for (;;) {",
            *[line for _ in range(AT_A_TIME if kept else 1) for line in once],
            "}",
            *[f"{place} = {name};" for name, place, _ in kept],
            "return used;",
            "}",
        ]

    def _watch(self, index: int, name: str) -> list[str]:
        """Write the case of a port that is cheap to compute after every edge, as those that end a run are."""
        operand = self.program.outputs.get(name, ())
        expressions = Expressions(self.program, self.local)
        if not operand or sum(abs(n) for _, _, n in operand) > 32 or expressions.varies(operand):
            return []
        phase = Phase(self.program, expressions, varies=False, hold=True)
        phase.cone(operand)
        phase.close()
        text = expressions.value(operand, "z", 32, False)
        lines = expressions.control.lines
        if len(lines) > MOST_WATCHED:
            return []
        self.watched.add(index)
        return [f"case {index}: {{", *lines, f"now = {text};", "break;", "}"]

    def _edge(self) -> list[str]:
        expressions = Expressions(self.program, self.local)
        control = Phase(self.program, expressions, varies=False, hold=self.batch > 0)
        if self.batch:
            control.cone(*_varying_operands(self.units, _sinks(self.program, varies=True)))
            control.close()
        control.run()
        after: list[str] = control.commits
        if not self.batch:
            return [*expressions.control.lines, *after]
        expressions.varying = Scope()
        varying = Phase(self.program, expressions, varies=True, hold=False)
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
        phases = {phase: Phase(self.program, expressions, varies=phase, hold=True) for phase in (False, True)}
        for k, word in enumerate(words):
            phases[False].cone(word, *_varying_operands(self.units, [word]))
            phases[False].close()
            if varies:
                phases[True].cone(word)
                phases[True].close()
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

    def sample(self, wave: Wave) -> list[str]:
        """Write the function that computes the signals of a waveform, and its tables."""
        expressions = Expressions(self.program)
        phase = Phase(self.program, expressions, varies=False, hold=True)
        lines, widths, starts, place = [], [], [], 0
        for name, _ in wave.watched:
            operand = self.program.outputs[name]
            widths.append(sum(abs(count) for _, _, count in operand))
            starts.append(place)
            for k in range(chunks_of(widths[-1])):
                word = _cut(operand, 32 * k, 32)
                phase.cone(word)
                phase.close()
                lines.append(f"out[{place}] = {expressions.value(word, 'z', 32, False) if word else '0'};")
                place += 1
        head = "static NOINLINE void sample(State *restrict s, u32 *restrict out) {"
        function = [head, *expressions.control.lines, *lines, "}"]
        return [*wave.tables(widths, starts), f"enum {{ SAMPLE = {place} }};", *function]

    def interface(self, ports: Sequence[str], memory_count: int) -> list[str]:
        lines = []
        widths = []
        for index, name in enumerate(ports):
            operand = self.program.outputs.get(name, ())
            widths.append(sum(abs(count) for _, _, count in operand))
            fields = []
            for node, low in self.program.inputs.get(name, ()):
                number, lane = self.program.places[node]
                unit = self.units[number]
                size = int(unit.element[1:]) // 8
                copies = "LANES" if unit.varies else "1"
                place = f"offsetof(State, q{number}) + {lane} * {size} * {copies}"
                flags = f"{int(unit.form == 's')}, {int(unit.varies)}"
                fields.append(f"{{{place}, {size}, 0, 0, {unit.width}, {low}, {flags}}}")
            lines.append(f"static const Field fields{index}[] = {{{', '.join([*fields, '{0}'])}}};")
            lines.append(f"enum {{ FIELDS{index} = {len(fields)} }};")
        entries = [
            f"{{fields{k}, FIELDS{k}, port{k}, {chunks_of(widths[k])}, {int(k in self.watched)}}}"
            for k in range(len(ports))
        ]
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
            size = int(memory.element[1:]) // 8
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
                value &= (1 << int(unit.element[1:])) - 1
                place = f"s->q{unit.number}" + (f"[{lane}]" if unit.lanes > 1 else "")
                if unit.varies:
                    all_inputs = f"(v{unit.element})bc{unit.element[1:]}({value:#x}u)"
                    lines.append(f"for (int k = 0; k < CHUNKS; k++) {place}[k] = {all_inputs};")
                else:
                    lines.append(f"{place} = {value:#x}u;")
        lines.append("}")
        return lines


def _sinks(program: LevelizedProgram, *, varies: bool) -> list[Lifted]:
    """Return the next values of registers and the operands of writes."""
    found = [unit.ins[0] for unit in program.units if unit.op == "ff" and unit.varies == varies]
    for write in program.writes:
        if program.memories[write.memory].varies == varies:
            found += [write.address, write.data, write.enable]
    return found


def _varying_operands(units: Sequence[Unit], roots: Iterable[Lifted]) -> list[Lifted]:
    """Return the roots, and the operands of varying words in the combinational logic that drives them."""
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
