"""Posits: what a pattern means, and the two ends that all their cores share.

Sources: Standard for Posit Arithmetic (2022). Its rounding is one of patterns: an exact number is cut off after the
last bit of the pattern, and the bits behind decide, so that between powers of 16 it is not that to the nearest number.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Mux, Value

from tg2hdl_fp32 import FloatParameterError, Pipeline, add_delay, leading_zeros, lut_delay, shift_left

__all__ = ["POSIT8", "POSIT16", "POSIT32", "Posit", "decode", "encode"]


@dataclass(frozen=True)
class Posit:
    """A posit format: sign, regime, two bits of exponent, fraction.

    Parameters
    ----------
    width : int
        Bits of a pattern, 6 to 64.
    """

    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.width, int) or not 6 <= self.width <= 64:
            raise FloatParameterError(f"a posit of {self.width!r} bits is not possible; use 6 to 64")

    def __str__(self) -> str:
        return f"posit{self.width}"

    @property
    def significand(self) -> int:
        """Most bits of a significand, the hidden one included."""
        return self.width - 4

    @property
    def max_scale(self) -> int:
        """Exponent of the largest number; that of the smallest is its negative."""
        return 4 * (self.width - 2)

    @property
    def nar(self) -> int:
        """Pattern that is not a real number."""
        return 1 << (self.width - 1)


POSIT8, POSIT16, POSIT32 = Posit(8), Posit(16), Posit(32)


def decode(p: Pipeline, name: str, format: Posit) -> None:
    """Take the pattern ``p[name]`` apart; ends before a cut.

    Sets, with `name` before it, ``_sign``, ``_zero``, ``_nar``, ``_magnitude`` (the pattern without its sign, in the
    order of the numbers), ``_scale`` (signed exponent) and ``_significand`` (1 on top, 0 for zero and NaR).

    Parameters
    ----------
    p : Pipeline
    name : str
    format : Posit
    """
    n, bits = format.width, p[name]
    sign, empty = bits[-1], p.wire(~bits[:-1].any())
    p[f"{name}_sign"], p[f"{name}_zero"], p[f"{name}_nar"] = sign, empty & ~sign, empty & sign
    p[f"{name}_magnitude"] = ((bits[:-1] ^ sign.replicate(n - 1)) + sign)[: n - 1]
    p.delay(add_delay(n))
    p.cut()
    magnitude = p[f"{name}_magnitude"]
    ones = magnitude[-1]
    # Bits of the regime after the first.
    run = leading_zeros(p, p.wire(magnitude[:-1] ^ ones.replicate(n - 2)))[: (n - 2).bit_length()]
    p[f"{name}_run"] = run
    p[f"{name}_field"] = magnitude[:-2]
    p.delay(lut_delay(len(run)))
    for low in range(0, len(run), 2):
        p.cut()
        amount = p[f"{name}_run"][low : low + 2]
        p[f"{name}_field"] = shift_left(p, p[f"{name}_field"], amount, unit=1 << low)
        p.delay(lut_delay(len(amount)))
    field, low = p[f"{name}_field"], ~p[f"{name}_magnitude"][-1]
    run = p[f"{name}_run"]
    p[f"{name}_scale"] = Cat(field[-2:], run ^ low.replicate(len(run)), low).as_signed()
    p[f"{name}_significand"] = Cat(field[:-2], ~(p[f"{name}_zero"] | p[f"{name}_nar"]))


def encode(p: Pipeline, format: Posit) -> None:
    """Round ``2 ** p.scale * 1.fraction`` of sign ``p.sign`` and set ``p.result``; begins in the present stage.

    Reads ``p.scale`` (signed), ``p.fraction`` (bits behind the hidden 1), ``p.sticky`` (whether more follow),
    ``p.sign``, ``p.zero`` and ``p.nar``; NaR wins over zero.

    Parameters
    ----------
    p : Pipeline
    format : Posit
    """
    n, scale = format.width, p.scale
    ones = ~scale[-1]
    run = p.wire(scale[2:-1] ^ scale[-1].replicate(len(scale) - 3))
    # Beyond the ends of the range, or at its upper end.
    p.far = run >= n - 2
    p.low = ~ones
    p.run = run[: (n - 3).bit_length()]
    text = Cat(p.fraction, scale[:2], ~ones, ones)
    # A pattern without its sign, and the bit after it.
    p.text = text[-n:] if len(text) >= n else Cat(Const(0, n - len(text)), text)
    p.lost = p.sticky | (text[:-n].any() if len(text) > n else Const(0))
    p.delay(lut_delay(3))
    for low in reversed(range(0, len(p.run), 2)):
        p.cut()
        amount = p.run[low : low + 2]
        for k in reversed(range(len(amount))):
            p.text, p.lost = _push(p, amount[k], min(1 << (low + k), n))
        p.delay(lut_delay(len(amount) + 1))
    p.cut()
    p.body = Mux(p.far, Mux(p.low, 1, (1 << (n - 1)) - 1), p.text[1:])
    p.up = ~p.far & p.text[0] & (p.text[1] | p.lost)
    p.delay(lut_delay(2))
    p.cut()
    # The complement of a rounded number, in one carry chain.
    rounded = (Cat(p.body, Const(0, 1)) ^ p.sign.replicate(n)) + (p.up ^ p.sign)
    p.result = Mux(p.nar, format.nar, Mux(p.zero, 0, rounded[:n]))
    p.delay(add_delay(n) + lut_delay())


def _push(p: Pipeline, bit: Value, places: int) -> tuple[Value, Value]:
    """Lengthen the regime at the top of ``p.text``, and remember what falls off."""
    text, lost = p.text, p.lost
    longer = Cat(text[places:], (~p.low).replicate(places))
    return p.wire(Mux(bit, longer, text)), p.wire(lost | bit & text[:places].any())
