"""Operations on the sign bit alone."""

__all__ = ["Abs", "Neg"]

from amaranth.hdl import Cat

from .core import Core
from .pipeline import Pipeline


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
