"""The last word that was written to a buffer behind a bus."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal, Value

__all__ = ["HeldWord", "spread"]


class HeldWord:
    """The last word that was written to a buffer, whose bytes may still come or change."""

    def __init__(self, address: Value, hit: Value) -> None:
        self.valid, self.data, self.strobes = Signal(), Signal(32), Signal(4)
        self.address, self.hit = Signal.like(address, name="held_address"), Signal.like(hit, name="held_hit")

    def take(self, m: Module, address: Value, hit: Value, data: Value, strobes: Value) -> None:
        """Add the bytes of an access of this word, or begin a word.

        Parameters
        ----------
        m : Module
        address : Value
            Of the word.
        hit : Value
            Which buffer it is of.
        data : Value
            32 bits.
        strobes : Value
            A bit for each byte.
        """
        mask = spread(strobes)
        m.d.sync += [
            self.address.eq(address),
            self.hit.eq(hit),
            self.valid.eq(1),
            self.data.eq((self.data & ~mask) | (data & mask)),
            self.strobes.eq(strobes | Mux(self.valid, self.strobes, 0)),
        ]

    def is_whole(self, piece: Value, size: Value) -> Value:
        """Whether all bytes of an element of the word are there.

        Parameters
        ----------
        piece : Value
            Number of the element in the word.
        size : Value
            Binary logarithm of the bytes of an element.
        """
        whole: Value = Array(
            (self.strobes.bit_select(piece, 1), self.strobes.word_select(piece[0], 2).all())
            + 2 * (self.strobes.all(),)
        )[size]
        return whole


def spread(strobes: Value) -> Value:
    """The bits of the bytes whose flags are set."""
    return Cat(flag.replicate(8) for flag in strobes)
