"""From an instruction in the row stage to the row that is issued next."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.flights import any_of
from tg2hdl_tpu.hardware.records import is_one_of, part_logs, prepared_layout, row_bits
from tg2hdl_tpu.hardware.sums import prepare_sums
from tg2hdl_tpu.isa import OPCODES, PRODUCTS
from tg2hdl_tpu.vector_ops import VECTOR_OPS

__all__ = ["prepared", "with_checks", "with_ends"]

_SAME = (
    "opcode",
    "pre",
    "xlu",
    "k",
    "relu",
    "accumulate",
    "reduce",
    "levels",
    "pack",
    "pc",
)


def prepared(
    m: Module, config: Config, x: Any, number: Any, first_row: Any, last: Any, a: Any, wrong: Any
) -> Any:
    """Return row `number` of the instruction `x`, as a `prepared_layout`.

    Parameters
    ----------
    x : Signal
        The instruction, with the addresses of this row.
    first_row, last : Value
        It is the first one, or the last one.
    a : Value
        The address of the first operand: that of `x`, or a gathered one.
    wrong : Value
        This address is none.
    """
    bits, lanes = row_bits(config), config.lanes
    out = Signal(prepared_layout(config), name="prepared")
    is_weights, is_tile, is_lda = (x.opcode == OPCODES[name].code for name in ("weights", "tile", "lda"))
    is_index = x.opcode == OPCODES["index"].code
    is_load, is_store = (x.opcode == OPCODES[name].code for name in ("load", "store"))
    is_dma = is_load | is_store
    is_vector = x.opcode[5:].any()  # FIRST_VECTOR
    permute = is_vector & (x.pre == 3) & (x.xlu == 3)
    with_b = is_one_of(
        x.opcode, (op.name for op in VECTOR_OPS if op.reads_b and OPCODES[op.name].exists(config))
    )
    reads_b = is_vector & ~x.constant & (permute | with_b)
    a_row, to_row = Signal(signed(28), name="a_row"), Signal(signed(28), name="to_row")
    shifts = {0, *part_logs(config, 1), *part_logs(config, 2)}
    with m.Switch(x.shift):
        for shift in sorted(shifts):
            with m.Case(shift) if shift != max(shifts) else m.Default():
                m.d.comb += a_row.eq(a >> shift)
    mask, straight = Signal(lanes, name="mask"), Signal(lanes, name="straight")
    with m.Switch(x.segment):
        for log in range(config.levels + 1):
            with m.Case(log):
                m.d.comb += to_row.eq(x.dst >> log)
                width = lanes >> log
                place = x.dst[:log] if log else Value.cast(0)
                m.d.comb += mask.eq(((1 << width) - 1) << (place * width))
    m.d.comb += straight.eq(mask | (x.levels != 0).replicate(lanes))

    first = Mux(is_load, x.dst, x.a)

    def beyond(address: Any, shift: Any) -> Any:
        """Whether `address >> shift` is not a row, without waiting for the shifter."""
        low = [address[bits + n] & any_of([shift == s for s in range(n + 1)]) for n in range(7)]
        return Cat(low).any() | address[bits + 7 :].any()

    bad = Cat(
        is_vector & beyond(x.dst, x.segment),
        ~is_dma & beyond(a, x.shift),
        (is_vector & wrong) | (reads_b & x.b[bits:].any()),
        (is_load & x.dst[bits:].any()) | (is_store & x.a[bits:].any()),
    )
    kinds = [is_one_of(x.opcode, (op.name for op in VECTOR_OPS if op.kind == kind)) for kind in (1, 2)]
    kind = kinds[0] | (kinds[1] << 1)
    words = (x.pre == 1) & ~is_lda
    if config.matrix_is_float:  # which takes any word
        kind = Mux(is_vector & (x.pre[0] ^ x.pre[1]), PRODUCTS, kind)
        words = Const(0, 1)
    m.d.comb += [
        *(out[name].eq(x[name]) for name in _SAME if name not in ("opcode", "pre", "xlu")),
        out.opcode.eq(Mux(is_lda, OPCODES["copy"].code, x.opcode)),
        out.pre.eq(Mux(is_lda, 3, x.pre)),
        out.xlu.eq(Mux(is_lda, 1, x.xlu)),
        out.kind.eq(kind),
        out.weights.eq(is_weights | is_tile),
        out.whole.eq(is_tile),
        out.index.eq(number),
        out.lda.eq(is_lda),
        out.indices.eq(is_index),
        out.checked.eq(permute | words),
        out.part.eq(a & ((1 << x.shift) - 1)),
        out.constant.eq(~reads_b),
        out.operand.eq(with_b),
        out.b.eq(Mux(x.constant, x.b, 0)),
        out.first.eq(first_row),
        out.mask.eq(mask),
        out.writes.eq(is_vector & (~x.accumulate | last)),
        out.a_row.eq(a_row),
        out.b_row.eq(x.b),
        out.to.eq(to_row),
        out.straight.eq(straight),
        out.reads_a.eq(1),
        out.a_whole.eq(~(is_vector & (x.pre == 0))),
        out.b_whole.eq(permute),
        out.vector.eq(is_vector),
        out.reads_b.eq(reads_b),
        out.reads_c.eq(is_one_of(x.opcode, (op.name for op in VECTOR_OPS if op.reads_c))),
        out.wrong.eq(bad),
        out.transfer.eq(is_dma),
        out.load.eq(is_load),
        out.first_row.eq(first),
        out.further.eq(x.further),
        out.count.eq(x.further + 1),
        out.outside.eq(x.b),
    ]
    if config.output_stationary:
        prepare_sums(m, config, x, a, out)
    if not config.issue_registers:
        m.d.comb += [*with_ends(out, out), *with_checks(config, out, out)]
    return out


def with_ends(row: Any, out: Any) -> list[Any]:
    """Assign the last rows of a transfer to `out`.

    Parameters
    ----------
    row
        View of a prepared row.
    out
        View with the fields `final` and `outside_final`.
    """
    return [out.final.eq(row.first_row + row.further), out.outside_final.eq(row.outside + row.further)]


def with_checks(config: Config, row: Any, out: Any) -> list[Any]:
    """Assign the checks of the addresses of `row`, with those of `with_ends`, to `out`.

    Parameters
    ----------
    config : Config
    row
        View of a row with its ends.
    out
        View with the fields `bad` and `outside_bad`.
    """
    beyond = row.final[row_bits(config) :].any()
    wrong = row.outside[-1] | (row.outside_final >= config.xmem_rows)
    bad = row.wrong.any() | (row.transfer & beyond)
    return [out.bad.eq(bad), out.outside_bad.eq(row.transfer & wrong)]
