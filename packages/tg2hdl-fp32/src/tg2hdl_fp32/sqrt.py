"""Square root, correctly rounded."""

__all__ = ["Sqrt"]

from math import isqrt

from amaranth.hdl import Cat, Const, Mux, Value

from .core import Core
from .logic_table import select
from .normalizing import normalize_unpacked
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


class Sqrt(Core):
    """``sqrt(a)``, correctly rounded in any format and rounding mode.

    Non-restoring digit recurrence in radix 2: every bit of the root is one addition, which is as wide as the
    part of the root that is already known; its sign is the bit.

    Special values: NaN and operands below zero give NaN, -0 gives -0, +inf gives +inf.
    """

    operation = "sqrt"
    operands = ("a",)

    def datapath(self, p: Pipeline) -> None:
        """Normalize, find the root bit by bit, round."""
        f = self.format
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.sign = x.sign
        p.is_nan = x.is_nan | x.sign & ~x.is_zero
        p.invalid = x.is_signaling | x.sign & ~x.is_zero & ~x.is_nan
        p.is_zero = x.is_zero
        p.is_inf = x.is_inf
        normalize_unpacked(p, x, f, subnormals=self.subnormals)

        # Pairs of radicand bits, first the two before the point; an odd exponent doubles the radicand.
        odd = p.field[0] ^ p.significand_places[0]
        radicand = Mux(odd, Cat(Const(0, 1), p.significand), p.significand)
        p.power = (p.field - p.significand_places).as_signed()
        count = f.significand + 1
        padded = Cat(Const(0, 2 * count - f.significand - 1), radicand)
        p.radicand = padded[: 2 * count - 2]
        self._begin(p, padded)
        p.delay(lut_delay(3.5))
        known = len(p.signs)
        for step in range(known, count):
            p.cut()
            if step == known:
                p.exponent = ((p.power >> 1) + f.bias).as_signed()
            negative = p.remainder[-1]
            pair = p.radicand[2 * (count - step) - 2 : 2 * (count - step)]
            if step > (f.significand + 1) // 2:
                pair = Const(0, 2)
            # 4 r + pair - (4 q + 1), or 4 r + pair + (4 q + 3) when r is negative.
            addend = Cat(Const(3, 2), p.signs ^ negative.replicate(step), ~negative)
            total = (Cat(pair, p.remainder).as_signed() + addend.as_signed())[: step + 3]
            p.remainder = total.as_signed()
            # The bits of the root are kept inverted: the output of a carry chain goes straight into a register.
            p.signs = Cat(total[-1], p.signs)
            p.delay(lut_delay() + add_delay(step + 3))
        p.cut()

        # An exact root ends before the guard bit and leaves the remainder -(2 q + 1).
        unequal = p.remainder[: count + 2] ^ Cat(Const(1, 1), p.signs, Const(1, 1))
        p.unequal = Cat(unequal[k : k + 2].any() for k in range(0, count + 2, 2))
        p.root = ~p.signs
        p.delay(lut_delay(2))
        p.cut()
        p.sticky = p.unequal.any()
        p.delay(reduce_delay(len(p.unequal)))
        if f.most_root_places and self.subnormals:
            self._denormalize(p)
        round_and_pack(
            p,
            f,
            sign=p.sign,
            exponent=p.exponent,
            significand=p.root[1:],
            guard=p.root[0],
            sticky=p.sticky,
            nan=p.is_nan,
            inf=p.is_inf,
            zero=p.is_zero,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )

    def _denormalize(self, p: Pipeline) -> None:
        """Shift a root below the smallest normal number to its place."""
        p.drop = Mux(p.exponent < 1, 1 - p.exponent, 0)[: self.format.most_root_places.bit_length()]
        p.exponent = Mux(p.exponent < 1, 1, p.exponent).as_signed()
        p.delay(add_delay(self.format.exponent + 2))
        p.cut()
        p.root, p.sticky = shift_right_sticky(p, p.root, p.drop, sticky=p.sticky)
        p.delay(lut_delay(len(p.drop)))
        p.cut()

    def _begin(self, p: Pipeline, padded: Value) -> None:
        """Find the first bits of the root: three, or one in formats of two or three bits."""
        known = 3 if self.format.significand > 3 else 1
        top = padded[-2 * known :]
        roots, remainders = zip(*((isqrt(k), k - isqrt(k) ** 2) for k in range(1 << 2 * known)), strict=True)
        root, remainder = (select(top, values) for values in (roots, remainders))
        p.signs = ~root[:known]
        p.remainder = Cat(remainder, Const(0, known + 2))[: known + 2].as_signed()
