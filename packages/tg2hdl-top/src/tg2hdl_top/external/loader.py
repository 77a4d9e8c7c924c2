"""Writes the beats of a memory port into the memories on the chip, tile by tile, and says which runs may start."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import Component, MemoryArray
from tg2hdl_top.external.plan import ExternalPlan
from tg2hdl_top.repeats.table import RunTable

__all__ = ["TileLoader"]


class TileLoader(Component):
    """Loads the tiles of a plan once in each run of the design.

    Parameters
    ----------
    plan : ExternalPlan
    arrays : sequence of MemoryArray
        Memories on the chip, by the names in the plan.
    runs : int
        Kernel calls.

    Members
    -------
    start : In(1)
        A run of the design begins.
    kernel_done : In(1)
        A kernel call is done.
    advance : In(1)
        A kernel call begins; the following one is number `following` a cycle later.
    following : In
    may_start : Out(1)
        The tiles of the following call have arrived.
    valid, data : In
        A beat; `ready` says that it is taken.
    arrays : Out(Signature)
        Words for each memory by its name: `wen`, `waddr`, `wdata`.
    """

    def __init__(self, plan: ExternalPlan, arrays: Sequence[MemoryArray], runs: int) -> None:
        self.plan = plan
        self.runs = runs
        used = dict.fromkeys(tile.array for tile in plan.tiles)
        self._arrays = [next(a for a in arrays if a.memory.name == name) for name in used]
        ports = {
            array.memory.name: Out(
                wiring.Signature(
                    {
                        "wen": Out(1),
                        "waddr": Out(array.memory.layout.address_width),
                        "wdata": Out(array.memory.word_width),
                    }
                )
            )
            for array in self._arrays
        }
        super().__init__(
            {
                "start": In(1),
                "kernel_done": In(1),
                "advance": In(1),
                "following": In(max(1, (runs - 1).bit_length())),
                "may_start": Out(1, init=int(plan.needed(runs)[0] == 0)),
                "valid": In(1),
                "data": In(plan.model.bits),
                "ready": Out(1),
                "arrays": Out(wiring.Signature(ports)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, plan, tiles = Module(), self.plan, self.plan.tiles
        count = len(tiles)
        m.submodules.tiles = table = RunTable(count)
        names = [array.memory.name for array in self._arrays]
        array = table.add(tuple(names.index(tile.array) for tile in tiles))
        region = table.add(tuple(tile.region for tile in tiles))
        words = table.add(tuple(tile.words - 1 for tile in tiles))
        beats = table.add(tuple(tile.beats - 1 for tile in tiles))
        after = table.add(tuple(tile.after for tile in tiles))

        ended = Signal(range(self.runs + 1))
        last_done = self.kernel_done & (ended == self.runs - 1)
        with m.If(self.kernel_done):
            m.d.sync += ended.eq(ended + 1)
        with m.If(last_done):
            m.d.sync += ended.eq(0)

        following = Signal(range(count))
        m.d.comb += table.following.eq(following)
        with m.If(table.advance):
            m.d.sync += following.eq(0 if count == 1 else following + 1)
            with m.If(following == count - 1):
                m.d.sync += following.eq(0)

        widest = max(tile.beats for tile in tiles)
        shift = Signal(widest * plan.model.bits, reset_less=True)
        beat, word = Signal(range(widest)), Signal(range(max(tile.words for tile in tiles)))
        taken = self.valid & self.ready
        word_ends, tile_ends = Signal(), Signal()
        m.d.comb += [
            word_ends.eq(taken & (beat == beats)),
            tile_ends.eq(word_ends & (word == words)),
        ]
        with m.If(taken):
            m.d.sync += [shift.eq(Cat(shift, self.data)[plan.model.bits :]), beat.eq(beat + 1)]
        with m.If(word_ends):
            m.d.sync += [beat.eq(0), word.eq(word + 1)]
        with m.If(tile_ends):
            m.d.sync += word.eq(0)
        self._write(m, shift, word_ends, array, region, word)

        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.comb += table.advance.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"), m.If(ended >= after):
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.ready.eq(1)
                with m.If(tile_ends):
                    # After the last tile its row is that of the first one.
                    with m.If(following == 0):
                        m.next = "IDLE"
                    with m.Else():
                        m.d.comb += table.advance.eq(1)
                        m.next = "CHECK"

        arrived, loaded, needed = Signal(), Signal(range(count + 1)), Signal(range(count + 1))
        needs, recent = plan.needed(self.runs), Signal()
        m.d.sync += [arrived.eq(tile_ends), recent.eq(self.advance)]
        with m.If(arrived):
            m.d.sync += loaded.eq(loaded + 1)
        with m.Switch(self.following):
            for run, number in enumerate(needs):
                with m.Case(run):
                    m.d.sync += needed.eq(number)
        m.d.sync += self.may_start.eq(~self.advance & ~recent & (loaded >= needed))
        with m.If(last_done):
            m.d.sync += [loaded.eq(0), self.may_start.eq(needs[0] == 0)]
        return m

    def _write(
        self, m: Module, shift: Signal, enable: Signal, array: Value, region: Value, word: Signal
    ) -> None:
        """Give each memory its words: the latest beats are those of the word."""
        beat_bits = self.plan.model.bits
        beats = {tile.array: tile.beats for tile in self.plan.tiles}
        for number, each in enumerate(self._arrays):
            port = getattr(self.arrays, each.memory.name)
            low = (each.stride - 1).bit_length()
            first = len(shift) - beats[each.memory.name] * beat_bits
            m.d.sync += [
                port.wen.eq(enable & (array == number)),
                port.waddr.eq(Cat(word[:low], region)),
            ]
            m.d.comb += port.wdata.eq(shift[first:])
