"""Physical shapes of memories on ECP5: narrow slices over the whole depth, without an output multiplexer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_synth.rtlil import Module
from tg2hdl_synth.tools import yosys_share

__all__ = ["SlicedMemory", "sliced_library", "sliced_memories"]

_BITS = 16384
_WIDEST = 512
_WIDTHS = (1, 2, 4, 9, 18)


@dataclass(frozen=True)
class SlicedMemory:
    """A memory that is cut into slices of `slice_width` bits.

    Parameters
    ----------
    module, name : str
        Where it is in the RTLIL.
    width, depth : int
        Bits of a word, words.
    written : bool
        Whether it has a write port.
    """

    module: str
    name: str
    width: int
    depth: int
    written: bool = False

    @property
    def slice_width(self) -> int:
        """Bits of a word that one DP16KD holds over the whole depth; 1 when it is too deep for that."""
        fitting = [w for w in _WIDTHS if (_BITS // w if w < 9 else _BITS * 9 // 8 // w) >= self.depth]
        return max(fitting, default=1)


def sliced_memories(top: Module, *, halves: bool) -> list[SlicedMemory]:
    """Memories of the top module that get slices.

    Parameters
    ----------
    halves : bool
        Slice not only memories that are deeper than a block RAM at its full width, but also shallow ones, into 18
        bits: a port of 18 bits can have an output register, a port of 36 bits cannot.
    """
    found, figures = [], ECP5.memory
    written = {cell.parameters["MEMID"] for cell in top.cells if cell.kind == "$memwr_v2"}
    for memory in top.memories.values():
        if memory.attributes.get("ram_style") == "logic":
            continue
        block = memory.width * memory.depth > figures.lut_bits and memory.depth > figures.lut_words
        if memory.depth > _WIDEST or (halves and block):
            has_port = f"\\{memory.name}" in written
            found.append(SlicedMemory(top.name, memory.name, memory.width, memory.depth, has_port))
    return found


def sliced_library(widest: int) -> str:
    """Library of the block RAM for yosys' ``memory_libmap``, limited to ports of at most `widest` bits."""
    text = (yosys_share() / "lattice" / "brams_16kd.txt").read_text()
    block = text.split("ram block $__PDPW16KD_")[0]
    widths = " ".join(str(w) for w in _WIDTHS if w <= widest)
    return re.sub(r"widths [\d ]+ per_port", f"widths {widths} per_port", block)
