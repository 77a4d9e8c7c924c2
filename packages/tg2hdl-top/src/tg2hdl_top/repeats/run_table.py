"""Hardware of the table of runs: registers that hold the parameters of the current run."""

from __future__ import annotations

from collections.abc import Iterable

from amaranth import Module, Signal
from amaranth.hdl import Const, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tg2hdl_lower.component import Component
from tg2hdl_top.repeats.table import Column

__all__ = ["RunTable"]


class RunTable(Component):
    """Values of the present run.

    The row of the following run is read ahead, so that the values change in the cycle after `advance`, from registers.

    Parameters
    ----------
    runs : int

    Members
    -------
    following : In
        Number of the run that begins with the next `advance`.
    advance : In(1)
    """

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self._columns: list[tuple[list[int | None], Signal]] = []
        members: dict[str, wiring.Member] = {
            "following": In(max(1, (runs - 1).bit_length())),
            "advance": In(1),
        }
        super().__init__(members)

    def add(self, column: Column) -> Value:
        """Value of a column; columns that no run contradicts are one register."""
        known = {value for value in column if value is not None}
        width = max(1, max(known).bit_length())
        if len(known) == 1:
            return Const(known.pop(), width)
        for entries, signal in self._columns:
            if len(signal) == width and _agree(entries, column):
                entries[:] = [a if b is None else b for a, b in zip(entries, column, strict=True)]
                return signal
        signal = Signal(width, name=f"column{len(self._columns)}", reset_less=True)
        self._columns.append((list(column), signal))
        return signal

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        for entries, signal in self._columns:
            ahead = Signal(len(signal), name=f"{signal.name}_ahead", init=entries[0] or 0)
            with m.Switch(self.following):
                for run, value in enumerate(entries):
                    with m.Case(run):
                        m.d.sync += ahead.eq(value or 0)
            with m.If(self.advance):
                m.d.sync += signal.eq(ahead)
        return m


def _agree(a: Iterable[int | None], b: Iterable[int | None]) -> bool:
    return all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))
