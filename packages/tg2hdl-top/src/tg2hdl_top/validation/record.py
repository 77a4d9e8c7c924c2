"""The record of a validation, as part of a design."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Validation"]


@dataclass(frozen=True)
class Validation:
    """Evaluations before and after the rewrites that had equal bits.

    Parameters
    ----------
    inputs : tuple of str
        Kinds of inputs of the program; none where it was not validated.
    kernels : int
        Kernels with different plans.
    whole, sliced : int
        Those that were evaluated as planned, entirely or in a few iterations of their outer loops.
    notes : tuple of str
        Parts that were compared by another rule, or not at all, and why.
    """

    inputs: tuple[str, ...] = ()
    kernels: int = 0
    whole: int = 0
    sliced: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the program and all planned kernels were compared."""
        return bool(self.inputs) and self.whole + self.sliced == self.kernels and not self.notes

    def describe(self) -> dict[str, object]:
        """The same as data, for JSON."""
        return {**asdict(self), "is_complete": self.is_complete}

    def format(self) -> str:
        """One line."""
        if not self.inputs:
            return "; ".join(("validated: no", *self.notes))
        text = f"validated: {self.whole + self.sliced} of {self.kernels} kernels as planned"
        if self.sliced:
            text += f" ({self.sliced} in a few iterations of their outer loops)"
        return "; ".join((f"{text}, the program with inputs {', '.join(self.inputs)}", *self.notes))
