"""Output-stationary products: the matrix unit keeps a sum for each of its products."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.isa import OPCODES, SUMS

__all__ = ["SumRegisters", "connect_sums", "prepare_sums"]


class SumRegisters(wiring.Component):
    """A register of 32 bits for each product of the matrix unit.

    Members
    -------
    products, outer, clear : In
        `outer` adds the products, of twice the bits of an element, by rows; with `clear` to zeros.
    words, preload, index : In
        `preload` sets the row `index` to these words.
    drain : In(1)
        The result is the row `index`, else 0.
    result : Out
        Repeated over all lanes; with five `Config.pre_registers` a cycle later.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "products": In(2 * config.matrix_bits * config.rows * config.columns),
                "outer": In(1),
                "clear": In(1),
                "words": In(32 * config.columns),
                "preload": In(1),
                "index": In(5),
                "drain": In(1),
                "result": Out(config.row_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the registers, and the multiplexer of their rows."""
        m = Module()
        config = self.config
        rows, columns, bits = config.rows, config.columns, 2 * config.matrix_bits
        chosen: list[list[Value]] = [[] for _ in range(columns)]
        for i in range(rows):
            mine = self.index == i
            for j in range(columns):
                at = i * columns + j
                total = Signal(signed(32), name=f"sum_{i}_{j}")
                product = self.products[bits * at : bits * at + bits].as_signed()
                with m.If(self.outer):
                    m.d.sync += total.eq(Mux(self.clear, 0, total) + product)
                with m.If(self.preload & mine):
                    m.d.sync += total.eq(self.words[32 * j : 32 * j + 32])
                chosen[j].append(total.as_unsigned() & (mine & self.drain).replicate(32))
        found = Signal(32 * columns, reset_less=True)
        domain = m.d.sync if config.pre_registers == 5 else m.d.comb
        domain += found.eq(Cat(reduce(or_, values) for values in chosen))
        m.d.comb += self.result.eq(found.replicate(config.lanes // columns))
        return m


def prepare_sums(m: Module, config: Config, x: Any, a: Any, out: Any) -> None:
    """Complete a prepared row of the instruction `x` that uses the sums; `a` is its first address.

    Parameters
    ----------
    m : Module
        Of the row stage.
    config : Config
    x
        View of the instruction.
    a
        Its first address in the scratchpad, in rows.
    out
        View of the prepared row.
    """
    bits = (config.vmem_rows - 1).bit_length()
    log = (config.packed // config.columns).bit_length() - 1
    preload, outer = (x.opcode == OPCODES[name].code for name in ("preload", "outer"))
    drain = x.opcode[5:].any() & (x.pre == 1) & (x.xlu == SUMS)
    m.d.comb += [out.outer.eq(outer), out.preload.eq(preload), out.drain.eq(drain)]
    with m.If(outer | preload):
        m.d.comb += out.writes.eq(0)
    with m.If(outer):
        m.d.comb += [
            out.reads_b.eq(1),
            out.constant.eq(0),
            out.b_row.eq(x.b[log:]),
            out.b_part.eq(x.b[:log]),
            out.wrong[2].eq(x.b[bits + log :].any()),
        ]
    with m.If(drain):
        # It does not read a row, so it waits only for its destination.
        m.d.comb += [
            out.checked.eq(0),
            out.index.eq(a),
            out.a_row.eq(out.to),
            out.reads_a.eq(0),
            out.wrong[1].eq(a[config.rows.bit_length() - 1 :].any()),
        ]


def connect_sums(m: Module, config: Config, matrix: Any, ages: list[Any], row_a: Any, row_b: Any) -> Value:
    """Build the sums of a core and return the row that is read, where `matrix` has its result.

    An older row has added its products when a younger one reads: both happen at the same age.

    Parameters
    ----------
    m : Module
        Of the core.
    config : Config
    matrix
        The matrix unit.
    ages : list of Any
        Views of the rows in flight, by cycles since their issue.
    row_a, row_b
        Words read from the scratchpad for a row at its check.
    """
    m.submodules.sums = sums = SumRegisters(config)
    at = 1 + config.read_registers
    age = config.check + (config.pre_registers >= 2)
    words = row_a[: 32 * config.columns]
    for n in range(at, age):
        later = Signal(len(words), name=f"words{n}", reset_less=True)
        m.d.sync += later.eq(words)
        words = later
    row = ages[age]
    m.d.comb += [
        matrix.row_b.eq(row_b),
        matrix.segment_b.eq(ages[at].b_part),
        matrix.outer.eq(ages[config.check - (config.pre_registers >= 4)].outer),
        sums.products.eq(matrix.products),
        sums.words.eq(words),
        sums.outer.eq(row.outer),
        sums.clear.eq(row.first & ~row.accumulate),
        sums.preload.eq(row.preload),
        sums.index.eq(row.index),
        sums.drain.eq(row.drain),
    ]
    return sums.result
