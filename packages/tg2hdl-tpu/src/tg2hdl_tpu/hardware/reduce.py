"""What is behind the vector unit: accumulation over rows, reduction over lanes, packing."""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import SimpleNamespace
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
    row : In
        A row of results, or of what is passed on.
    valid, accumulate, first, how, levels, pack : In
        Whether it is one, and of its instruction; `first` is high for the first row.  With `early`, of the row that
        comes a cycle later.
    result : Out

    Attributes
    ----------
    early : bool
        Controls come a cycle early, so that registers, and no logic behind them, enable and clear all words.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.early = config.alu_registers >= 2
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
        on = _controls(m, "held", both, subtracts, least, self.valid, registered=self.early)
        for i in range(lanes):
            row = self.row[32 * i : 32 * i + 32]
            held = _Pair(f"held_{i}")
            now = _Pair(f"now_{i}")
            m.d.comb += now.combine(held.low(), row, on, alone=0)
            held.take(m, now, on)
            rows.append((held if 0 in cuts else now).low())
        control: Value = Cat(subtracts, least, self.levels, self.pack)
        if self.early:
            later = Signal.like(control, name="control", reset_less=True)
            m.d.sync += later.eq(control)
            control = later
        for level in range(config.levels + 1):
            before = control
            if level in cuts:
                later = Signal.like(control, name=f"control{level}", reset_less=True)
                m.d.sync += later.eq(control)
                control = later
            if level == config.levels:
                break
            following = list(rows)
            of = before if level in cuts else control
            on = _controls(m, f"level{level}", of[2 + level], of[0], of[1], registered=level in cuts)
            for i in range(lanes):
                j = i | 1 << level
                if i == j:
                    continue
                pair = _Pair(f"level{level}_{i}")
                m.d.comb += pair.combine(rows[i], rows[j], on, alone=1)
                if level + 1 in cuts:
                    later = _Pair(f"stage{level}_{i}")
                    later.take(m, pair, on)
                    pair = later
                following[i], following[j] = pair.low(), pair.high()
            rows = following
        of = before if config.levels in cuts else control
        m.d.comb += self.result.eq(
            Cat(self._packed(m, rows, of[2:-1], of[-1], registered=config.levels in cuts))
        )
        return m

    def _packed(
        self, m: Module, rows: list[Value], levels: Any, pack: Any, *, registered: bool
    ) -> list[Value]:
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
            if registered:
                for n, on in sources.items():
                    sources[n] = Signal(name=f"pack_{i}_{n}", reset_less=True)
                    m.d.sync += sources[n].eq(on)
            packed.append(reduce(or_, [rows[n] & Value.cast(on).replicate(32) for n, on in sources.items()]))
        return packed


def _controls(
    m: Module, name: str, combines: Any, subtracts: Any, least: Any, valid: Any = None, *, registered: bool
) -> SimpleNamespace:
    """What pairs do; from registers if they are `registered`, and else from the values themselves.

    `sums` and `apart` clear what the other one does not need, if the pairs take something.
    """
    sums, there = combines & ~subtracts, Const(1) if valid is None else valid
    found: dict[str, Any] = {
        "combines": combines,
        "subtracts": subtracts,
        "least": least,
        "takes": there,
        "sums": sums & there,
        "apart": ~sums & there,
    }
    if registered:
        for key, value in found.items():
            if isinstance(value, Const):
                continue
            found[key] = Signal(name=f"{name}_{key}", reset_less=True)
            m.d.sync += found[key].eq(value)
    return SimpleNamespace(**found)


class _Pair:
    """Two words that are combined or not: a sum, or else two words and which of them is each result.

    What is not needed is 0, so that a result is one level of logic after a register.
    """

    def __init__(self, name: str) -> None:
        self.words = [Signal(32, name=f"{name}_{part}", reset_less=True) for part in ("sum", "x", "y")]
        self.first = [Signal(name=f"{name}_{part}", reset_less=True) for part in ("low", "high")]
        #: The words before what is not needed is 0.
        self.raw: tuple[Value, ...] = ()

    def take(self, m: Module, other: _Pair, on: SimpleNamespace) -> None:
        """Assign all parts in the next cycle, if it takes them; what is not needed is cleared."""
        with m.If(on.takes):
            m.d.sync += [mine.eq(theirs) for mine, theirs in zip(self.first, other.first, strict=True)]
        for mine, theirs, clear in zip(self.words, other.raw, (on.apart, on.sums, on.sums), strict=True):
            with m.If(clear):
                m.d.sync += mine.eq(0)
            with m.Elif(on.takes):
                m.d.sync += mine.eq(theirs)

    def combine(self, x: Value, y: Value, on: SimpleNamespace, alone: int) -> list[Any]:
        """Assign x and y, combined or not; if not, `low` is x for `alone`, else y."""
        zero = Const(0, 32)
        full = Signal(33, name=f"{self.words[0].name}_", attrs=INVERTS)
        total = full[1:]
        less = Mux(x[31] ^ y[31], x[31], total[31])
        chooses = less ^ ~on.least
        sums = on.combines & ~on.subtracts
        values = (Mux(sums, total, zero), Mux(sums, zero, x), Mux(sums, zero, y))
        self.raw = (total, x, y)
        return [
            full.eq(Cat(on.subtracts, x) + Cat(on.subtracts, y ^ on.subtracts.replicate(32))),
            *(word.eq(value) for word, value in zip(self.words, values, strict=True)),
            self.first[0].eq(Mux(on.combines, chooses, alone)),
            self.first[1].eq(Mux(on.combines, chooses, 0)),
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
