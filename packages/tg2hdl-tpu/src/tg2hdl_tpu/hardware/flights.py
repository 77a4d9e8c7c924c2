"""Rows between issue and write, and who has to wait for them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.records import row_bits, row_layout

__all__ = ["Flights", "Match", "any_of"]


def any_of(values: list[Any]) -> Any:
    """Return the OR of values."""
    return reduce(or_, values, Const(0))


class _Place:
    """Where a row may be: whether it is there, its row, its lanes, and whether it is of a kind slower than another."""

    def __init__(self, there: Any, row: Any, mask: Any, kind: Any) -> None:
        self.there, self.row, self.mask, self.kind = there, row, mask, kind

    def slower_than(self, kind: Any) -> Any:
        return (self.kind > kind) if not isinstance(self.kind, int) else Const(self.kind, 2) > kind


class _Slow:
    """Rows of a kind that takes longer than integers, from the age at which an integer would be written.

    They enter and leave in order, so that a bit that moves with each of them says when.
    """

    def __init__(self, m: Module, config: Config, kind: int, ages: list[Any]) -> None:
        self.kind, self.latency = kind, config.latencies[kind]
        after = self.latency - config.latency
        count = -(-after // config.interval(kind)) + 1
        self.enters = ages[-1].writes & (ages[-1].kind == kind)
        self.line: list[Any] = [age.writes & (age.kind == kind) for age in ages]
        for n in range(after):
            bit = Signal(name=f"slow{kind}_{n}")
            m.d.sync += bit.eq(self.line[-1])
            self.line.append(bit)
        self.leaves = self.line[-1]
        head, tail = (Signal(count, init=1, name=f"{name}{kind}") for name in ("head", "tail"))
        with m.If(self.enters):
            m.d.sync += head.eq(head.rotate_left(1))
        with m.If(self.leaves):
            m.d.sync += tail.eq(tail.rotate_left(1))
        self.places, self.pushed, self.ending = [], [], []
        rows, masks = [], []
        for n in range(count):
            there = Signal(name=f"there{kind}_{n}")
            row = Signal(row_bits(config), name=f"row{kind}_{n}", reset_less=True)
            mask = Signal(config.lanes, name=f"mask{kind}_{n}", reset_less=True)
            pushed = self.enters & head[n]
            with m.If(self.leaves & tail[n]):
                m.d.sync += there.eq(0)
            with m.If(pushed):
                m.d.sync += [there.eq(1), row.eq(ages[-1].row), mask.eq(ages[-1].mask)]
            self.places.append(_Place(there, row, mask, kind))
            self.pushed.append(pushed)
            self.ending.append(there & ~(self.leaves & tail[n]))
            rows.append(row & tail[n].replicate(len(row)))
            masks.append(mask & tail[n].replicate(config.lanes))
        self.row, self.mask = any_of(rows), any_of(masks)


class Flights:
    """All rows in flight.

    Parameters
    ----------
    age0 : Signal
        The row that is issued in this cycle, of `row_layout`.

    Attributes
    ----------
    ages : list of Signal
        A row by the cycles since its issue; rows of all kinds, until integers are written.
    slow : list
        What comes after it for the other kinds that the machine has.
    """

    def __init__(self, m: Module, config: Config, age0: Any) -> None:
        self.config = config
        layout = row_layout(config)
        self.ages = [age0] + [Signal(layout, name=f"age{n}") for n in range(1, config.latency + 1)]
        for younger, older in zip(self.ages, self.ages[1:], strict=False):
            m.d.sync += older.eq(younger)
        kinds = [kind for kind, there in ((1, config.float), (2, config.functions or config.divide)) if there]
        self.slow = [_Slow(m, config, kind, self.ages) for kind in kinds]
        ages = [_Place(age.writes, age.row, age.mask, age.kind) for age in self.ages]
        self.places = ages[1:] + [place for slow in self.slow for place in slow.places]
        #: For each place: where its row is in the cycle before.
        self.before = ages[:-1]
        last = self.ages[-1]
        self.final_there = last.writes & (last.kind == 0)
        self.row, self.mask = last.row, last.mask & self.final_there.replicate(config.lanes)
        for slow in self.slow:
            self.row = Mux(slow.leaves, slow.row, self.row)
            self.mask = Mux(slow.leaves, slow.mask, self.mask)
        self.writes = any_of([self.final_there, *(slow.leaves for slow in self.slow)])
        #: Rows that are not written at the end of this cycle.
        self.remain = any_of(
            [age.writes for age in self.ages[1:-1]]
            + [slow.enters for slow in self.slow]
            + [ending for slow in self.slow for ending in slow.ending]
        )

    def port_taken(self, kind: Any) -> Any:
        """Whether a row of a slower kind is written when one of this kind that is issued now would be."""
        latencies = self.config.latencies
        return any_of(
            [
                (kind == mine) & slow.line[slow.latency - latencies[mine]]
                for slow in self.slow
                for mine in range(slow.kind)
            ]
        )

    def shifted(self, now: list[Any], issued: Any) -> list[Any]:
        """Move what is known of each place to where its row is in the next cycle; `issued` of the one issued now."""
        count = len(self.before)
        ages, rest = now[:count], now[count:]
        following = [issued, *ages[:-1]]
        for slow in self.slow:
            mine, rest = rest[: len(slow.places)], rest[len(slow.places) :]
            following += [Mux(p, ages[-1], v) for p, v in zip(slow.pushed, mine, strict=True)]
        return following


class Match:
    """Which places hold words of a row.

    Parameters
    ----------
    flights : Flights
    row, mask : Value
        Row and lanes; no mask means all lanes.
    registered : bool
        Compare a cycle early: `row` and `mask` are those of the next cycle.
    held : Value, optional
        With `registered`: the row of the next cycle is that of this one, whatever `row` says.
    """

    def __init__(
        self,
        m: Module,
        flights: Flights,
        row: Any,
        mask: Any = None,
        *,
        name: str,
        registered: bool = False,
        held: Any = None,
    ) -> None:
        self.flights = flights

        def compare(place: _Place) -> Any:
            same = place.row == row
            return same if mask is None else same & (place.mask & mask).any()

        theirs = [place.there for place in flights.places]
        found = [compare(place) for place in flights.places]
        if registered:
            # Of all but the row that is issued now and those that wait, it is known that they are there.
            count = len(flights.before)
            found = [f & there for f, there in zip(found[:count], theirs, strict=False)] + found[count:]
            following = flights.shifted(found, compare(flights.before[0]))
            found = [Signal(name=f"{name}_{n}") for n in range(len(found))]
            if held is not None:
                kept = flights.shifted([found[0] & theirs[0], *found[1:]], Const(0))
                following = [Mux(held, k, f) for k, f in zip(kept, following, strict=True)]
            m.d.sync += [s.eq(f) for s, f in zip(found, following, strict=True)]
            theirs[1:count] = [Const(1)] * (count - 1)
        self.found: list[Any] = found
        self._waits = any_of([f & there for f, there in zip(found, theirs, strict=True)])

    def waits(self) -> Any:
        """Whether one of them is in flight."""
        return self._waits

    def waits_for_slower(self, kind: Any) -> Any:
        """Whether one of them, of a slower kind, is in flight."""
        if not self.flights.slow:
            return Const(0)
        pairs = zip(self.found, self.flights.places, strict=True)
        return any_of([f & place.there & place.slower_than(kind) for f, place in pairs])
