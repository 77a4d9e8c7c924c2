"""What is behind the vector unit: accumulation over rows, reduction over lanes, packing."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.alu import INVERTS

__all__ = ["Reducer"]


class Reducer(wiring.Component):
    """Combines rows and lanes.

    Its registers are after the accumulation, and evenly between the levels (`Config.reduce_registers`).

    Members
    -------
    row, valid : In
        A row of results, or of what is passed on.
    accumulate, first, how, levels, pack : In
        Of the instruction; `first` is high for its first row.
    result : Out
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "row": In(config.row_bits),
                "valid": In(1),
                "accumulate": In(1),
                "first": In(1),
                "how": In(2),
                "levels": In(5),
                "pack": In(1),
                "result": Out(config.row_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build accumulators and the butterfly."""
        m = Module()
        config = self.config
        lanes = config.lanes
        number = config.reduce_registers
        cuts = [n * (config.levels + 1) // number for n in range(number)]
        subtracts, least = Signal(name="subtracts"), self.how == 3
        m.d.comb += subtracts.eq(self.how != 1)
        both = self.accumulate & ~self.first
        rows: list[Value] = []
        for i in range(lanes):
            row = self.row[32 * i : 32 * i + 32]
            held = _Pair(f"held_{i}")
            now = _Pair(f"now_{i}")
            m.d.comb += now.combine(held.low(), row, both, subtracts, least, alone=0)
            with m.If(self.valid):
                m.d.sync += held.eq(now)
            rows.append((held if 0 in cuts else now).low())
        control: Value = Cat(subtracts, least, self.levels, self.pack)
        for level in range(config.levels + 1):
            if level in cuts:
                later = Signal.like(control, name=f"control{level}", reset_less=True)
                m.d.sync += later.eq(control)
                control = later
            subtracts, least, levels, pack = control[0], control[1], control[2:-1], control[-1]
            if level == config.levels:
                break
            following = list(rows)
            for i in range(lanes):
                j = i | 1 << level
                if i == j:
                    continue
                pair = _Pair(f"level{level}_{i}")
                m.d.comb += pair.combine(rows[i], rows[j], levels[level], subtracts, least, alone=1)
                if level + 1 in cuts:
                    later = _Pair(f"stage{level}_{i}")
                    m.d.sync += later.eq(pair)
                    pair = later
                following[i], following[j] = pair.low(), pair.high()
            rows = following
        m.d.comb += self.result.eq(Cat(self._packed(rows, levels, pack)))
        return m

    def _packed(self, rows: list[Value], levels: Any, pack: Any) -> list[Value]:
        """Each group's result in its place.  All rows of a group have it: of these, one that is chosen anyway."""
        packed = []
        for i in range(self.config.lanes):
            sources: dict[int, Any] = {i: ~pack}
            for count in range(self.config.levels, 0, -1):
                group = i % (self.config.lanes >> count)
                this = pack & levels[count - 1]
                if count < self.config.levels:
                    this = this & ~levels[count]
                there = [source for source in sources if source >> count == group]
                source = there[0] if there else group << count
                sources[source] = sources.get(source, 0) | this
            packed.append(reduce(or_, [rows[n] & Value.cast(on).replicate(32) for n, on in sources.items()]))
        return packed


class _Pair:
    """Two words that are combined or not: a sum, or else two words and which of them is each result.

    What is not needed is 0, so that a result is one level of logic after a register.
    """

    def __init__(self, name: str) -> None:
        self.words = [Signal(32, name=f"{name}_{part}", reset_less=True) for part in ("sum", "x", "y")]
        self.first = [Signal(name=f"{name}_{part}", reset_less=True) for part in ("low", "high")]

    def eq(self, other: _Pair) -> list[Any]:
        """Assign all parts."""
        pairs = zip(self.words + self.first, other.words + other.first, strict=True)
        return [mine.eq(theirs) for mine, theirs in pairs]

    def combine(self, x: Value, y: Value, combines: Any, subtracts: Any, least: Any, alone: int) -> list[Any]:
        """Assign x and y, combined or not; if not, `low` is x for `alone`, else y."""
        zero = Const(0, 32)
        sums = combines & ~subtracts
        full = Signal(33, name=f"{self.words[0].name}_", attrs=INVERTS)
        total = full[1:]
        less = Mux(x[31] ^ y[31], x[31], total[31])
        chooses = less ^ ~least
        values = (Mux(sums, total, zero), Mux(sums, zero, x), Mux(sums, zero, y))
        return [
            full.eq(Cat(subtracts, x) + Cat(subtracts, y ^ subtracts.replicate(32))),
            *(word.eq(value) for word, value in zip(self.words, values, strict=True)),
            self.first[0].eq(Mux(combines, chooses, alone)),
            self.first[1].eq(Mux(combines, chooses, 0)),
        ]

    def _choice(self, first: Any) -> Value:
        total, x, y = self.words
        return total | Mux(first, x, y)

    def low(self) -> Value:
        """The first result."""
        return self._choice(self.first[0])

    def high(self) -> Value:
        """The second one."""
        return self._choice(self.first[1])
