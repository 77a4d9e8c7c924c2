"""The base class of the nodes of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from amaranth import Shape
from amaranth.hdl import Value

from tg2hdl_ir import DType, Interval
from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_lower.plan.emission import Emission
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = ["Node", "present"]


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of a leaf loop.

    Each subclass adds its fields, says which nodes it reads, when its result is there, and how it becomes hardware.

    Parameters
    ----------
    leaf : int
        Number of the leaf loop whose steps compute it.
    interval : (int, int)
        Smallest and largest value; of a float, of its bit pattern.
    """

    number: int
    leaf: int
    dtype: DType
    interval: Interval

    label: ClassVar[str]
    """Name in the printed plan."""
    takes_operands_late: ClassVar[bool] = False
    """Whether operands are needed in the stage of the result, not in that of the issue."""

    @property
    def operands(self) -> tuple[int, ...]:
        """Numbers of the nodes that it reads."""
        return ()

    @property
    def detail(self) -> str:
        """The text in the printed plan besides operands and placement; may name ``{port}``."""
        return ""

    @property
    def is_fixed(self) -> bool:
        """Whether the value never changes while the design is busy."""
        return False

    @property
    def width(self) -> int:
        """Bits of the result."""
        return self.dtype.bit_width if self.dtype.is_float else bits_for(self.interval)[0]

    @property
    def signed(self) -> bool:
        """Whether the result is a two's complement number."""
        return not self.dtype.is_float and self.interval[0] < 0

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return Shape(self.width, self.signed)

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        """Earliest placement after the operands.

        Parameters
        ----------
        ready : Ready
            Latest stage and level of the operands.
        rules : StageRules
            Levels of logic in a stage, and latencies.
        """
        raise NotImplementedError(type(self).__name__)

    def emit(self, d: Emission) -> Value | None:
        """Add the hardware; returns the signal of the result, None where there is none."""
        raise NotImplementedError(type(self).__name__)


def present(*numbers: int | None) -> tuple[int, ...]:
    """Those that are given, each once."""
    return tuple(dict.fromkeys(n for n in numbers if n is not None))
