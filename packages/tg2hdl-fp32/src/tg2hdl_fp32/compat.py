"""The names of the reference: cores of FP32, combinational unless a profile or stages are given."""

from typing import Any

from .add import Add
from .compare import Compare
from .core import Core
from .div import Div
from .exp2 import Exp2
from .fma import Fma
from .format import FP32
from .log2 import Log2
from .mul import Mul
from .reciprocal import Reciprocal
from .rsqrt import Rsqrt
from .sin import Sin
from .sin_turns import SinTurns
from .sqrt import Sqrt

__all__ = [
    "FP32Add",
    "FP32Cmp",
    "FP32Exp2",
    "FP32FDiv",
    "FP32Fma",
    "FP32Log2",
    "FP32Mul",
    "FP32Reciprocal",
    "FP32Rsqrt",
    "FP32Sin",
    "FP32SinTurns",
    "FP32Sqrt",
]


class OfFP32(Core):
    """Before the class of an operation among the bases: FP32, combinational unless a profile or stages are given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)


class FP32Add(OfFP32, Add):
    """``a + b`` of FP32 patterns; combinational unless a profile is given."""


class FP32Cmp(Compare):
    """``a < b`` of FP32 patterns; combinational unless a profile is given."""

    def __init__(self, predicate: str = "lt", **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, predicate, **parameters)


class FP32FDiv(OfFP32, Div):
    """:class:`Div` of FP32; combinational unless a profile is given."""


class FP32Exp2(OfFP32, Exp2):
    """:class:`Exp2` of FP32; combinational unless a profile is given."""


class FP32Fma(OfFP32, Fma):
    """``a * b + c`` of FP32 patterns; combinational unless a profile is given."""


class FP32Log2(OfFP32, Log2):
    """:class:`Log2` of FP32; combinational unless a profile is given."""


class FP32Mul(OfFP32, Mul):
    """``a * b`` of FP32 patterns; combinational unless a profile is given."""


class FP32Reciprocal(OfFP32, Reciprocal):
    """:class:`Reciprocal` of FP32; combinational unless a profile is given."""


class FP32Rsqrt(OfFP32, Rsqrt):
    """:class:`Rsqrt` of FP32; combinational unless a profile is given."""


class FP32Sin(OfFP32, Sin):
    """:class:`Sin` of FP32; combinational unless a profile is given."""


class FP32SinTurns(OfFP32, SinTurns):
    """:class:`SinTurns` of FP32; combinational unless a profile is given."""


class FP32Sqrt(OfFP32, Sqrt):
    """:class:`Sqrt` of FP32; combinational unless a profile is given."""
