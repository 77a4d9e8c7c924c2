"""What is behind the vector unit: accumulation over rows, reduction over lanes, packing."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config

__all__ = ["Reducer"]


class Reducer(wiring.Component):
    """Combines rows and lanes.

    Its registers are after the accumulation, and evenly between the levels (`Config.reduce_registers`).

    Members
    -------
    row, valid : In
        A row of results.
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
        control: dict[str, Any] = {"how": self.how, "levels": self.levels, "pack": self.pack}
        values: list[Any] = []
        for i in range(lanes):
            value = self.row[32 * i : 32 * i + 32].as_signed()
            accumulator = Signal(signed(32), name=f"accumulator_{i}", reset_less=True)
            combined = Signal(signed(32), name=f"combined_{i}")
            m.d.comb += combined.eq(Mux(self.first, value, _combine(self.how, accumulator, value)))
            with m.If(self.valid & self.accumulate):
                m.d.sync += accumulator.eq(combined)
            values.append(Mux(self.accumulate, combined, value))

        def register(number: int) -> None:
            for at, value in enumerate(values):
                values[at] = Signal(signed(32), name=f"stage{number}_{at}", reset_less=True)
                m.d.sync += values[at].eq(value)
            for name, value in control.items():
                control[name] = Signal(
                    Value.cast(value).shape(), name=f"stage{number}_{name}", reset_less=True
                )
                m.d.sync += control[name].eq(value)

        number = config.reduce_registers
        cuts = [n * (config.levels + 1) // number for n in range(number)]
        for level in range(config.levels):
            if level in cuts:
                register(level)
            following = []
            for i in range(lanes):
                # Both lanes of a pair compute the same.
                pair = (values[i & ~(1 << level)], values[i | 1 << level])
                out = Signal(signed(32), name=f"level{level}_{i}")
                m.d.comb += out.eq(Mux(control["levels"][level], _combine(control["how"], *pair), values[i]))
                following.append(out)
            values[:] = following
        if config.levels in cuts:
            register(config.levels)
        packed = []
        for i in range(lanes):
            # levels + 1 is the size of a group: choose by the number of levels.
            choices = [values[i % (lanes >> k) << k] for k in range(config.levels + 1)]
            count = Signal(range(config.levels + 1), name=f"group_{i}")
            m.d.comb += count.eq(sum(control["levels"][k] for k in range(config.levels)))
            packed.append(Mux(control["pack"], Array(choices)[count], values[i]))
        m.d.comb += self.result.eq(Cat(packed))
        return m


def _combine(how: Any, x: Any, y: Any) -> Value:
    total = (x + y)[:32].as_signed()
    return Mux(how == 1, total, Mux((x > y) ^ (how == 3), x, y))
