"""Class of a number, as IEEE 754 names them."""

__all__ = ["CLASSES", "Classify"]

from amaranth.hdl import Cat, Const, Shape, unsigned

from .classes import begin_class, end_class
from .core import Core
from .pipeline import Pipeline
from .timing import lut_delay

#: Classes of IEEE 754-2019, 5.7.2, from bit 0 of the result, in the order of RISC-V's ``fclass``.
CLASSES = (
    "negativeInfinity",
    "negativeNormal",
    "negativeSubnormal",
    "negativeZero",
    "positiveZero",
    "positiveSubnormal",
    "positiveNormal",
    "positiveInfinity",
    "signalingNaN",
    "quietNaN",
)


class Classify(Core):
    """The class of ``a``, ten bits of which one is set: bit k is ``CLASSES[k]``. Raises no flags.

    With ``subnormals=False`` a subnormal operand counts as zero. Formats without infinities have only a quiet NaN.
    """

    operation = "classify"
    operands = ("a",)
    rounds = False

    def result_shape(self) -> Shape:
        """One bit for each class."""
        return unsigned(len(CLASSES))

    def datapath(self, p: Pipeline) -> None:
        """Describe the classification."""
        begin_class(p, "x", self.format, p.a)
        p.sign = p.a[-1]
        p.cut()
        end_class(p, "x", self.format, subnormals=self.subnormals)
        special = p.wire(p.x_nan | p.x_inf)
        # Signs pick between bits k and 7 - k.
        magnitudes = (p.x_inf, p.x_hidden & ~special, ~p.x_hidden & ~p.x_zero, p.x_zero)
        negative = [kind & p.sign for kind in magnitudes]
        positive = [kind & ~p.sign for kind in reversed(magnitudes)]
        p.result = Cat(*negative, *positive, p.x_signaling, p.x_nan & ~p.x_signaling)
        if self.has_flags:
            p.flags = Const(0, 5)
        p.delay(lut_delay(2))
