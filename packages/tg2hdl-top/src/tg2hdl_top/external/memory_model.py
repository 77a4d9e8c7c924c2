"""A model of memory outside the chip, for the prediction of cycles and for simulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from tg2hdl_ir import InputError

__all__ = ["ExternalMemory", "MemoryModel"]

_PAGE = 4096
"""Boundary that no AXI burst crosses (bytes)."""


class ExternalMemory(ABC):
    """A memory outside the chip, as its port and the prediction see it; a frozen dataclass.

    Attributes
    ----------
    bits : int
        Width of a beat, a power of two from 8 on.
    clock : float, optional
        MHz at which the design must run, where its cycles are times of the memory.
    """

    bits: int
    clock: float | None = None

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.bits // 8

    @property
    @abstractmethod
    def alignment(self) -> int:
        """Alignment of the address of an image (bytes)."""

    @property
    @abstractmethod
    def beats_per_cycle(self) -> float:
        """Beats in a clock cycle that the memory delivers at most, refresh counted."""

    @property
    def capacity(self) -> int | None:
        """Bytes of the memory; None where they are not known."""
        return None

    def powered_up(self) -> Self:
        """The memory in which simulations of designs start; itself unless overridden."""
        return self


@dataclass(frozen=True)
class MemoryModel(ExternalMemory):
    """A memory behind a bus, and the port to it.

    Parameters
    ----------
    bits : int
        Width of the port; one beat a clock cycle at most.
    latency : int
        Cycles from the request of a burst to its first beat.
    cycles_per_beat : int
        Cycles from one beat to the next.
    refresh_every, refresh_cycles : int
        Every so many cycles, counted from `start`, no beat comes for so many cycles; never with ``refresh_cycles=0``.
    burst : int
        Beats of a request, a power of two.
    outstanding : int
        Requests that wait for their data at most.
    """

    bits: int = 32
    latency: int = 24
    cycles_per_beat: int = 1
    refresh_every: int = 780
    refresh_cycles: int = 12
    burst: int = 64
    outstanding: int = 4

    def __post_init__(self) -> None:
        if self.bits not in (8, 16, 32, 64, 128, 256, 512):
            raise InputError(f"a memory port of {self.bits} bits", hint="choose a power of two from 8 to 512")
        if self.burst not in (1, 2, 4, 8, 16, 32, 64, 128, 256) or self.burst * self.bits > 8 * _PAGE:
            raise InputError(
                f"bursts of {self.burst} beats of {self.bits} bits",
                hint=f"choose a power of two up to 256, of {_PAGE} bytes at most",
            )
        for name, least in (
            ("latency", 1),
            ("cycles_per_beat", 1),
            ("outstanding", 1),
            ("refresh_cycles", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} of a memory", hint=f"{least} or more")
        if self.refresh_cycles and self.refresh_every <= self.refresh_cycles:
            raise InputError(
                f"a memory that refreshes for {self.refresh_cycles} of {self.refresh_every} cycles",
                hint="refresh_every must be larger than refresh_cycles",
            )

    @property
    def alignment(self) -> int:
        """Bytes of a burst."""
        return self.burst * self.beat_bytes

    @property
    def beats_per_cycle(self) -> float:
        """Beats in a clock cycle that the memory delivers at most, refresh counted."""
        share = 1 - self.refresh_cycles / self.refresh_every if self.refresh_cycles else 1.0
        return share / self.cycles_per_beat

    def refreshes(self, cycle: int) -> bool:
        """Whether no beat may begin in a cycle."""
        return (
            self.refresh_cycles > 0 and cycle % self.refresh_every >= self.refresh_every - self.refresh_cycles
        )

    def after_refresh(self, cycle: int) -> int:
        """The first cycle from this one on in which a beat may come."""
        return (cycle // self.refresh_every + 1) * self.refresh_every if self.refreshes(cycle) else cycle
