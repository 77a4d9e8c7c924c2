"""Comparison with every predicate of IEEE 754."""

__all__ = ["PREDICATES", "Compare"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Value, unsigned

from .classes import begin_class, end_class
from .comparing import compare_halves, magnitude_order
from .core import Core
from .errors import FloatParameterError, one_of
from .format import FP32, Format
from .pipeline import Pipeline
from .timing import lut_delay

#: Predicate -> whether it holds for less, equal, greater, unordered operands.
PREDICATES = {
    "oeq": (0, 1, 0, 0),
    "ogt": (0, 0, 1, 0),
    "oge": (0, 1, 1, 0),
    "olt": (1, 0, 0, 0),
    "ole": (1, 1, 0, 0),
    "one": (1, 0, 1, 0),
    "ord": (1, 1, 1, 0),
    "ueq": (0, 1, 0, 1),
    "ugt": (0, 0, 1, 1),
    "uge": (0, 1, 1, 1),
    "ult": (1, 0, 0, 1),
    "ule": (1, 1, 0, 1),
    "une": (1, 0, 1, 1),
    "uno": (0, 0, 0, 1),
}
_SHORT = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


class Compare(Core):
    """``a <predicate> b``, one bit.

    Parameters
    ----------
    format : Format
        Of both operands.
    predicate : str
        ``o`` or ``u`` (false or true for NaN) and ``eq ne lt le gt ge``, or ``ord``, ``uno``. Short: ``eq lt le gt
        ge`` are the ordered ones and ``ne`` is ``une``, as in C and Python.
    signaling : bool, optional
        A quiet NaN raises the invalid flag too; by default as in C: for all but ``eq``, ``ne``, ``ord`` and ``uno``.
    """

    operation = "compare"
    rounds = False

    def __init__(
        self,
        format: Format = FP32,
        predicate: str = "lt",
        *,
        signaling: bool | None = None,
        **parameters: Any,
    ) -> None:
        name = _SHORT.get(predicate, predicate)
        if name not in PREDICATES:
            raise FloatParameterError(
                f"unknown predicate {predicate!r}; use one of {one_of([*_SHORT, *PREDICATES])}"
            )
        self.predicate = name
        self.signaling = name[1:] in ("lt", "le", "gt", "ge") if signaling is None else signaling
        super().__init__(format, **parameters)

    def result_shape(self) -> Shape:
        """One bit."""
        return unsigned(1)

    def datapath(self, p: Pipeline) -> None:
        """Describe the comparison."""
        begin_class(p, "x", self.format, p.a)
        begin_class(p, "y", self.format, p.b)
        compare_halves(p, "magnitude", p.a[:-1], p.b[:-1])
        p.x_sign, p.y_sign = p.a[-1], p.b[-1]
        p.cut()
        for name in "xy":
            end_class(p, name, self.format, subnormals=self.subnormals)
        unordered = p.wire(p.x_nan | p.y_nan)
        magnitude = magnitude_order(p, "magnitude")
        same = p.x_sign == p.y_sign
        equal = p.wire(p.x_zero & p.y_zero | same & magnitude.equal)
        less = p.wire(Mux(same, (magnitude.less ^ p.x_sign) & ~magnitude.equal, p.x_sign))
        if_less, if_equal, if_greater, if_unordered = PREDICATES[self.predicate]
        ordered: Value = Mux(equal, if_equal, Mux(less, if_less, if_greater))
        p.result = Mux(unordered, if_unordered, ordered)
        if self.has_flags:
            p.flags = Cat(Const(0, 4), unordered if self.signaling else p.x_signaling | p.y_signaling)
        p.delay(lut_delay(3))
