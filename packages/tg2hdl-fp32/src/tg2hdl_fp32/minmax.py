"""Minimum and maximum."""

__all__ = ["MINMAX_VARIANTS", "MinMax"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux

from .classes import begin_class, end_class
from .comparing import compare_halves, magnitude_order
from .core import Core
from .errors import FloatParameterError, one_of
from .format import FP32, Format
from .pipeline import Pipeline
from .timing import lut_delay

#: IEEE 754-2019, and ``select_max``/``select_min``: ``b if b > a else a`` with all bits unchanged.
MINMAX_VARIANTS = ("minimum", "maximum", "minimumNumber", "maximumNumber", "select_min", "select_max")


class MinMax(Core):
    """Minimum or maximum of ``a`` and ``b``.

    Parameters
    ----------
    format : Format
        Of operands and result.
    variant : str
        ``minimum`` and ``maximum`` give NaN when an operand is NaN, ``minimumNumber`` and ``maximumNumber`` the other
        operand; all four take -0 as less than +0. ``select_max`` is ``b if b > a else a``, ``select_min``
        ``b if b < a else a``: zeros are equal and a comparison with NaN is false, as in tinygrad.
    """

    operation = "minmax"
    rounds = False

    def __init__(self, format: Format = FP32, variant: str = "maximum", **parameters: Any) -> None:
        if variant not in MINMAX_VARIANTS:
            raise FloatParameterError(f"unknown variant {variant!r}; use one of {one_of(MINMAX_VARIANTS)}")
        self.variant = variant
        super().__init__(format, **parameters)

    def datapath(self, p: Pipeline) -> None:
        """Describe the selection."""
        fmt = self.format
        begin_class(p, "x", fmt, p.a)
        begin_class(p, "y", fmt, p.b)
        compare_halves(p, "magnitude", p.a[:-1], p.b[:-1])
        p.x_bits, p.y_bits = p.a, p.b
        p.cut()
        for name in "xy":
            end_class(p, name, fmt, subnormals=self.subnormals)
        magnitude = magnitude_order(p, "magnitude")
        x_sign, y_sign = p.x_bits[-1], p.y_bits[-1]
        b_less = Mux(
            x_sign == y_sign, Mux(x_sign, magnitude.less, ~magnitude.less & ~magnitude.equal), y_sign
        )
        b_greater = Mux(
            x_sign == y_sign, Mux(x_sign, ~magnitude.less & ~magnitude.equal, magnitude.less), x_sign
        )
        take_b = p.wire(b_greater if self.variant in ("maximum", "maximumNumber", "select_max") else b_less)
        either = p.x_nan | p.y_nan
        if self.variant.startswith("select"):
            p.take_b, p.to_nan = take_b & ~either & ~(p.x_zero & p.y_zero), Const(0)
            p.invalid = either
        elif self.variant.endswith("Number"):
            p.take_b, p.to_nan = Mux(either, p.x_nan, take_b), p.x_nan & p.y_nan
            p.invalid = p.x_signaling | p.y_signaling
        else:
            p.take_b, p.to_nan = take_b, either
            p.invalid = p.x_signaling | p.y_signaling
        p.delay(lut_delay(2))
        p.cut()
        p.result = Mux(p.to_nan, fmt.nan, Mux(p.take_b, p.y_bits, p.x_bits))
        if self.has_flags:
            p.flags = Cat(Const(0, 4), p.invalid)
        p.delay(lut_delay(1))
