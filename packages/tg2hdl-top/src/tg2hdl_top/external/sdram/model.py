"""Data of an SDRAM chip, and the clock it runs at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from tg2hdl_ir import InputError
from tg2hdl_top.external.memory_model import ExternalMemory

__all__ = ["BURST", "SdramModel"]

BURST = 8
"""Words that a read command gives."""
QUEUE = 4 * BURST
"""Words that the controller has places for."""


@dataclass(frozen=True)
class SdramModel(ExternalMemory):
    """An SDR SDRAM with four banks.

    Times are those of the 143 MHz grade of 256 Mbit chips of several vendors (IS42S16160G-7, AS4C16M16SA-7), the slower
    where they differ.  A page is a row of one bank; pages that follow each other are in different banks.

    Parameters
    ----------
    clock : float
        Of controller and chip (MHz).
    bits : int
        Width of the data.
    rows, columns : int
        Of each bank; powers of two.
    cas_latency : int
        Cycles from a read command to its first word, 2 or 3.
    t_rcd, t_rp, t_rc, t_ras, t_rfc, t_rrd, t_wr, t_mrd : float
        Least times (ns): activate to read, precharge to activate, activate to activate in a bank, activate to
        precharge, refresh to any command, activate to activate in another bank, write to precharge, mode register to
        any command.
    refresh : float
        Longest time between refreshes (ns): 64 ms for 8,192 rows.
    power_up : float
        Time before the first command (ns).
    initialized : bool
        Whether the chip is powered up and initialized, as simulations of designs assume.
    """

    clock: float = 100.0
    bits: int = 16
    rows: int = 8192
    columns: int = 512
    cas_latency: int = 3
    t_rcd: float = 21.0
    t_rp: float = 21.0
    t_rc: float = 63.0
    t_ras: float = 42.0
    t_rfc: float = 63.0
    t_rrd: float = 14.0
    t_wr: float = 14.0
    t_mrd: float = 14.0
    refresh: float = 7812.5
    power_up: float = 200_000.0
    initialized: bool = False

    def __post_init__(self) -> None:
        if self.bits not in (8, 16, 32):
            raise InputError(f"an SDRAM of {self.bits} bits", hint="chips have 8, 16 or 32")
        most = {2: 100.0, 3: 143.0}.get(self.cas_latency)
        if most is None or not 0 < self.clock <= most:
            raise InputError(
                f"an SDRAM at {self.clock} MHz with cas_latency={self.cas_latency}",
                hint="cas_latency=2 goes up to 100 MHz, cas_latency=3 up to 143 MHz",
            )
        if self.columns.bit_count() != 1 or self.rows.bit_count() != 1 or not 64 <= self.columns <= 1024:
            raise InputError(
                f"an SDRAM of {self.rows} rows and {self.columns} columns",
                hint="give powers of two, and 64 to 1,024 columns",
            )
        if self.refresh_interval < 4 * self.settle:
            raise InputError(
                f"refresh={self.refresh} ns at {self.clock} MHz",
                hint="there is no time left between refreshes",
            )

    def cycles(self, time: float) -> int:
        """Clock cycles that a time (ns) takes at least."""
        return math.ceil(round(time * self.clock / 1000, 6))

    @property
    def page_bytes(self) -> int:
        """Bytes of a row."""
        return self.columns * self.beat_bytes

    @property
    def alignment(self) -> int:
        """Bytes of a page: an image begins with one."""
        return self.page_bytes

    @property
    def capacity(self) -> int:
        """Bytes of the chip."""
        return 4 * self.rows * self.page_bytes

    @property
    def reopen(self) -> int:
        """Cycles that a refresh takes from the words: precharge, refresh, activate."""
        return sum(map(self.cycles, (self.t_rp, self.t_rfc, self.t_rcd)))

    @property
    def write_cycles(self) -> int:
        """Cycles from the command that writes a word to the next activate."""
        active = self.cycles(self.t_ras) - self.cycles(self.t_rcd)
        closed = 1 + max(self.cycles(self.t_wr), active) + self.cycles(self.t_rp)
        return max(closed, self.cycles(self.t_rc) - self.cycles(self.t_rcd))

    @property
    def settle(self) -> int:
        """Cycles after `start` until the controller is idle, so that every run begins in the same state."""
        return max(self.cycles(self.t_rfc), self.cycles(self.t_rcd) + self.write_cycles) + 1

    @property
    def refresh_interval(self) -> int:
        """Cycles from one refresh to the next; a refresh waits for the access that is under way."""
        return int(self.refresh * self.clock / 1000) - self.settle - BURST - self.reopen

    @property
    def beats_per_cycle(self) -> float:
        """Words in a clock cycle, refresh counted."""
        return 1 - self.reopen / self.refresh_interval

    def powered_up(self) -> Self:
        """The chip after its initialization."""
        return replace(self, initialized=True)
