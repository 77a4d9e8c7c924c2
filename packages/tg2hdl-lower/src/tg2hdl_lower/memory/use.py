"""The use of a memory, known before its kind is chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower.memory.layout import Layout

__all__ = ["MemoryRole", "MemoryUse", "region_words", "ring_words"]


@dataclass(frozen=True)
class MemoryRole:
    """Who reads and writes a buffer.

    Parameters
    ----------
    written : bool
        By a kernel.
    in_place : bool
        One kernel reads and writes it.
    host_writes, host_reads : bool
        Through the host ports, while no kernel runs.
    regions : int
        Buffers of one layout in an array; a run uses one of them. 1 for a separate memory.
    is_weight : bool
        The host writes it before runs, not for each of them.
    is_state : bool
        Runs continue from its contents; the host may replace them between runs.
    streamed : bool
        Its words arrive from memory outside the chip, while kernels run that do not use it.
    spans : tuple of (int, int)
        Elements, from one up to another, which the memory must hold at the same time; none where it holds all.
    """

    written: bool = True
    in_place: bool = True
    host_writes: bool = True
    host_reads: bool = True
    regions: int = 1
    is_weight: bool = False
    is_state: bool = False
    streamed: bool = False
    spans: tuple[tuple[int, int], ...] = field(default=(), metadata=OPTIONAL)

    @property
    def is_rom(self) -> bool:
        """Whether only kernels read it and nothing writes it."""
        return not (self.written or self.host_writes or self.host_reads or self.streamed)


def region_words(layout: Layout) -> int:
    """Words from one region of an array to the next: a power of two, so that the region's number is address bits."""
    return int(1 << (layout.words - 1).bit_length())


@lru_cache(4096)
def ring_words(layout: Layout, spans: tuple[tuple[int, int], ...]) -> int:
    """Least power of two of words in which elements of each span have places of their own; 0 where all words take less.

    Parameters
    ----------
    layout : Layout
    spans : tuple of (int, int)
        As of `MemoryRole`.
    """
    most = 1
    for first, end in spans:
        words, _ = layout.place(np.arange(first, end, dtype=np.int64))
        most = max(most, int(words.max() - words.min()) + 1)
    ring = 1 << (most - 1).bit_length()
    return ring if spans and ring < layout.words else 0


@dataclass(frozen=True)
class MemoryUse:
    """Size and role of a memory.

    Parameters
    ----------
    words : int
    width : int
        Bits of a word.
    latency : int
        Cycles from an address to its word that the design requires.
    lane : int
        Bits of a lane with a write enable of its own; 0 where all lanes of a word are written at once.
    turns : bool
        Whether the write port also reads, since nothing reads at one of the read ports while something writes.
    """

    words: int
    width: int
    role: MemoryRole
    latency: int
    lane: int = 0
    turns: bool = False

    @classmethod
    def of(cls, layout: Layout, element_bits: int, role: MemoryRole, latency: int) -> MemoryUse:
        """Use of a buffer with a layout.

        Parameters
        ----------
        layout : Layout
        element_bits : int
            Bits of an element as stored.
        role : MemoryRole
        latency : int
            Cycles from an address to its word.
        """
        words = ring_words(layout, role.spans) or layout.words
        if role.regions > 1 and words > 1:
            # A region of one word is constant during a run, whatever the others are.
            words = role.regions * region_words(layout)
        return cls(words, layout.lanes * element_bits, role, latency)

    @property
    def bits(self) -> int:
        """Bits of the whole memory."""
        return self.words * self.width
