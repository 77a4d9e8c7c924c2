"""The chip as its data sheet describes it: checks each command, and raises where a rule is broken."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from tg2hdl_top.external.sdram.controller import ACTIVATE, MODE, PRECHARGE, READ, REFRESH, WRITE
from tg2hdl_top.external.sdram.model import BURST, SdramModel

__all__ = ["RuleError", "SdramRules"]

_NAMES = {
    **{ACTIVATE: "activate", READ: "read", WRITE: "write"},
    **{PRECHARGE: "precharge", REFRESH: "refresh", MODE: "mode"},
}
_NEVER = -math.inf


class RuleError(AssertionError):
    """A command that the chip does not allow."""


@dataclass
class _Bank:
    row: int | None = None
    activated: float = _NEVER
    precharged: float = _NEVER
    """Cycle in which the bank began, or will begin, to close."""
    closes: bool = False
    """Whether it closes by itself then."""
    busy: float = _NEVER
    """First cycle in which it may be precharged after reads and writes."""


@dataclass
class SdramRules:
    """A chip behind its pins; one call of `step` for each clock edge.

    Parameters
    ----------
    model : SdramModel
    contents : dict of int to int
        Words by their number.
    """

    model: SdramModel
    contents: dict[int, int] = field(default_factory=dict)
    reads: int = 0
    refreshes: int = 0

    def __post_init__(self) -> None:
        self.now = 0
        unknown = None if self.model.initialized else -1
        self.banks = [_Bank(unknown) for _ in range(4)]
        self.mode = self._wanted_mode() if self.model.initialized else None
        self.ready = 0 if self.model.initialized else self._cycles("power_up")
        self.waits_for = "power_up"
        self.refreshed = 0
        self.opened: float = _NEVER
        self.read_ends: float = _NEVER
        self.output: dict[int, int] = {}
        self._commands = {
            **{ACTIVATE: self._activate, READ: self._read, WRITE: self._write},
            **{PRECHARGE: self._precharge, REFRESH: self._refresh, MODE: self._mode},
        }

    def _cycles(self, name: str) -> int:
        return self.model.cycles(getattr(self.model, name))

    def _wanted_mode(self) -> int:
        return 1 << 9 | self.model.cas_latency << 4 | 0b011

    def data(self) -> int:
        """The word that the chip drives in this cycle: noise where it drives nothing."""
        return self.output.pop(self.now, random.Random(self.now).getrandbits(self.model.bits))

    def step(self, code: int, bank: int, address: int, written: int | None = None) -> None:
        """Take the pins at the end of this cycle: ``ras_n cas_n we_n``, address, and the word that is driven, if any.

        Parameters
        ----------
        code : int
            Command, 3 bits.
        bank : int
            Of the command.
        address : int
            Row, column or mode, as the command says.
        written : int, optional
            Word on the data pins.

        Raises
        ------
        RuleError
        """
        if code != 0b111:
            if code not in _NAMES:
                raise self._broken(f"command {code:03b} is unknown")
            self._after(self.ready, self.waits_for, code)
            self._commands[code](bank, address, written)
        if written is not None and any(cycle >= self.now for cycle in self.output):
            raise self._broken("data while the chip drives the data pins")
        if self.mode is not None and self.now - self.refreshed > self.model.refresh * self.model.clock / 1000:
            raise self._broken(f"the latest refresh was in cycle {self.refreshed}")
        self.now += 1

    def _broken(self, text: str) -> RuleError:
        return RuleError(f"cycle {self.now}: {text}")

    def _after(self, cycle: float, rule: str, code: int) -> None:
        if self.now < cycle:
            raise self._broken(f"{rule} is violated: {_NAMES[code]} is allowed from cycle {cycle} on")

    def _blocks(self, name: str) -> None:
        self.ready, self.waits_for = self.now + self._cycles(name), name

    def _settle(self, bank: _Bank) -> None:
        """Close a bank whose automatic precharge has begun."""
        if bank.closes and self.now >= bank.precharged:
            bank.row, bank.closes = None, False

    def _idle(self, bank: _Bank, code: int) -> None:
        self._settle(bank)
        if bank.row is not None:
            raise self._broken(f"{_NAMES[code]} while a row is open")
        self._after(bank.precharged + self._cycles("t_rp"), "t_rp", code)

    def _activate(self, number: int, address: int, written: int | None) -> None:
        bank = self.banks[number]
        if self.mode is None:
            raise self._broken("activate before the mode is set")
        self._idle(bank, ACTIVATE)
        self._after(bank.activated + self._cycles("t_rc"), "t_rc", ACTIVATE)
        self._after(self.opened + self._cycles("t_rrd"), "t_rrd", ACTIVATE)
        bank.row, bank.activated, self.opened = address, self.now, self.now

    def _access(self, number: int, address: int, code: int) -> tuple[_Bank, int]:
        bank = self.banks[number]
        self._settle(bank)
        if bank.row is None or bank.closes:
            raise self._broken(f"{_NAMES[code]} of a bank that is closed")
        self._after(bank.activated + self._cycles("t_rcd"), "t_rcd", code)
        self._after(self.read_ends, "a burst", code)
        word = ((bank.row * 4 + number) * self.model.columns) + address % self.model.columns
        return bank, word

    def _ends(self, bank: _Bank, cycle: int, address: int) -> None:
        bank.busy = max(cycle, bank.activated + self._cycles("t_ras"))
        if address >> 10 & 1:
            bank.precharged, bank.closes = bank.busy, True

    def _read(self, number: int, address: int, written: int | None) -> None:
        bank, word = self._access(number, address, READ)
        for n in range(BURST):
            place = word - word % BURST + (word + n) % BURST
            self.output[self.now + self.model.cas_latency + n] = self.contents.get(place, 0)
        self.read_ends = self.now + BURST
        self.reads += 1
        self._ends(bank, self.read_ends, address)

    def _write(self, number: int, address: int, written: int | None) -> None:
        bank, word = self._access(number, address, WRITE)
        if written is None:
            raise self._broken("a write without data")
        self.contents[word] = written
        self._ends(bank, self.now + self._cycles("t_wr"), address)

    def _precharge(self, number: int, address: int, written: int | None) -> None:
        for bank in self.banks if address >> 10 & 1 else [self.banks[number]]:
            self._settle(bank)
            if bank.row is not None:
                self._after(bank.activated + self._cycles("t_ras"), "t_ras", PRECHARGE)
                self._after(bank.busy, "t_wr or a burst", PRECHARGE)
                bank.row, bank.closes, bank.precharged = None, False, self.now

    def _refresh(self, number: int, address: int, written: int | None) -> None:
        for bank in self.banks:
            self._idle(bank, REFRESH)
            self._after(bank.activated + self._cycles("t_rc"), "t_rc", REFRESH)
        self._blocks("t_rfc")
        self.refreshed = self.now
        self.refreshes += 1

    def _mode_set(self, address: int) -> None:
        if self.refreshes < 8:
            raise self._broken(f"the mode is set after {self.refreshes} refreshes, not 8")
        if address != self._wanted_mode():
            raise self._broken(f"mode {address:013b}, expected {self._wanted_mode():013b}")

    def _mode(self, number: int, address: int, written: int | None) -> None:
        for bank in self.banks:
            self._idle(bank, MODE)
        self._mode_set(address)
        self.mode = address
        self._blocks("t_mrd")
