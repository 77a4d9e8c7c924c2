"""Answers of the tools of a family: the settings of its PLL, and an estimate."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate", "PllSettings"]


@dataclass(frozen=True)
class PllSettings:
    """Dividers of a PLL.

    Parameters
    ----------
    frequency : float
        MHz of its output.
    values : tuple of (str, int)
        By the names of the family's parameters.
    """

    frequency: float
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Estimate:
    """Expected cells and Fmax, on the slowest speed grade.

    Parameters
    ----------
    comb : int
        LUTs, carries included.
    ff : int
        Flip-flops.
    dsp : int
        Multipliers.
    bram : int
        Block RAMs.
    fmax : float
        MHz.
    """

    comb: int
    ff: int
    dsp: int
    bram: int
    fmax: float

    def format(self) -> str:
        """One line."""
        return (
            f"estimate before synthesis: {self.fmax:.0f} MHz, {self.comb} comb, {self.ff} ff, "
            f"{self.dsp} dsp, {self.bram} bram"
        )
