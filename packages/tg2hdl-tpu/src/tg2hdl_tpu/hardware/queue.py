"""Rows between preparation and issue, and what they wait for."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.dma import Channel
from tg2hdl_tpu.hardware.flights import Flights, Place, any_of
from tg2hdl_tpu.hardware.host import HostPort
from tg2hdl_tpu.hardware.records import prepared_layout

__all__ = ["RowQueue"]


class RowQueue:
    """Hands rows to the issue; with `Config.issue_registers` two cycles after it takes them.

    Each row is compared with all that are before it, in the queue and in the pipeline, once; what was found moves as
    they move.  So the issue sees one bit of a register for all of them.

    Parameters
    ----------
    row, ready : Value
        The row that is prepared, and whether it is one.
    held : Signal
        The row at the end stays: then all do.
    load, port, store : Channel, HostPort, Channel
        Rows that are still to be moved.

    Attributes
    ----------
    row, valid : Value
        At the end of the queue.
    steps : Value
        `row` is taken if there is one.
    indices : list of Value
        Rows of `index` that are in the queue.
    reads, to, slower : Value
        What the row at the end reads is still to be written; its destination is; by a row of a slower kind.
    read_arrives, to_arrives, kept : Value
        What it reads is still to come, its destination is; or is still to be stored.
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
        port: HostPort,
        store: Channel,
    ) -> None:
        self.flights = flights
        self.channels = {
            "read": [(c, which) for which in ("a_row", "b_row") for c in (load, port)],
            "to": [(load, "to"), (port, "to")],
            "kept": [(store, "to")],
        }
        if not config.issue_registers:
            self.row, self.valid, self.indices, self.steps = row, ready, [], ~held
            found = [self._of_place(row, place) for place in flights.places]
            self._take(any_of(found), self._covers(row))
            return
        layout = prepared_layout(config)
        first, second, self.row = rows = [Signal(layout, name=f"row{n}", reset_less=True) for n in range(3)]
        self.valids = [Signal(name=f"row{n}_valid") for n in range(3)]
        self.valid = self.valids[2]
        self.indices = [v & r.indices for v, r in zip(self.valids, rows, strict=True)]
        # Behind a transfer, rows are compared with what its channel has then.
        behind = Signal(name="behind_transfer")
        transfers = [v & r.transfer for v, r in zip(self.valids, rows, strict=True)]
        m.d.comb += behind.eq(transfers[1] | transfers[2])
        self.steps = ~held & ~behind
        with m.If(self.steps):
            m.d.sync += [first.eq(row), self.valids[0].eq(ready)]
        with m.If(~held):
            m.d.sync += [
                second.eq(first),
                self.row.eq(second),
                Cat(self.valids[1:]).eq(Cat(self.valids[0] & ~behind, self.valids[1])),
            ]
        ahead = [
            Place(v & r.writes, r.to, r.mask, r.kind) for v, r in zip(self.valids[1:], rows[1:], strict=True)
        ]
        by_second, by_last, *mine = [self._of_place(first, place) for place in [*ahead, *flights.places]]
        # What the second row and the last one have found, of places as they are now; and the second of the last.
        width = len(mine[0])
        of_second, of_last = ([Signal(width, name=f"found{n}_{k}") for k in range(len(mine))] for n in (1, 2))
        last_of_second, waits = Signal(width, name="found_last"), Signal(width, name="waits")
        none = Const(0, width)
        moved = flights.following(of_second, last_of_second)
        kept = flights.following(of_last, none)
        m.d.sync += waits.eq(Mux(held, any_of(kept), any_of(moved)))
        for n, taken in enumerate(flights.following(mine, by_last)):
            m.d.sync += of_last[n].eq(Mux(held, kept[n], moved[n]))
            m.d.sync += of_second[n].eq(Mux(held, flights.following(of_second, none)[n], taken))
        with m.If(~held):
            m.d.sync += last_of_second.eq(by_second)
        covered = self._covers(first)
        states = [Signal.like(covered, name=f"covers{n}") for n in (1, 2)]
        rests = [state & ~self._passed(r) for state, r in zip(states, rows[1:], strict=True)]
        m.d.sync += [
            states[0].eq(Mux(held, rests[0], covered)),
            states[1].eq(Mux(held, rests[1], rests[0])),
        ]
        self._take(waits, states[1])

    def clear(self) -> list[Any]:
        """Drop all rows."""
        return [valid.eq(0) for valid in getattr(self, "valids", [])]

    @property
    def any(self) -> Any:
        """Whether there is a row."""
        return any_of(getattr(self, "valids", [self.valid]))

    def _of_place(self, row: Any, place: Place) -> Value:
        to = place.holds(row.to, row.straight)
        reads = place.holds(row.a_row, row.a_mask) | (row.reads_b & place.holds(row.b_row, row.b_mask))
        slower = [to & place.slower_than(row.kind)] if self.flights.slow else []
        return Cat(reads, to, *slower)

    def _covers(self, row: Any) -> Value:
        """Of each channel, whether a row is still to be moved."""
        return Cat(
            channel.active
            & (row[which] >= channel.row)
            & (row[which] <= channel.last)
            & (row.reads_b if which == "b_row" else 1)
            for group in self.channels.values()
            for channel, which in group
        )

    def _passed(self, row: Any) -> Value:
        """Of each channel, whether it moved a row in the last cycle."""
        return Cat(
            channel.moved & (channel.before == row[which])
            for group in self.channels.values()
            for channel, which in group
        )

    def _take(self, waits: Any, covers: Any) -> None:
        self.reads, self.to = waits[0], waits[1]
        self.slower = waits[2] if self.flights.slow else Const(0)
        self.read_arrives = covers[:4].any()
        self.to_arrives = covers[4:6].any()
        self.kept = covers[6]
