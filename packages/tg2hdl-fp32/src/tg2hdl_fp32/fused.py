"""Sums in a wide frame: normalized down to the smallest exponent, and rounded once."""

__all__ = ["FusedSum"]

from abc import abstractmethod

from amaranth.hdl import Cat, Const, Mux, Value

from .carry_save import add_segments
from .core import Core
from .format import Format
from .modes import RoundingMode
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import leading_zeros, shift_left
from .timing import lut_delay


class FusedSum(Core):
    """An operation that forms an exact magnitude in a frame, or one with a sticky bit at the bottom.

    Before :meth:`round_sum` the datapath sets ``p.total``, the magnitude; ``p.top_exponent``, the biased exponent of
    the frame's top bit less one; ``p.marker``, by :meth:`mark_digits` and :meth:`marker`; ``p.sign``, ``p.nan``,
    ``p.inf`` and ``p.invalid``; and ``p.subtract``: terms differ in sign, so that a sum of zero has the sign of the
    rounding mode.
    """

    overflows = True

    @property
    @abstractmethod
    def sum_bits(self) -> int:
        """Bits of the frame."""

    @property
    def mark_bits(self) -> int:
        """Bits of a distance from the top of the frame."""
        return (self.sum_bits - 1).bit_length()

    def mark_digits(self, p: Pipeline) -> None:
        """Decode the position of the smallest exponent in the sum, one digit at a time, for :meth:`marker`."""
        bits = self.mark_bits
        low, high = p.top_exponent[: bits // 2], p.top_exponent[bits // 2 : bits]
        near = ~p.top_exponent[bits:].any()
        p.mark_low = Cat(low == k for k in range(1 << len(low)))
        p.mark_high = Cat((high == k) & near for k in range(1 << len(high)))

    def marker(self, p: Pipeline, width: int) -> Value:
        """Return the mask that the decoded digits select, in a later stage.

        Parameters
        ----------
        p : Pipeline
        width : int
            Bits of the mask.
        """
        # One-hot at `top_exponent` places below the top: the sum is not normalized beyond the smallest exponent.
        digits = len(p.mark_low)
        return Cat(p.mark_low[k % digits] & p.mark_high[k // digits] for k in reversed(range(width)))

    def round_sum(self, p: Pipeline) -> None:
        """Normalize, round and set ``p.result`` (and ``p.flags``)."""
        fmt = self.result_shape()
        assert isinstance(fmt, Format)
        n = fmt.significand
        self._normalize(p, n)
        cancelled = p.zero & p.subtract & ~p.inf
        round_and_pack(
            p,
            fmt,
            sign=p.wire(Mux(cancelled, p.rm == RoundingMode.RDN.value, p.sign)),
            exponent=p.exponent,
            significand=p.frame[-n:],
            guard=p.frame[-n - 1],
            sticky=p.wire(p.low_sticky | p.frame[: -n - 1].any()),
            nan=p.nan,
            inf=p.inf,
            zero=p.zero,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
            saturate=self.saturate,
        )

    def _normalize(self, p: Pipeline, significand: int) -> None:
        """Shift the sum left until its top bit is set or the smallest exponent is reached."""
        width, chunk_bits = len(p.total), 4
        chunk = 1 << chunk_bits
        chunks = -(-width // chunk)
        p.cut()
        stop = p.wire(p.total | p.marker)
        pad = chunks * chunk - width
        padded = Cat(Const(0, pad), stop)
        p.empty = Cat(~padded[k * chunk : (k + 1) * chunk].any() for k in range(chunks))
        p.stop = stop
        total = p.wire(Cat(Const(0, pad), p.total))
        p.filled = Cat(total[k * chunk : (k + 1) * chunk].any() for k in range(chunks))
        p.delay(lut_delay(4))
        p.cut()
        count = leading_zeros(p, ~p.empty)
        coarse = p.wire(count[: (chunks - 1).bit_length()])
        p.coarse = coarse
        p.zero = ~p.filled.any()
        p.delay(lut_delay(3))
        p.cut()
        p.half_shifted = shift_left(p, p.total, p.coarse, unit=chunk)
        p.stop_shifted = shift_left(p, p.stop, p.coarse, unit=chunk)[-chunk:]
        p.delay(lut_delay(len(coarse) + 1))
        p.cut()
        p.fine = leading_zeros(p, p.stop_shifted)[:chunk_bits]
        # The bits that the fine shift can bring into the result; all bits below are sticky.
        window = min(significand + chunk, width)
        p.window = p.half_shifted[-window:]
        p.low_sticky = p.half_shifted[: width - window].any()
        p.delay(lut_delay(4))
        p.cut()
        p.frame = shift_left(p, p.window, p.fine)
        p.exponent = (p.top_exponent + 1 - Cat(p.fine, p.coarse)).as_signed()
        p.delay(lut_delay(chunk_bits))
        p.cut()

    def make_positive(self, p: Pipeline, name: str, width: int) -> None:
        """Set ``p.total`` and ``p.negative`` from a number ``p[name]`` of `width` bits in two's complement.

        Parameters
        ----------
        p : Pipeline
        name : str
            Of the number.
        width : int
            Bits of the number, the sign included.
        """
        p.negative = p[name][-1]
        p.total_flipped = p[name][:-1] ^ p.negative.replicate(width - 1)
        p.total_zero = Const(0, 1)
        p.delay(lut_delay())
        p.cut()
        add_segments(p, "total", ("total_flipped", "total_zero"), width - 1, carry=p.negative)
        p.cut()
