"""Block RAMs of a memory: the one count that plans, estimates, `fits` and memory maps use."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tg2hdl_ir import MemoryFigures
from tg2hdl_lower.decisions import LUTS_PER_BLOCK

__all__ = ["Piece", "block_rams", "pieces_of"]

_LEAST_SPARED = 3
"""Block RAMs that pieces must save, since their multiplexer lengthens the path from the words to their readers."""


class Piece(NamedTuple):
    """Some bits of some words of a memory, in an array of their own.

    Parameters
    ----------
    bit, bits : int
        First bit in the word, and how many.
    word, words : int
        First word, a multiple of `words` rounded up to a power of two, and how many.
    """

    bit: int
    bits: int
    word: int
    words: int


@lru_cache(maxsize=1 << 16)
def block_rams(
    width: int,
    words: int,
    reads: int,
    figures: MemoryFigures,
    *,
    written: bool = True,
    lane: int = 0,
    turns: bool = False,
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
    turns : bool
        Whether the write port also reads, as in `MemoryUse`.
    """
    copies = max(1, reads)
    blocks = copies * _one_copy(width, words, figures, figures.block_modes[0][0], lane)
    if copies > 1 and figures.dual_bits and (turns or not written):
        # One address of a copy is that of writes, the other one that of a reader.
        copies = copies - 1 if written else -(-copies // 2)
        lane = lane if written else 0
        blocks = min(blocks, copies * _one_copy(width, words, figures, figures.dual_bits, lane))
    return blocks


def _one_copy(width: int, words: int, figures: MemoryFigures, widest: int, lane: int) -> int:
    """Block RAMs with one read port, each of at most `widest` bits."""
    modes = [mode for mode in figures.block_modes if mode[0] <= widest]
    deep = [mode for mode in modes if mode[1] >= words]
    if figures.whole_depth:
        modes = deep[:1] or modes[-1:]
    return min(-(-words // depth) * _columns(width, bits, figures.byte_bits, lane) for bits, depth in modes)


def _columns(width: int, bits: int, byte: int, lane: int) -> int:
    """Blocks of `bits` bits, side by side, that hold a word."""
    if not 0 < lane < width:
        return -(-width // bits)
    lanes = -(-width // lane)
    if bits < byte:  # each block has an enable
        return lanes * -(-lane // bits)
    return -(-lanes * -(-lane // byte) // (bits // byte))


@lru_cache(maxsize=1 << 14)
def pieces_of(
    width: int, words: int, reads: int, figures: MemoryFigures, *, written: bool = False
) -> tuple[Piece, ...]:
    """Arrays that hold a memory: one with all of it, unless several spare block RAMs.

    Of 5,120 words of 128 bits that nothing writes, 64 block RAMs have 2 bits of all words each.  Pieces of 2,048,
    2,048 and 1,024 words of 126 bits, and one of all words of 2 bits, are 36.  Words that are written stay whole.

    Parameters
    ----------
    width : int
        Bits of a word.
    words : int
        Number of words.
    reads : int
        Read ports.
    figures : MemoryFigures
        Of the family's block RAMs.
    written : bool
        Whether it has a write port.
    """
    whole = (Piece(0, width, 0, words),)
    if not figures.whole_depth and words <= figures.block_words:
        return whole  # the flow cuts by itself
    ways = [_cut_words(0, width, words, reads, figures, written)]
    cuts = (
        () if written else sorted({bits for bits, _ in figures.block_modes if bits < width and width % bits})
    )
    for bits in cuts:
        first = width // bits * bits
        (cost, left), (other, right) = (
            _cut_words(bit, count, words, reads, figures, written)
            for bit, count in ((0, first), (first, width - first))
        )
        ways.append((cost + other, left + right))
    best = min(ways, key=lambda way: way[0])[1]
    spared = block_rams(width, words, reads, figures, written=written) - sum(
        block_rams(piece.bits, piece.words, reads, figures, written=written) for piece in best
    )
    deep = not written and words > figures.block_words
    return best if spared >= _LEAST_SPARED or deep else whole


def _cut_words(
    bit: int, bits: int, words: int, reads: int, figures: MemoryFigures, written: bool, word: int = 0
) -> tuple[float, tuple[Piece, ...]]:
    """Block RAMs of some words, with those that the LUTs of multiplexers are worth, and the pieces."""
    whole = block_rams(bits, words, reads, figures, written=written)
    best: tuple[float, tuple[Piece, ...]] = whole, (Piece(bit, bits, word, words),)
    if words > figures.block_modes[0][1]:
        size = 1 << ((words - 1).bit_length() - 1)
        low, before = _cut_words(bit, bits, size, reads, figures, written, word)
        high, after = _cut_words(bit, bits, words - size, reads, figures, written, word + size)
        cut = low + high + bits * reads / LUTS_PER_BLOCK
        if cut < best[0] or (words > figures.block_words and not written):
            best = cut, before + after
    return best
