"""Block RAMs of a memory: the one count that plans, estimates, `fits` and memory maps use."""

from __future__ import annotations

from functools import lru_cache

from tg2hdl_ir.plugins.descriptors import MemoryFigures

__all__ = ["block_rams"]


@lru_cache(maxsize=1 << 16)
def block_rams(
    width: int, words: int, reads: int, figures: MemoryFigures, *, written: bool = True, lane: int = 0
) -> int:
    """Block RAMs of one array, as the family's flow maps it.

    Parameters
    ----------
    width : int
        Bits of a word.
    reads : int
        Read ports: each is a copy, but both ports of a block may read where nothing writes.
    written : bool
        Whether it has a write port.
    lane : int
        Bits of a lane with a write enable of its own; 0 where the whole word has one.
    """
    copies = max(1, reads)
    blocks = copies * _one_copy(width, words, figures, figures.block_modes[0][0], lane)
    if copies > 1 and figures.dual_bits and not written:
        blocks = min(blocks, -(-copies // 2) * _one_copy(width, words, figures, figures.dual_bits, 0))
    return blocks


def _one_copy(width: int, words: int, figures: MemoryFigures, widest: int, lane: int) -> int:
    """Block RAMs with one read port, each of at most `widest` bits."""
    modes = [mode for mode in figures.block_modes if mode[0] <= widest]
    deep = [mode for mode in modes if mode[1] >= words]
    if figures.whole_depth:
        modes = deep[:1] or modes[-1:]
    return min(-(-words // depth) * _columns(width, bits, figures.byte_bits, lane) for bits, depth in modes)


def _columns(width: int, bits: int, byte: int, lane: int) -> int:
    """Blocks of so many bits beside each other that hold a word."""
    if not 0 < lane < width:
        return -(-width // bits)
    lanes = -(-width // lane)
    if bits < byte:  # each block has an enable
        return lanes * -(-lane // bits)
    return -(-lanes * -(-lane // byte) // (bits // byte))
