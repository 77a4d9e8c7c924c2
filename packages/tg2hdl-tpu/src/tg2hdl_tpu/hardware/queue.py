"""Rows between preparation and issue, and their dependences (scoreboard)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.dma import Channel
from tg2hdl_tpu.hardware.flights import Flights, RowFlight, any_of
from tg2hdl_tpu.hardware.host import WordPort
from tg2hdl_tpu.hardware.prepare import with_checks, with_ends
from tg2hdl_tpu.hardware.records import prepared_layout

__all__ = ["RowQueue"]


class RowQueue:
    """Hands rows to the issue; with `Config.issue_registers` two cycles after it takes them.

    Each row is compared with all that are before it, in the queue and in the pipeline, once; the results move with the
    rows.  So the issue sees one bit of a register for all of them.  A place to spare lets the preparation go on
    without knowing whether the issue stalls.

    Parameters
    ----------
    row, ready : Value
        The row that is prepared, and whether it is one.
    held : Signal
        The row at the end stays: then all do.
    load, port, store : Channel, WordPort, Channel
        Rows that are still to be moved.

    Attributes
    ----------
    row, valid : Value
        At the end of the queue.
    steps : Value
        `row` is taken if there is one.
    indices : list of Value
        Rows of `index` that are in the queue.
    stays : Value
        The row at the end is not issued in this cycle, by all that does not depend on units of slower kinds.
    holds, waits_old : Value
        It still has to read its old destination; which is still to be written.
    read_old : Signal
        To be assigned: it does so.
    crosses : Value
        It is permuted, and another part of it is made before the last one.
    crossed : Signal
        To be assigned: that is done.
    part : Value
        The part of a permuted row that is made.
    kept : Value
        Its destination is still to be stored.
    port_a : Value
        The row that it reads through port A: its old destination, or its first operand.
    wants_b : list of Value
        For each half of the scratchpad, whether it reads a second operand there.
    """

    def __init__(
        self,
        m: Module,
        config: Config,
        flights: Flights,
        row: Any,
        ready: Any,
        held: Signal,
        *,
        load: Channel,
        port: WordPort,
        store: Channel,
    ) -> None:
        self.flights = flights
        self.incoming, self.store = _of_both(load, port), store
        self.read_old, self.crossed = Signal(), Signal()
        self.crosses: Any = Const(0, 1)
        if not config.issue_registers:
            self.row, self.valid, self.indices, self.steps = row, ready, [], ~held
            found = [self._of_place(row, place) for place in flights.places]
            was_read = Signal()
            m.d.sync += was_read.eq(self.read_old | (was_read & held))
            self.holds = row.reads_c & ~was_read
            self._take(any_of(found), self._covers(row))
            self.port_a = Mux(self.holds, row.to, row.a_row)
            self.wants_b: list[Any] = [ready & ~self.holds & self._second_in(row, n) for n in range(2)]
            self.stays = self._stays(row, self.holds, any_of(found), self._covers(row))
            if config.crossings > 1:
                parts = Signal(range(config.crossings), name="parts")
                m.d.sync += parts.eq(Mux(self.crossed, parts + 1, Mux(held, parts, 0)))
                permutes, final = _permutes(row), config.crossings - 1
                self.crosses, self.part = permutes & (parts != final), Mux(permutes, parts, final)
            return
        layout = prepared_layout(config)
        spare, first, second, self.row = [Signal(layout, name=f"row{n}", reset_less=True) for n in range(4)]
        self.valids = [Signal(name=f"row{n}_valid") for n in range(4)]
        spare_valid, first_valid, second_valid, self.valid = self.valids
        rows = (spare, first, second, self.row)
        self.indices = [v & r.indices for v, r in zip(self.valids, rows, strict=True)]
        self.incoming, self.store = _seen(m, self.incoming), _seen(m, store)
        # Behind a transfer, rows are compared with the new state of its channel, which is seen a cycle later.
        handed = Signal()
        m.d.sync += handed.eq(self.valid & self.row.transfer & ~held)
        behind = (second_valid & second.transfer) | (self.valid & self.row.transfer) | handed
        moves = ~held & ~behind
        self.steps = ~spare_valid
        with m.If(~spare_valid):
            m.d.sync += spare.eq(row)
        with m.If(moves | ~first_valid):
            m.d.sync += [first.eq(Mux(spare_valid, spare, row)), first_valid.eq(spare_valid | ready)]
            m.d.sync += spare_valid.eq(0)
        with m.Else():
            m.d.sync += spare_valid.eq(spare_valid | ready)
        with m.If(~held):
            m.d.sync += [
                second.eq(first),
                *with_ends(first, second),
                second.bad.eq(first.wrong.any()),
                self.row.eq(second),
                *with_checks(config, second, self.row),
                second_valid.eq(first_valid & ~behind),
                self.valid.eq(second_valid),
            ]
        ahead = [
            RowFlight(v & r.writes, r.to, r.mask, r.kind)
            for v, r in zip(self.valids[2:], rows[2:], strict=True)
        ]
        by_second, by_last, *mine = [self._of_place(first, place) for place in [*ahead, *flights.places]]
        # Results of the second row and of the last one, for places as they are now; and of the second for the last.
        width = len(mine[0])
        of_second, of_last = ([Signal(width, name=f"found{n}_{k}") for k in range(len(mine))] for n in (1, 2))
        last_of_second, waits = Signal(width, name="found_last"), Signal(width, name="waits")
        none = Const(0, width)
        moved = flights.following(of_second, last_of_second)
        kept = flights.following(of_last, none)
        waits_then = any_of(kept), any_of(moved)
        m.d.sync += waits.eq(Mux(held, *waits_then))
        for n, taken in enumerate(flights.following(mine, by_last)):
            m.d.sync += of_last[n].eq(Mux(held, kept[n], moved[n]))
            m.d.sync += of_second[n].eq(Mux(held, flights.following(of_second, none)[n], taken))
        with m.If(~held):
            m.d.sync += last_of_second.eq(by_second)
        covered = self._covers(first)
        states = [Signal.like(covered, name=f"covers{n}") for n in (1, 2)]
        rests = [state & ~self._passed(r) for state, r in zip(states, rows[2:], strict=True)]
        m.d.sync += [
            states[0].eq(Mux(held, rests[0], covered)),
            states[1].eq(Mux(held, rests[1], rests[0])),
        ]
        self._take(waits, states[1])
        self.holds, self.stays = Signal(name="holds_old"), Signal(name="stays")
        holds_then = self.holds & ~self.read_old, second.reads_c
        m.d.sync += self.holds.eq(Mux(held, *holds_then))
        # Known a cycle early, for the case that the row at the end stays and that it does not.
        cases = zip((self.row, second), holds_then, waits_then, rests[::-1], strict=True)
        m.d.sync += self.stays.eq(Mux(held, *(self._stays(*case) for case in cases)))

        if config.crossings > 1:
            final = config.crossings - 1
            self.crosses, self.part = Signal(name="crosses"), Signal(range(config.crossings), name="part")
            with m.If(~held):
                m.d.sync += [
                    self.crosses.eq(_permutes(second)),
                    self.part.eq(Mux(_permutes(second), 0, final)),
                ]
            with m.Elif(self.crossed):
                m.d.sync += [self.crosses.eq(self.part != final - 1), self.part.eq(self.part + 1)]

        # The addresses come from registers.
        self.port_a = Signal.like(self.row.to, name="port_a", reset_less=True)
        self.wants_b = [Signal(name=f"wants_b{n}") for n in range(2)]
        with m.If(~held | self.read_old):
            m.d.sync += self.port_a.eq(
                Mux(held, self.row.a_row, Mux(second.reads_c, second.to, second.a_row))
            )
            for n, wants in enumerate(self.wants_b):
                comes = second_valid & ~second.reads_c & self._second_in(second, n)
                m.d.sync += wants.eq(Mux(held, self._second_in(self.row, n), comes))

    @staticmethod
    def _second_in(row: Any, half: int) -> Any:
        return row.reads_b & (row.b_row[-1] == half)

    def clear(self) -> list[Any]:
        """Drop all rows."""
        flags = [*getattr(self, "valids", []), *(f for f in self.wants_b if isinstance(f, Signal))]
        return [flag.eq(0) for flag in flags]

    @property
    def any(self) -> Any:
        """Whether there is a row."""
        return any_of(getattr(self, "valids", [self.valid]))

    def _of_place(self, row: Any, place: RowFlight) -> Value:
        meets = place.there & (place.mask & row.straight).any()
        to = meets & (place.row == row.to)
        of_a = row.reads_a & Mux(row.a_whole, place.there, meets) & (place.row == row.a_row)
        of_b = row.reads_b & Mux(row.b_whole, place.there, meets) & (place.row == row.b_row)
        reads = of_a | of_b
        slower = [to & place.slower_than(row.kind)] if self.flights.slow else []
        return Cat(reads, to, *slower)

    def _covers(self, row: Any) -> Value:
        """Whether rows are still to come from either channel, which never both have some, or to be stored."""

        def covers(channel: Any, row: Any) -> Any:
            return channel.active & ~(row < channel.row) & ~(channel.last < row)

        incoming = [covers(self.incoming, r) for r in (row.a_row, row.b_row, row.to)]
        return Cat(
            incoming[0], row.reads_b & incoming[1], incoming[2], row.writes & covers(self.store, row.to)
        )

    def _passed(self, row: Any) -> Value:
        """Of each of `_covers`, whether that row moved in the last cycle."""

        def passed(channel: Any, row: Any) -> Any:
            return channel.moved & (channel.before == row)

        incoming = [passed(self.incoming, r) for r in (row.a_row, row.b_row, row.to)]
        return Cat(*incoming, passed(self.store, row.to))

    def _stays(self, row: Any, holds: Any, waits: Any, covers: Any) -> Value:
        to = covers[2:].any() | (waits[2] if self.flights.slow else 0)
        return row.transfer | row.bad | holds | waits[0] | covers[:2].any() | (row.writes & to)

    def _take(self, waits: Any, covers: Any) -> None:
        self.waits_old, self.kept = waits[1] | covers[2], covers[3]


def _permutes(row: Any) -> Any:
    """Whether all lanes of the crossbar's result are used; `lda` takes the first."""
    return row.vector & (row.pre == 3)


def _of_both(load: Channel, port: WordPort) -> Any:
    """Rows that come from either, which never both have some."""
    found = {name: Mux(load.active, getattr(load, name), getattr(port, name)) for name in ("row", "last")}
    return SimpleNamespace(
        active=load.active | port.active,
        moved=load.moved | port.moved,
        before=Mux(load.moved, load.before, port.before),
        **found,
    )


def _seen(m: Module, channel: Any) -> Any:
    """Registers with the state of a channel, for the issue."""
    seen = {}
    for name in ("active", "row", "last", "moved", "before"):
        value = Value.cast(getattr(channel, name))
        seen[name] = Signal(len(value), name=f"seen_{name}")
        m.d.sync += seen[name].eq(value)
    return SimpleNamespace(**seen)
