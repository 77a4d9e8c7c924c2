"""Multiplication by a constant, without multiplier blocks."""

__all__ = ["MulConstant"]

from typing import Any

from amaranth.hdl import Cat, Const, Value

from .errors import FloatTypeError
from .mul import Mul
from .pipeline import Pipeline
from .timing import add_delay, lut_delay
from .unpacked import Unpacked


class MulConstant(Mul):
    """``a * constant``, correctly rounded: `Mul` whose significands are multiplied by additions.

    The product is the sum of as many shifted significands as the constant has digits that are not zero in
    non-adjacent form: at most half as many as it has bits.

    Parameters
    ----------
    format : Format
        Of operand, constant and result.
    constant : int
        Bit pattern of the second factor.
    """

    operands = ("a",)

    def __init__(self, format: Any, constant: int, **parameters: Any) -> None:
        if not isinstance(constant, int):
            raise FloatTypeError(f"constant must be an int, the bit pattern of a number, not {constant!r}")
        self.constant = constant
        super().__init__(format, **parameters)

    def datapath(self, p: Pipeline) -> None:
        """Describe the multiplication."""
        p.b = Const(self.constant, self.format.width)
        super().datapath(p)

    def _multiply(self, p: Pipeline, x: Unpacked, y: Unpacked) -> None:
        """Set ``p.product`` in at least the five cuts that the parallel path needs."""
        fmt = self.format
        fraction = self.constant % (1 << fmt.fraction)
        hidden = bool((self.constant >> fmt.fraction) % (1 << fmt.exponent))
        if not self.subnormals and not hidden:
            fraction, hidden = 0, True
        factor = fraction | (hidden << fmt.fraction)
        p.factor = Cat(x.fraction, x.hidden if self.subnormals else Const(1, 1))
        p.delay(lut_delay(2))
        p.cut()
        level: list[tuple[str, int]] = []
        for number, (sign, place) in enumerate(_digits(factor)):
            p[f"term{number}"] = Cat(Const(0, place), p.factor) if place else p.factor
            level.append((f"term{number}", sign))
        cuts = 1
        while len(level) > 1:
            level = [self._joined(p, cuts, n, level[n : n + 2]) for n in range(0, len(level), 2)]
            p.delay(add_delay(2 * fmt.significand))
            p.cut()
            cuts += 1
        for _ in range(cuts, 5):
            p.cut()
        width = 2 * fmt.significand
        # The sum is positive, so that its topmost term is.
        total: Value = p[level[0][0]] if level else Const(0, width)
        p.product = Cat(total, Const(0, max(0, width - len(total))))[:width]

    def _joined(self, p: Pipeline, depth: int, number: int, pair: list[tuple[str, int]]) -> tuple[str, int]:
        name = f"sum{depth}_{number}"
        width = 2 * self.format.significand
        if len(pair) == 1:
            p[name] = p[pair[0][0]]
            return name, pair[0][1]
        (low, low_sign), (high, high_sign) = pair
        a, b = p[low], p[high]
        # The later term is the larger one: the difference has its sign.
        p[name] = ((b + a) if low_sign == high_sign else (b - a))[:width]
        return name, high_sign


def _digits(value: int) -> list[tuple[int, int]]:
    """Sign and position of each nonzero digit in non-adjacent form, the lowest first."""
    digits = []
    place = 0
    while value:
        if value & 1:
            sign = 2 - (value & 3)
            digits.append((sign, place))
            value -= sign
        value >>= 1
        place += 1
    return digits
