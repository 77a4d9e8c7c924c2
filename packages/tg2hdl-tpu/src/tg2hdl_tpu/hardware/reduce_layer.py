"""A reduction over lanes by one layer of pairs, which each row passes once for each level."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tg2hdl_tpu.hardware.pairs import Pair, pair_controls

__all__ = ["one_layer"]


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
    stages = [Pair(f"layer_stage_{n}") for n in range(number // 2)]
    outputs = [word for stage in stages for word in (stage.low(), stage.high())]
    # The word at place p was made at the place whose number has the bits of p, moved up by one.
    back = [outputs[(p << 1 | p >> (count - 1)) % number] for p in range(number)]
    for n, stage in enumerate(stages):
        x, y = (Signal(32, name=f"layer_word_{p}") for p in (2 * n, 2 * n + 1))
        m.d.comb += [
            x.eq(Mux(enters, rows[2 * n], back[2 * n])),
            y.eq(Mux(enters, rows[2 * n + 1], back[2 * n + 1])),
        ]
        pair = Pair(f"layer_{n}")
        m.d.comb += pair.combine(x, y, on, alone=1)
        stage.take(m, pair, on)
    return back
