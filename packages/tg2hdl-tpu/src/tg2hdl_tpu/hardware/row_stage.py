"""The row stage of a core: instructions that wait, their rows one after the other, and the issue."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data

from tg2hdl_tpu.hardware.flights import any_of
from tg2hdl_tpu.hardware.prepare import prepared
from tg2hdl_tpu.hardware.queue import RowQueue
from tg2hdl_tpu.hardware.records import handed_layout
from tg2hdl_tpu.isa import Trap

__all__ = ["prepare_rows", "waiting_instructions"]


def waiting_instructions(m: Module, core: Any, free: Any) -> tuple[Any, Any, Signal]:
    """Give the instruction that follows in the row stage, whether there is one, and which places hold one.

    One waits, or else goes through at once; with registers for the issue two wait, in turns, and none goes through.

    Parameters
    ----------
    m : Module
        Of the core.
    core : TensorCore
        Whose scalar unit gives the instructions.
    free
        Whether the row stage takes the next instruction in this cycle.
    """
    sxu, number = core.sxu, 1 + core.config.issue_registers
    places = [Signal(handed_layout(), name=f"q{n}", reset_less=True) for n in range(number)]
    holds = Signal(number)
    if number == 1:
        m.d.comb += sxu.ready.eq(~holds)
        with m.If(free):
            m.d.sync += holds.eq(0)
        with m.Elif(sxu.valid & sxu.ready):
            m.d.sync += holds.eq(1)
        with m.If(sxu.ready):
            m.d.sync += places[0].eq(sxu.instruction)
        return Mux(holds, places[0], sxu.instruction), holds | sxu.valid, holds
    turn, oldest, taken = Signal(), Signal(), Signal()
    # An instruction that came in the cycle before a trap of the sequencer is dropped.
    came, dropped = Signal(), Signal()
    m.d.sync += came.eq(sxu.valid & sxu.ready)
    m.d.comb += [
        sxu.ready.eq(~holds.all()),
        taken.eq(free & holds.any()),
        dropped.eq(came & sxu.late),
    ]
    m.d.sync += [turn.eq(turn ^ (sxu.valid & sxu.ready) ^ dropped), oldest.eq(oldest ^ taken)]
    for n, place in enumerate(places):
        filled = sxu.valid & sxu.ready & (turn == n)
        with m.If(sxu.ready & (turn == n)):
            m.d.sync += place.eq(sxu.instruction)
        leaves = (taken & (oldest == n)) | (dropped & (turn != n))
        m.d.sync += holds[n].eq((holds[n] & ~leaves) | filled)
    with m.If(~core.running):
        m.d.sync += [turn.eq(0), oldest.eq(0)]
    return Mux(oldest, places[1], places[0]), holds.any() & (holds.all() | ~dropped), holds


def prepare_rows(m: Module, core: Any, x_valid: Any, free: Any, following: Any) -> None:
    """Give the rows of the instruction `x` to the queue, one after the other; then comes `following`.

    Parameters
    ----------
    m : Module
        Of the core.
    core : TensorCore
        Gets the queue and the indices of gathers.
    x_valid
        Whether `core.x` is an instruction.
    free
        Driven: whether the row stage takes the next instruction.
    following
        View of the next instruction.
    """
    config, x = core.config, core.x
    number, first, left, last, stepped = Signal(5), Signal(), Signal(10), Signal(), Signal()
    gathered, beyond, primed = Signal(signed(28)), Signal(), Signal()
    following, gathers = data.View(handed_layout(), following), x.gathers
    row = prepared(m, config, x, number, first, last, Mux(gathers, gathered, x.a), gathers & beyond)
    ready, held = Signal(), Signal()
    m.d.comb += ready.eq(x_valid & (~gathers | primed))
    core.queue = queue = RowQueue(
        m, config, core.flights, row, ready, held, load=core.load, port=core.port, store=core.store
    )
    core.r, core.r_valid = queue.row, queue.valid
    _issue(m, core, held)
    m.d.comb += [stepped.eq(ready & queue.steps), free.eq(~x_valid | (stepped & last))]
    # The address of a gathered row is added in the cycle before, and its index is chosen in the one before that.
    core.indices = [Signal(17, name=f"index_{lane}") for lane in range(config.lanes)]
    read = [age.indices for age in core.ages[1 : 2 + config.read_registers]] + queue.indices
    following_index, at = Signal(17), Signal(config.levels, init=1)
    index = Mux(primed, following_index, core.indices[0])
    begins = x_valid & gathers & ~any_of(read) & queue.steps
    with m.If(stepped | ~primed):
        m.d.sync += [gathered.eq(x.a + index[:16]), beyond.eq(index[16])]
        m.d.sync += [following_index.eq(Array(core.indices)[at]), primed.eq(begins), at.eq(at + begins)]
    with m.If(free):
        m.d.sync += [primed.eq(0), at.eq(1)]
    # Late signals decide only whether anything changes.
    ends = ~x_valid | last
    with m.If(stepped | ~x_valid):
        m.d.sync += [number.eq(Mux(ends, 0, number + 1)), first.eq(ends)]
        m.d.sync += left.eq(Mux(ends, following.further, left - 1))
        m.d.sync += last.eq(Mux(ends, following.alone, left == 1))
        # One adder for an address and its register, and for the address of the next row.
        steps = {
            "a": x.a_stride,
            "b": Mux(x.constant, 0, x.b_stride),
            "dst": Mux(x.accumulate, 0, x.dst_stride),
        }
        for name, step in steps.items():
            base, register = following[name], following[f"{name}_register"]
            m.d.sync += x[name].eq(Mux(ends, base, x[name]) + Mux(ends, register, step))
        with m.If(ends):
            m.d.sync += [x[name].eq(following[name]) for name in x.shape().members if name not in steps]


def _issue(m: Module, core: Any, held: Signal) -> None:
    config, r, vmem, ages, queue = core.config, core.r, core.vmem, core.ages, core.queue
    # The cycle that reads the old destination comes first.
    holds = queue.holds
    load, store = core.load, core.store
    kept = r.writes & queue.kept
    busy = [r.writes & core.flights.port_taken(r.kind)]
    for slow in core.flights.slow:
        if config.interval(slow.kind) > 1:
            left = Signal(range(config.interval(slow.kind)), name=f"left{slow.kind}")
            m.d.sync += left.eq(left - (left != 0))
            with m.If(slow.line[0]):
                m.d.sync += left.eq(config.interval(slow.kind) - 1)
            busy.append((r.kind == slow.kind) & (left != 0))
    reduces, layer = r.writes & r.levels.any(), Signal(range(config.reductions), name="left_reduction")
    if config.reductions > 1:
        busy.append(reduces & (layer != 0))
    # A transfer goes to its channel.
    reasons: list[Any] = []
    # Addresses that do not fit these bits are not addresses.
    outside, outside_final = (
        r[name][: (config.xmem_rows - 1).bit_length()] for name in ("outside", "outside_final")
    )
    for mine, other in ((r.load, store), (~r.load, load)):
        # Two carry chains each; `<=` would also look for zeros in the difference.
        rows_meet = ~(other.last < r.first_row) & ~(r.final < other.row)
        outside_meet = ~(other.outside_last < outside) & ~(outside_final < other.outside_first)
        reasons += [mine & other.active & rows_meet, mine & other.active & outside_meet]
    core.unchecked = any_of([age.checked for age in ages[1 : config.check + 1]])
    goes = core.r_valid & r.transfer & ~r.bad & ~r.outside_bad
    reasons += [Mux(r.load, load.active, store.active), core.unchecked, core.port.active]
    hands_over = goes & ~any_of(reasons)
    if config.issue_registers:  # compared in one cycle, handed over in the next
        looked, against = Signal(), Signal(3)
        parts = reasons[:2], reasons[2:4], reasons[4:]
        m.d.sync += [looked.eq(goes), against.eq(Cat(any_of(part) for part in parts))]
        hands_over = core.r_valid & looked & ~against.any()
    for channel, which in ((load, r.load), (store, ~r.load)):
        m.d.comb += [
            channel.start.eq(hands_over & which),
            channel.first.eq(r.first_row),
            channel.final.eq(r.final),
            channel.count.eq(r.count),
            channel.outside.eq(r.outside),
            channel.outside_final.eq(r.outside_final),
        ]

    goes_on, real = Signal(), Signal()
    stays = queue.stays | any_of(busy)
    m.d.comb += [
        goes_on.eq(core.r_valid & ~stays),
        real.eq(goes_on & ~queue.crosses),
        queue.crossed.eq(goes_on & queue.crosses),
        held.eq(core.r_valid & (stays | queue.crosses) & ~hands_over),
        queue.read_old.eq(core.r_valid & holds & ~r.bad & ~queue.waits_old),
    ]
    if config.reductions > 1:
        m.d.sync += layer.eq(Mux(real & reduces, config.reductions - 1, layer - (layer != 0)))
    with m.If(core.r_valid & r.bad):
        m.d.comb += core.stop.eq(Trap.VMEM)
    with m.Elif(core.r_valid & r.outside_bad):
        m.d.comb += core.stop.eq(Trap.XMEM)
    out = ages[0]
    m.d.comb += [
        vmem.a_row.eq(queue.port_a),
        vmem.b_row.eq(r.b_row),
        out.valid.eq(real & r.vector),
        out.writes.eq(real & r.writes),
        out.row.eq(r.to),
        out.hold.eq(queue.read_old),
        out.pre.eq(Mux(queue.read_old, 0, r.pre)),
        out.weights.eq(real & r.weights),
        out.lda.eq(real & r.lda),
        out.indices.eq(real & r.indices),
        out.checked.eq(real & r.checked),
    ]
    if config.crossings > 1:
        m.d.comb += [out.part_crosses.eq(goes_on & (r.pre == 3)), out.cross.eq(queue.part)]
    if config.output_stationary:
        m.d.comb += [out.outer.eq(real & r.outer), out.preload.eq(real & r.preload)]
        m.d.comb += out.drain.eq(r.drain & ~queue.read_old)
    gated = {"valid", "writes", "row", "hold", "pre", "weights", "lda", "indices", "checked"}
    gated |= {"outer", "preload", "drain", "part_crosses", "cross"}
    m.d.comb += [out[name].eq(r[name]) for name in out.shape().members if name not in gated]
    core.port_b = [wants & ~kept for wants in queue.wants_b]
    m.d.comb += vmem.uses_b.eq(Cat(core.port_b))
