"""The memories of a design as its user sees them: size, ports, and where each element is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, InputError
from tg2hdl_lower import Layout, family_named
from tg2hdl_top import Design, MemoryPlan
from tg2hdl_top.external.image import describe_image
from tg2hdl_top.memory_blocks import memory_blocks

__all__ = ["MemoryEntry", "MemoryMap"]


@dataclass(frozen=True)
class MemoryEntry:
    """A memory of the design.

    Element `i` of a buffer is at position ``d = unravel(i, dims)`` (C order). Its word is number
    ``ravel(d // split, ceil(dims / split))``, and in it its lowest bit is number
    ``ravel(d % split, split) * element_bits``. Bits that belong to no element are 0.

    Parameters
    ----------
    name : str
        Of the buffer in the model.
    role : {"input", "weight", "temporary", "output", "state", "external"}
        ``state`` is updated in place by runs and kept between them; ``external`` is a memory in which tiles of weights
        from outside the chip take turns.
    shape : tuple of int
    dtype : str
        Type of the elements in the model.
    element_type, element_bits : str, int
        Type and bits in the memory, which may be narrower.
    words, word_bits : int
    dims, split : tuple of int
        Which elements are in a word; see above.
    read_ports : int
        Words that kernels read at once; a block RAM is there once for each.
    write_ports, read_back_ports : tuple of str
        Ports of the top module through which the host writes (``wen``, ``waddr``, ``wdata``) and reads
        (``raddr``, ``rdata``) while the design is idle; none where it cannot.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    element_type: str
    element_bits: int
    words: int
    word_bits: int
    dims: tuple[int, ...]
    split: tuple[int, ...]
    read_ports: int
    write_ports: tuple[str, ...]
    read_back_ports: tuple[str, ...]

    @property
    def bits(self) -> int:
        """Bits of the memory, without copies for further read ports."""
        return self.words * self.word_bits


class MemoryMap(Sequence[MemoryEntry]):
    """All memories of a design, in the order of its buffers; prints as a table.

    Attributes
    ----------
    plans : tuple of MemoryPlan
        Of each entry.
    blocks : dict of str to int
        Block RAMs of each memory that is built, by its name: of an entry, or of a memory that several of them share.
    """

    def __init__(self, design: Design) -> None:
        self._design = design
        kept = [n for n in sorted(design.memories) if not design.memory(n).role.streamed]
        rings = [array.memory for array in design.arrays if array.memory.role.streamed]
        self._entries = (*(_entry(design, n) for n in kept), *map(_ring, rings))
        self.plans = (*map(design.memory, kept), *rings)
        self.blocks = memory_blocks(design)
        self._arrays = {name: array.memory.name for array in design.arrays for name in array.members}

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        rows = [
            (
                e.name,
                e.role,
                e.dtype,
                "x".join(map(str, e.shape)),
                str(e.words),
                str(e.word_bits),
                f"{e.bits:,}",
                str(self.blocks.get(plan.name, f"in {self._arrays.get(plan.name)}")),
            )
            for e, plan in zip(self._entries, self.plans, strict=True)
        ]
        rows = [("memory", "role", "dtype", "shape", "words", "word bits", "bits", "block RAMs"), *rows]
        widths = [max(len(row[n]) for row in rows) for n in range(8)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        shared = [array for array in self._design.arrays if not array.memory.role.streamed]
        lines += [
            f"{a.memory.name}: {a.memory.layout.words} words of {a.memory.word_width} bits for "
            f"{', '.join(a.members)}; {self.blocks[a.memory.name]} block RAMs"
            for a in shared
        ]
        return "\n".join([*lines, self._summary()])

    def _summary(self) -> str:
        """Block RAMs of the design, and how much of them its memories fill."""
        size = family_named(self._design.options.target).memory.block_bits
        kept = sum(m.depth * m.word_width for m in self._design.built_memories if self.blocks[m.name])
        total = self.block_rams
        filled = f", filled to {kept / (total * size):.0%}" if total else ""
        return f"{total} block RAMs of {size:,} bits{filled}"

    @property
    def block_rams(self) -> int:
        """Block RAMs of all memories."""
        return sum(self.blocks.values())

    @property
    def bits(self) -> dict[str, int]:
        """Bits of all memories, by role."""
        roles = dict.fromkeys(e.role for e in self._entries)
        return {role: sum(e.bits for e in self._entries if e.role == role) for role in roles}

    def pack(self, name: str, array: Any) -> npt.NDArray[np.object_]:
        """Words of a memory, in the order of their addresses, as Python integers.

        Parameters
        ----------
        name : str
            Of the memory.
        array : object
            In the shape and dtype of the model.

        Raises
        ------
        InputError
            For an unknown name, or an array of another size or dtype.
        """
        layout, stored, dtype = self._place(name)
        given = np.asarray(array)
        if given.size != layout.depth or given.dtype != dtype.numpy():
            raise InputError(
                f"{name!r} has {layout.depth} elements of {dtype.numpy()}, not {given.size} of {given.dtype}",
                hint="give the array in the shape and dtype of the model",
            )
        fits = given.astype(stored.numpy()).astype(given.dtype) == given
        if stored.is_int:
            fits &= (given >= stored.min_value) & (given <= stored.max_value)
        if stored != dtype and not fits.all():
            raise InputError(
                f"an element of {name!r} does not fit {stored}", hint="keep to the range of the model"
            )
        packed = layout.pack(given.reshape(-1).astype(stored.numpy()), stored).astype(object)
        shifts = np.array([1 << (n * stored.bit_width) for n in range(layout.lanes)], dtype=object)
        return np.asarray((packed * shifts).sum(axis=1), dtype=object)

    def unpack(self, name: str, words: Any) -> npt.NDArray[Any]:
        """Array of a memory from its words, in the shape and dtype of the model; inverse of `pack`.

        Parameters
        ----------
        name : str
            Of the memory.
        words : object
            In the order of their addresses.

        Raises
        ------
        InputError
            For an unknown name, or another number of words.
        """
        layout, stored, dtype = self._place(name)
        values = [int(word) for word in words]
        if len(values) != layout.words:
            raise InputError(f"{name!r} has {layout.words} words, not {len(values)}", hint="give all of them")
        mask, width = (1 << stored.bit_width) - 1, stored.bit_width
        lanes = [[(word >> (n * width)) & mask for n in range(layout.lanes)] for word in values]
        flat = layout.unpack(np.array(lanes, dtype=np.uint64), stored)
        entry = next(e for e in self._entries if e.name == name)
        return flat.astype(dtype.numpy()).reshape(entry.shape)

    def describe(self) -> dict[str, Any]:
        """The map for a host, as plain data: each memory with its ports, and the order of a run."""
        loads = [e.name for e in self._entries if e.write_ports]
        results = [self._design.program.buffers[n].name for n in self._design.program.outputs]
        external = self._design.external
        streams = {"external_memory": describe_image(self._design)} if external and external.tiles else {}
        return streams | {
            "memories": [{**asdict(e), "bits": e.bits} for e in self._entries],
            "load_order": [n for n in loads if self._role(n) == "weight"]
            + [n for n in loads if self._role(n) != "weight"],
            "read_order": results,
            "read_latency": self._design.memory(self._design.program.outputs[0]).read_latency,
            "steps": [
                "while busy is 0, write every memory of load_order: one word a cycle, wen with waddr and wdata",
                "set start for one cycle, then wait until done is 1 for one cycle",
                "one cycle later set raddr; the word is on rdata read_latency cycles after its address",
            ],
        }

    def _role(self, name: str) -> str:
        return next(e.role for e in self._entries if e.name == name)

    def _place(self, name: str) -> tuple[Layout, DType, DType]:
        """Layout, element type in the memory and element type in the model."""
        for number in self._design.memories:
            buffer = self._design.program.buffers[number]
            if buffer.name == name:
                memory = self._design.memory(number)
                return memory.layout, memory.dtype, buffer.dtype
        names = ", ".join(e.name for e in self._entries)
        raise InputError(f"no memory is named {name!r}", hint=f"the memories are {names}")


def _ring(memory: MemoryPlan) -> MemoryEntry:
    """Tiles of weights from memory outside the chip take turns in it."""
    layout = memory.layout
    return MemoryEntry(
        memory.name,
        "external",
        (layout.depth,),
        str(memory.dtype),
        str(memory.dtype),
        memory.dtype.bit_width,
        layout.words,
        memory.word_width,
        layout.dims,
        layout.split,
        len(memory.ports),
        (),
        (),
    )


def _entry(design: Design, number: int) -> MemoryEntry:
    buffer, memory = design.program.buffers[number], design.memory(number)
    names = tuple(f"buffers__{memory.name}__{port}" for port in ("wen", "waddr", "wdata"))
    reading = tuple(f"buffers__{memory.name}__{port}" for port in ("raddr", "rdata"))
    return MemoryEntry(
        name=buffer.name,
        role="state" if memory.role.is_state and buffer.role == "temporary" else buffer.role,
        shape=buffer.shape,
        dtype=str(buffer.dtype),
        element_type=str(memory.dtype),
        element_bits=memory.dtype.bit_width,
        words=memory.use.words,
        word_bits=memory.word_width,
        dims=memory.layout.dims,
        split=memory.layout.split,
        read_ports=len(memory.ports),
        write_ports=names if memory.role.host_writes else (),
        read_back_ports=reading if memory.role.host_reads else (),
    )
