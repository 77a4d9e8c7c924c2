"""The statements of one clock edge, in an order in which registers can change in place."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tg2hdl_sim.levelized.c_operands import SAME_LANE, STATE, Scope
from tg2hdl_sim.levelized.expressions import Expressions
from tg2hdl_sim.levelized.program import LevelizedProgram, refs
from tg2hdl_sim.levelized.units import Lifted, Unit, UnitWrite, container

__all__ = ["Phase"]


@dataclass
class _Loop:
    """An open loop over lanes.

    Attributes
    ----------
    here : set of int
        Units that it computes.
    reads, reads_across : set of int
        Registers that it reads; registers that it also reads in other lanes.
    after : list of str
        Statements that follow it.
    """

    lanes: int
    scope: Scope = field(default_factory=Scope)
    here: set[int] = field(default_factory=set)
    reads: set[int] = field(default_factory=set)
    reads_across: set[int] = field(default_factory=set)
    declarations: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class Phase:
    """The units of one phase: all units of a model; in a batch, the units common to all inputs, or the varying ones.

    Parameters
    ----------
    hold : bool
        Whether registers keep their values until `commits`.

    Attributes
    ----------
    commits : list of str
        Statements that come last.
    """

    def __init__(
        self, program: LevelizedProgram, expressions: Expressions, *, varies: bool, hold: bool
    ) -> None:
        self.program, self.x, self.varies, self.hold = program, expressions, varies, hold
        self.units = program.units
        self.done: set[int] = set()
        self.commits: list[str] = []
        self.read_by: defaultdict[int, int] = defaultdict(int)
        self.waiting: set[int] = set()
        self.loops: dict[int, _Loop] = {}

    @property
    def lines(self) -> list[str]:
        """Statements outside of loops over lanes."""
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
        while self.waiting:
            self._commit(min(self.waiting), temporary=True)
        self.close()
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
        """Emit the combinational logic that drives some operands; returns the registers of this phase that are read."""
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

    # Loops over lanes

    def close(self) -> None:
        """End all open loops."""
        for loop in list(self.loops.values()):
            self._close(loop)

    def _close(self, loop: _Loop) -> None:
        del self.loops[loop.lanes]
        self.lines.extend(loop.declarations)
        step = "i++" if self.program.batch else "i += VECTOR"
        self.lines.append(f"for (int i = 0; i < {loop.lanes}; {step}) {{")
        self.lines.extend(loop.scope.lines)
        self.lines.append("}")
        self.lines.extend(loop.after)

    def _enter(self, lanes: int, operands: Iterable[Lifted]) -> _Loop | None:
        """Return the loop for a statement, None for a statement outside; its operands are computed before it."""
        loop = self.loops.get(lanes) if lanes > 1 else None
        for operand in operands:
            for ref in refs(operand):
                for other in list(self.loops.values()):
                    if ref[0] in other.here and not (other is loop and ref[1:] == SAME_LANE):
                        self._close(other)
                        loop = None if other is loop else loop
        self.x.lane, self.x.here = None, set()
        if lanes == 1:
            return None
        if loop is None:
            loop = self.loops[lanes] = _Loop(lanes)
        for operand in operands:
            for ref in refs(operand):
                if ref[0] >= 0 and self.units[ref[0]].op == "ff":
                    loop.reads.add(ref[0])
                    if ref[1:] != SAME_LANE:
                        loop.reads_across.add(ref[0])
        self.x.lane, self.x.here = loop.scope, loop.here
        return loop

    def _keep(self, loop: _Loop, array: str, bits: int, varies: bool, text: str) -> None:
        """Store the lanes of a value in an array of the function."""
        loop.declarations.append(f"{self.x.type_of(bits, varies)} {array}[PADDED({loop.lanes})];")
        if self.program.batch:
            loop.scope.lines.append(f"{array}[i] = {text};")
        else:
            loop.scope.lines.append(f"STORE{bits}({array}[i], {text});")

    def _leave(self) -> None:
        self.x.lane, self.x.here = None, set()

    def _emit(self, unit: Unit) -> None:
        loop = self._enter(unit.lanes, unit.ins)
        type_ = self.x.type_of(unit.bits, unit.vector)
        text = f"const {type_} t{unit.number} = {self.x.compute(unit)};"
        if loop is None:
            self.lines.append(text)
        else:
            loop.scope.lines.append(text)
            self._keep(loop, f"a{unit.number}", unit.bits, unit.varies, f"t{unit.number}")
            loop.here.add(unit.number)
        self._leave()

    # Memories

    def _store(self, write: UnitWrite) -> list[str]:
        memory = self.program.memories[write.memory]
        x, bits, lanes = self.x, container(memory.width), memory.lanes
        x.fresh += 1
        name = f"w{x.fresh}"
        by_input = memory.varies and (x.varies(write.address) or x.varies(write.enable))
        loop = self._enter(lanes, [write.address, write.data, write.enable])
        address, enable = (
            self._captured(loop, f"{name}{letter}", operand, by_input)
            for letter, operand in (("a", write.address), ("e", write.enable))
        )
        vector = memory.varies or (loop is not None and not self.program.batch)
        form = "d" if memory.element[1:] == str(memory.width) else memory.form
        text = x.value(write.data, form, bits, vector)
        if loop is None:
            self.lines.append(f"const {x.type_of(bits, memory.varies)} {name}d = {text};")
        else:
            self._keep(loop, f"{name}d", bits, memory.varies, text)
        self._leave()
        lane = "" if loop is None else "[i]"
        data = f"{name}d{lane}"
        each = f"for (int i = 0; i < {lanes}; i++) " if loop is not None else ""
        cell = f"s->m{memory.number}[{{}}]{lane}"
        limit = f" && {{}} < {memory.depth}u" if memory.rows != memory.depth else ""
        if by_input:
            address, enable, data = f"{address}[l]", f"{enable}[l]", f"{data}[l]"
            target = f"(({memory.element} *)&{cell.format(address)}[k])[l]"
            text = f"if ({enable}{limit.format(address)}) {target} = {data};"
            return [f"{each}for (int l = 0; l < VECTOR; l++) {text}"]
        test = f"if ({enable}{limit.format(address)}) "
        if memory.varies:
            store = f"{cell.format(address)}[k] = {x.narrow(data, memory.element, bits)};"
        else:
            store = f"{cell.format(address)} = {data};"
        return [f"{each}{test}{store}" if "[i]" in test else f"{test}{each}{store}"]

    def _captured(self, loop: _Loop | None, name: str, operand: Lifted, by_input: bool) -> str:
        """Keep an address or an enable for the end of the phase; returns the expression for a lane."""
        text = self.x.value(operand, "z", 32, by_input or self.x.has_vectors(operand))
        if loop is not None and any(ref[1] != 0 for ref in refs(operand)):
            self._keep(loop, name, 32, by_input, text)
            return f"{name}[i]"
        self.lines.append(f"const {'vu32' if by_input else 'u32'} {name} = {text};")
        return name

    def _stored(self, unit: Unit, text: str) -> str:
        return self.x.narrow(text, unit.element, unit.bits) if unit.varies else text

    def _moved(self, unit: Unit) -> str | None:
        """Return the register that a varying one copies, if both have the same form."""
        (following,) = unit.ins
        if not unit.varies or len(following) != 1:
            return None
        ref, low, count = following[0]
        if ref is None or ref[0] < 0:
            return None
        source = self.units[ref[0]]
        same = (low, count, source.element, source.form) == (0, source.width, unit.element, unit.form)
        if not same or source.op not in STATE or source.width != unit.width or not source.varies:
            return None
        lane = f"[{self.x.index(ref)}]" if source.lanes > 1 else ""
        return f"s->q{source.number}{lane}[k]"

    # Registers take their next values as soon as nothing needs the old ones

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
        unit, x = self.units[number], self.x
        self.waiting.discard(number)
        (following,) = unit.ins
        across = any(ref[0] == number and ref[1:] != SAME_LANE for ref in refs(following))
        temporary = temporary or (across and unit.lanes > 1)
        delayed: _Loop | None = None
        if not temporary:
            readers = [loop for loop in self.loops.values() if number in loop.reads]
            if unit.lanes == 1 and len(readers) == 1:
                delayed = readers[0]
            else:
                for reader in readers:
                    if reader.lanes != unit.lanes or number in reader.reads_across:
                        self._close(reader)
        loop = self._enter(unit.lanes, [following])
        if delayed is not None and delayed.lanes not in self.loops:
            delayed = None  # it ended with the operands of the next value
        type_ = x.type_of(unit.bits, unit.varies)
        # A short element that the word fills gets its form when it is read.
        form = "d" if unit.vector and unit.element[1:] == str(unit.width) else unit.form
        text = x.value(following, form, unit.bits, unit.vector)
        each = "[k]" if unit.varies else ""
        place = f"{x.register(unit)}{'[i]' if loop is not None else ''}{each}"
        lines = self.lines if loop is None else loop.scope.lines
        if loop is not None and temporary:
            self._keep(loop, f"n{number}", unit.bits, unit.varies, text)
            late = self._stored(unit, f"n{number}[i]")
            self.commits.append(f"for (int i = 0; i < {unit.lanes}; i++) {place} = {late};")
        elif temporary or delayed is not None:
            self.lines.append(f"const {type_} n{number} = {text};")
            assert temporary or delayed is not None
            where = self.commits if temporary or delayed is None else delayed.after
            where.append(f"{place} = {self._stored(unit, f'n{number}')};")
        elif unit.vector and not unit.varies:
            lines.append(f"STORE_{unit.element}_{unit.bits}({place}, {text});")
        else:
            lines.append(f"{place} = {self._moved(unit) or self._stored(unit, text)};")
        self._leave()
        freed = self._registers(unit.ins) - {number}
        for other in freed:
            self.read_by[other] -= 1
        if temporary and not self.hold:
            self._settle(freed)
            return set()
        return freed
