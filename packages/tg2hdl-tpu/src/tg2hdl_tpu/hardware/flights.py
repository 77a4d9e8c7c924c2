"""Rows between issue and write, and the instructions that wait for them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.records import row_bits, row_layout

__all__ = ["Flights", "RowFlight", "any_of"]


def any_of(values: list[Any]) -> Any:
    """Return the OR of values."""
    return reduce(or_, values, Const(0))


class RowFlight:
    """Where a row may be: whether it is there and writes, its row, its lanes, and its kind."""

    def __init__(self, there: Any, row: Any, mask: Any, kind: Any) -> None:
        self.there, self.row, self.mask, self.kind = there, row, mask, kind

    def holds(self, row: Any) -> Any:
        """Whether words of a row are here."""
        return self.there & (self.row == row)

    def slower_than(self, kind: Any) -> Any:
        """Whether the row here is of a slower kind than another."""
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
            self.places.append(RowFlight(there, row, mask, kind))
            self.pushed.append(pushed)
            self.ending.append(there & ~(self.leaves & tail[n]))
            rows.append(row & tail[n].replicate(len(row)))
            masks.append(mask & tail[n].replicate(config.lanes))
        self.row, self.mask = any_of(rows), any_of(masks)
        # With nothing that leaves now, the oldest is the next; one that enters now is not the next to leave.
        after = Mux(self.leaves, tail.rotate_left(1), tail)
        self.next_row = any_of(
            [place.row & after[n].replicate(len(place.row)) for n, place in enumerate(self.places)]
        )


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
        Later ages, for the other kinds that the machine has.
    """

    def __init__(self, m: Module, config: Config, age0: Any) -> None:
        self.config = config
        layout = row_layout(config)
        self.ages = [age0] + [Signal(layout, name=f"age{n}") for n in range(1, config.latency + 1)]
        for younger, older in zip(self.ages, self.ages[1:], strict=False):
            m.d.sync += older.eq(younger)
        parts = (config.float, config.functions or config.divide, config.matrix_is_float)
        kinds = [kind for kind, there in enumerate(parts, 1) if there]
        self.slow = [_Slow(m, config, kind, self.ages) for kind in kinds]
        ages = [RowFlight(age.writes, age.row, age.mask, age.kind) for age in self.ages]
        self.places = ages[1:] + [place for slow in self.slow for place in slow.places]
        last = self.ages[-1]
        self.final_there = last.writes & (last.kind == 0)
        # The lanes that are written, if any are.
        self.row, self.mask = last.row, last.mask
        for slow in self.slow:
            self.row = Mux(slow.leaves, slow.row, self.row)
            self.mask = Mux(slow.leaves, slow.mask, self.mask)
        self.writes = any_of([self.final_there, *(slow.leaves for slow in self.slow)])
        before = self.ages[-2]
        soon = [
            (before.writes & (before.kind == 0), before.row),
            *((slow.line[-2], slow.next_row) for slow in self.slow),
        ]
        #: Of each half of the scratchpad, whether a row is written in the next cycle.
        self.next_banks = [any_of([there & (row[-1] == bank) for there, row in soon]) for bank in range(2)]
        #: Of each half, whether a row is written in this cycle; from registers where no trap reaches the row.
        self.banks: list[Any] = [self.writes & (self.row[-1] == bank) for bank in range(2)]
        if config.latency > config.check + 1:
            self.banks = [Signal(name=f"writes_bank{bank}") for bank in range(2)]
            m.d.sync += Cat(self.banks).eq(Cat(self.next_banks))
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
                if latencies[mine] < slow.latency  # else the machine does not have it
            ]
        )

    def following(self, now: list[Any], issued: Any) -> list[Any]:
        """The value of each place in the next cycle; `issued` belongs to the row that is issued now.

        Parameters
        ----------
        now : list of Any
            Value of each place in this cycle: those of the ages, then those of each slow row.
        issued
            Value of the row that is issued.
        """
        count = len(self.ages) - 1
        ages, rest = now[:count], now[count:]
        found = [issued, *ages[:-1]]
        for slow in self.slow:
            mine, rest = rest[: len(slow.places)], rest[len(slow.places) :]
            found += [
                Mux(p, ages[-1], Mux(stays, v, 0))
                for p, stays, v in zip(slow.pushed, slow.ending, mine, strict=True)
            ]
        return found

    def hold(self, row: Any) -> Any:
        """Whether any place has words of a row of the scratchpad."""
        return any_of([place.holds(row) for place in self.places])
