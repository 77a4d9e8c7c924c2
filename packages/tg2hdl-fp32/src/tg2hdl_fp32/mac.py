"""Multiply-accumulate: one product per cycle, with as many interleaved sums as the latency has cycles."""

__all__ = ["MultiplyAccumulate"]

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .errors import FloatParameterError
from .fma import Fma
from .format import FP32, Format
from .modes import RoundingMode


class MultiplyAccumulate(wiring.Component):
    """``sum = a * b + sum`` with one rounding for each step and a new pair of operands in every cycle.

    The sums of `latency` independent dot products take turns: operands `latency` cycles apart belong to the same
    sum, and each sum is formed in the order of its operands.

    Parameters
    ----------
    format : Format
        Format of operands and sums.
    parameters
        Those of :class:`Fma`; a build with at least one register.

    Attributes
    ----------
    latency : int
        Cycles from operands to the sum that includes them, and number of interleaved sums.
    ii : int
        1.

    Members
    -------
    a, b : In(unsigned)
        Factors.
    clear : In(1)
        This product begins a new sum.
    en : In(1)
        Clock enable.
    result : Out(unsigned)
        Sum that includes the product of `latency` cycles before.
    """

    ii = 1

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        self.fma = Fma(format, **parameters)
        if self.fma.dynamic or self.fma.has_flags:
            raise FloatParameterError(
                "MultiplyAccumulate has no dynamic rounding and no flags; leave them out"
            )
        self.latency = self.fma.latency
        if not self.latency:
            raise FloatParameterError(
                "MultiplyAccumulate needs a register; use profile small, balanced or fast"
            )
        self.format = format
        width = format.width
        super().__init__(
            {
                "a": In(width),
                "b": In(width),
                "clear": In(1),
                "en": In(1, init=1),
                "result": Out(width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Feed the result back as the addend."""
        m = Module()
        m.submodules.fma = fma = self.fma
        # The zero that leaves every product as it is, zeros included.
        neutral = 0 if fma.rounding is RoundingMode.RDN else self.format.sign_mask
        m.d.comb += [
            fma.a.eq(self.a),
            fma.b.eq(self.b),
            fma.c.eq(Mux(self.clear, neutral, fma.result)),
            fma.en.eq(self.en),
            self.result.eq(fma.result),
        ]
        return m
