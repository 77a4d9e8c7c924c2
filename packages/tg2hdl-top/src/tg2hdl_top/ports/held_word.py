"""The last word that was written to a buffer behind a bus."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Mux, Signal, Value

__all__ = ["HeldWord", "spread"]


class HeldWord:
    """The last word that was written to a buffer, whose bytes may still come or change; and the word before it.

    Elements of the word before are put into the buffer while the bus brings the next word.
    """

    def __init__(self, hit: Value) -> None:
        self.valid, self.data, self.strobes = Signal(), Signal(32), Signal(4)
        self.hit = Signal.like(hit, name="held_hit")
        self.putting, self.put_data, self._put_strobes = Signal(), Signal(32), Signal(4)
        self.put_half, self.put_hit = Signal(), Signal.like(hit, name="put_hit")

    def take(self, m: Module, merges: Value, hit: Value, data: Value, strobes: Value) -> None:
        """Add the bytes of an access of this word, or begin another word.

        Parameters
        ----------
        m : Module
        merges : Value
            Whether the access is of this word.
        hit : Value
            Which buffer it is of.
        data : Value
            32 bits.
        strobes : Value
            A bit for each byte.
        """
        mask = spread(strobes)
        m.d.sync += [
            self.hit.eq(hit),
            self.valid.eq(1),
            self.data.eq((self.data & ~mask) | (data & mask)),
            self.strobes.eq(strobes | Mux(self.valid & merges, self.strobes, 0)),
        ]

    def put(self, m: Module, half: Value) -> None:
        """Begin to put the elements of the word into its buffer.

        Parameters
        ----------
        m : Module
        half : Value
            Whether the word is the upper half of an element of 64 bits.
        """
        m.d.sync += [
            self.putting.eq(1),
            self.put_data.eq(self.data),
            self._put_strobes.eq(self.strobes),
            self.put_half.eq(half),
            self.put_hit.eq(self.hit),
            self.valid.eq(0),
        ]

    def is_whole(self, piece: Value, size: Value) -> Value:
        """Whether all bytes of an element of the word that is put are there.

        Parameters
        ----------
        piece : Value
            Number of the element in the word.
        size : Value
            Binary logarithm of the bytes of an element.
        """
        whole: Value = Array(
            (self._put_strobes.bit_select(piece, 1), self._put_strobes.word_select(piece[0], 2).all())
            + 2 * (self._put_strobes.all(),)
        )[size]
        return whole


def spread(strobes: Value) -> Value:
    """The bits of the bytes whose flags are set."""
    return Cat(flag.replicate(8) for flag in strobes)
