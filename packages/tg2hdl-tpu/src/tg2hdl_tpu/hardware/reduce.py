"""The units behind the vector unit: accumulation over rows, reduction over lanes, packing."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.pairs import WordPair, pair_controls

__all__ = ["Reducer", "one_layer"]


def one_layer(
    m: Module, rows: list[Value], levels: Any, subtracts: Any, least: Any, pack: Any
) -> list[Value]:
    """Return the combined row, as many cycles after its words as there are levels.

    Neighbours are combined, or not; then words move so that those are neighbours whose numbers differ by twice as
    much.  After all levels each is in its lane again; after those that combine, the results of the groups are side by
    side, in order, and there they stay if they are packed.

    Parameters
    ----------
    rows : list of Value
        Words of the lanes, whose controls came a cycle before.
    levels, subtracts, least, pack : Value
        Which levels combine, and how.  A row with any level comes only when the one before it has left.  One that is
        packed has the lowest levels.
    """
    number = len(rows)
    count = number.bit_length() - 1
    enters, left = Signal(name="enters", reset_less=True), Signal(count, name="left", reset_less=True)
    how, following = Signal(3, name="layer_how", reset_less=True), Signal(count, name="following")
    comes, how_now, takes = levels.any(), Signal(3, name="how_now"), Signal(name="layer_takes_now")
    m.d.comb += [
        following.eq(Mux(comes, levels[:count], left[1:])),
        how_now.eq(Mux(comes, Cat(subtracts, least, pack), how)),
        takes.eq(following[0] | ~how_now[2]),
    ]
    m.d.sync += [enters.eq(comes), left.eq(following), how.eq(how_now)]
    on = pair_controls(m, "layer", following[0], how_now[0], how_now[1], takes, registered=True)
    stages = [WordPair(f"layer_stage_{n}") for n in range(number // 2)]
    outputs = [word for stage in stages for word in (stage.low(), stage.high())]
    # The word at place p was made at the place whose number has the bits of p, moved up by one.
    back = [outputs[(p << 1 | p >> (count - 1)) % number] for p in range(number)]
    for n, stage in enumerate(stages):
        x, y = (Signal(32, name=f"layer_word_{p}") for p in (2 * n, 2 * n + 1))
        m.d.comb += [
            x.eq(Mux(enters, rows[2 * n], back[2 * n])),
            y.eq(Mux(enters, rows[2 * n + 1], back[2 * n + 1])),
        ]
        pair = WordPair(f"layer_{n}")
        m.d.comb += pair.combine(x, y, on, alone=1)
        stage.take(m, pair, on)
    return back


class Reducer(wiring.Component):
    """Combines rows and lanes.

    Its registers are after the accumulation, and evenly between the levels (`Config.reduce_registers`).

    Members
    -------
    row : In
        A row of results, or one that is passed on.
    valid, accumulate, first, how, levels, pack : In
        Whether it is one, and of its instruction; `first` is high for the first row.  With `early`, of the row that
        comes a cycle later.
    combines : In(1)
        With one layer for all levels (`Config.reduce_layers`): the row may be combined over lanes.
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
                "combines": In(1 if config.reductions > 1 else 0),
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
        on = pair_controls(m, "held", both, subtracts, least, self.valid, registered=self.early)
        for i in range(lanes):
            row = self.row[32 * i : 32 * i + 32]
            held = WordPair(f"held_{i}")
            now = WordPair(f"now_{i}")
            m.d.comb += now.combine(held.low(), row, on, alone=0)
            held.take(m, now, on)
            rows.append((held if 0 in cuts else now).low())
        levels = self.levels & self.combines.replicate(5) if config.reductions > 1 else self.levels
        control: Value = Cat(subtracts, least, levels, self.pack)
        if self.early:
            later = Signal.like(control, name="control", reset_less=True)
            m.d.sync += later.eq(control)
            control = later
        if config.reductions > 1:
            m.d.comb += self.result.eq(self._beside(m, rows, control))
            return m
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
            on = pair_controls(m, f"level{level}", of[2 + level], of[0], of[1], registered=level in cuts)
            for i in range(lanes):
                j = i | 1 << level
                if i == j:
                    continue
                pair = WordPair(f"level{level}_{i}")
                m.d.comb += pair.combine(rows[i], rows[j], on, alone=1)
                if level + 1 in cuts:
                    later = WordPair(f"stage{level}_{i}")
                    later.take(m, pair, on)
                    pair = later
                following[i], following[j] = pair.low(), pair.high()
            rows = following
        of = before if config.levels in cuts else control
        m.d.comb += self.result.eq(
            Cat(self._packed(m, rows, of[2:-1], of[-1], registered=config.levels in cuts))
        )
        return m

    def _beside(self, m: Module, rows: list[Value], control: Value) -> Value:
        """The result with one layer for all levels; rows that are not combined pass around it."""
        combined = one_layer(m, rows, control[2:-1], control[0], control[1], control[-1])
        levels = self.config.levels
        comes = [Signal(name=f"comes{level}", reset_less=True) for level in range(levels + 1)]
        m.d.sync += Cat(comes).eq(Cat(control[2:-1].any(), *comes))
        own = rows
        for level in range(levels):
            arrived, own = (
                own,
                [Signal(32, name=f"own{level}_{i}", reset_less=True) for i in range(len(rows))],
            )
            m.d.sync += [word.eq(row) for word, row in zip(own, arrived, strict=True)]
        # Combined words come from the layer.
        with m.If(comes[-2]):
            m.d.sync += [word.eq(0) for word in own]
        return Cat(word | row & comes[-1].replicate(32) for word, row in zip(own, combined, strict=True))

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
