"""What a delay line is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tg2hdl_lower.families import GENERIC

__all__ = ["LONGEST_CHAIN", "DelayLine"]

LONGEST_CHAIN = 4
"""Cycles from which a memory takes less room than registers."""


@dataclass(frozen=True)
class DelayLine:
    """A value so many cycles later."""

    cycles: int
    storage: Literal["registers", "LUT RAM", "block RAM"]

    def __str__(self) -> str:
        return f"{self.cycles} cycles in {self.storage}"

    @classmethod
    def of(cls, cycles: int, width: int) -> DelayLine:
        """The smallest one for a value of so many bits."""
        if cycles <= LONGEST_CHAIN:
            return cls(cycles, "registers")
        small = (cycles - 1) * width <= GENERIC.memory.lut_bits or cycles <= GENERIC.memory.lut_words
        return cls(cycles, "LUT RAM" if small else "block RAM")
