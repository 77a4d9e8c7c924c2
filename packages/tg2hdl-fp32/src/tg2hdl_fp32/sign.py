"""Operations on the sign bit."""

__all__ = ["Abs", "Neg", "NonZero"]

from amaranth.hdl import Cat, Shape, unsigned

from .core import Core
from .pipeline import Pipeline
from .timing import reduce_delay


class Neg(Core):
    """``-a``: the sign bit flipped, of NaN and zero too; no logic but one inverter, no latency."""

    operation = "neg"
    operands = ("a",)
    rounds = False

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        p.result = Cat(p.a[:-1], ~p.a[-1])
        if self.has_flags:
            p.flags = 0


class Abs(Core):
    """``|a|``: the sign bit cleared, of NaN too; no logic, no latency."""

    operation = "abs"
    operands = ("a",)
    rounds = False

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        p.result = Cat(p.a[:-1], 0)
        if self.has_flags:
            p.flags = 0


class NonZero(Core):
    """``a != 0``, one bit, true for NaN: the cast to a truth value."""

    operation = "nonzero"
    operands = ("a",)
    rounds = False

    def result_shape(self) -> Shape:
        """One bit."""
        return unsigned(1)

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        significant = p.a[:-1] if self.subnormals else p.a[self.format.fraction : -1]
        p.result = significant.any()
        p.delay(reduce_delay(self.format.width))
        if self.has_flags:
            p.flags = 0
