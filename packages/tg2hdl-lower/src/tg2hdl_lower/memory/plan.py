"""A memory of a design, as planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from amaranth import unsigned
from amaranth.lib.memory import MemoryData

from tg2hdl_ir import Area, DType
from tg2hdl_lower.memory.blocks import Piece
from tg2hdl_lower.memory.layout import Layout, joined_lanes
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse

__all__ = ["ArrayStyle", "MemoryPlan", "Slot"]

Slot = tuple[int, int]
"""Kernel of a design, and buffer of that kernel."""


@dataclass(frozen=True)
class ArrayStyle:
    """How an array of words is written down.

    Parameters
    ----------
    ram_style : str
        Attribute of that name; empty leaves it to synthesis.
    address_register : bool
        The first cycle of the read latency is a register at the address, and the array is read combinationally.
    """

    ram_style: str = ""
    address_register: bool = False

    def __str__(self) -> str:
        register = ", address registers" if self.address_register else ""
        return f"ram_style {self.ram_style or 'left to synthesis'}{register}"


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """A memory of a design.

    Parameters
    ----------
    name : str
        Of the buffer.
    dtype : DType
        Of the elements in the memory.
    layout : Layout
        Which elements a word holds.
    kind : str
        Name of its `MemoryKind`.
    slots : tuple of (kernel, buffer)
        Who uses it.
    role : MemoryRole
    ports : tuple of int
        Numbers of its read ports; the host reads through port 0.
    read_latency : int
        Cycles from an address to its word.
    pieces : tuple of Piece
        Arrays that it is built of.
    area : Area
    style : ArrayStyle
    contents : ndarray, optional
        Elements at power on, in order.
    banks : int
        Copies of all words for runs that overlap; a power of two.
    ring : int
        Words that it holds at a time, a power of two, which the words of the buffer take in turn; 0 for all of them.
    routes : tuple of (slot, int, int)
        Read ports of kernels that are not the memory's port of the same number: slot, its port, and that of the memory.
    """

    name: str
    dtype: DType
    layout: Layout
    kind: str
    slots: tuple[Slot, ...]
    role: MemoryRole
    ports: tuple[int, ...]
    read_latency: int
    pieces: tuple[Piece, ...]
    area: Area
    style: ArrayStyle
    contents: npt.NDArray[Any] | None = None
    routes: tuple[tuple[Slot, int, int], ...] = ()
    banks: int = 1
    ring: int = 0

    def port_of(self, slot: Slot, port: int) -> int:
        """Read port that serves a kernel's read port.

        Parameters
        ----------
        slot : (kernel, buffer)
            Who reads.
        port : int
            Number of the kernel's read port.
        """
        return next((to for user, number, to in self.routes if (user, number) == (slot, port)), port)

    def array_name(self, piece: Piece) -> str:
        """Name of the array of a piece in the hardware.

        Parameters
        ----------
        piece : Piece
            One of `pieces`.
        """
        end = f".bit{piece.bit}_from{piece.word}" if len(self.pieces) > 1 else ""
        return f"memory_{self.name}{end}"

    @property
    def use(self) -> MemoryUse:
        """Size and role, without its banks."""
        return MemoryUse(self.ring or self.layout.words, self.word_width, self.role, self.read_latency)

    @property
    def word_width(self) -> int:
        """Bits of a word."""
        return self.layout.lanes * self.dtype.bit_width

    @property
    def depth(self) -> int:
        """Words of all banks, or of the ring."""
        if self.ring:
            return self.ring
        if self.banks == 1 or self.layout.words == 1:
            return self.banks * self.layout.words
        return self.banks << self.layout.address_width

    def words(self) -> list[int]:
        """Words at power on; none for a memory without contents, which starts with zeros."""
        if self.contents is None:
            return []
        packed = self.layout.pack(self.contents, self.dtype)
        if packed.shape[1] == 1:
            return list(packed[:, 0].tolist())
        return joined_lanes(packed, self.dtype.bit_width)

    def data(self) -> MemoryData:
        """Words of the memory at power on."""
        return MemoryData(shape=unsigned(self.word_width), depth=self.depth, init=self.words())

    def format(self) -> str:
        """One line."""
        role = self.role
        users = [f"k{k}.{b}" for k, b in self.slots]
        users += ["host writes"] * role.host_writes + ["host reads"] * role.host_reads
        banks = f" in each of {self.banks} banks" if self.banks > 1 else ""
        banks += f" in a ring of {self.ring}" if self.ring else ""
        banks += f" in {len(self.pieces)} pieces" if len(self.pieces) > 1 else ""
        initial = ", initial contents" if self.contents is not None else ""
        return (
            f"{self.name}: {self.dtype} {self.layout}, {self.kind}, {self.layout.words} words of "
            f"{self.word_width} bits{banks}, {len(self.ports)} read ports, latency {self.read_latency}, "
            f"{self.style}{initial}; " + ", ".join(users)
        )
