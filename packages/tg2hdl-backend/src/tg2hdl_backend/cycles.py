"""Clock cycles of a run, by purpose."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cycles"]


@dataclass(frozen=True)
class Cycles:
    """Clock cycles of a run.

    Parameters
    ----------
    load, compute, readback : int
        Writing the inputs through the host ports, from start to done, and reading the outputs.
    kernels : tuple of int
        Clock cycles of each kernel, in execution order; their sum is `compute`.
    """

    load: int
    compute: int
    readback: int
    kernels: tuple[int, ...]

    @property
    def total(self) -> int:
        """All clock cycles."""
        return self.load + self.compute + self.readback
