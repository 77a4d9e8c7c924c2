"""The five rounding directions of IEEE 754."""

__all__ = ["RoundingMode"]

import enum
from fractions import Fraction


class RoundingMode(enum.Enum):
    """A rounding direction; the value is its code on a ``rm`` port (the RISC-V encoding).

    ``RNE`` to nearest, ties to even; ``RTZ`` toward zero; ``RDN`` toward minus infinity; ``RUP`` toward
    plus infinity; ``RMM`` to nearest, ties away from zero.
    """

    RNE = 0
    RTZ = 1
    RDN = 2
    RUP = 3
    RMM = 4

    def __str__(self) -> str:
        return self.name

    def round_fraction(self, magnitude: Fraction, negative: bool) -> int:
        """Round a magnitude to an integer in this direction.

        Parameters
        ----------
        magnitude : Fraction
            0 or more.
        negative : bool
            Whether the number is below zero, which decides between up and down.
        """
        whole = magnitude.numerator // magnitude.denominator
        rest = magnitude - whole
        half = Fraction(1, 2)
        up = {
            RoundingMode.RNE: rest > half or (rest == half and whole & 1 == 1),
            RoundingMode.RTZ: False,
            RoundingMode.RDN: negative and rest > 0,
            RoundingMode.RUP: not negative and rest > 0,
            RoundingMode.RMM: rest >= half,
        }[self]
        return whole + int(up)

    def overflows_to_infinity(self, negative: bool) -> bool:
        """Tell whether an overflow of this sign gives the infinity rather than the largest finite value."""
        if self in (RoundingMode.RDN, RoundingMode.RUP):
            return negative == (self is RoundingMode.RDN)
        return self is not RoundingMode.RTZ
