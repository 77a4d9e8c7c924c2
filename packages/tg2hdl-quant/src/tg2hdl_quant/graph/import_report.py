"""What became of a model that brings its own scales."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["ImportReport", "Requantization"]


@dataclass(frozen=True)
class Requantization:
    """How sums become codes.

    Parameters
    ----------
    name : str
        Layer, as the file names what quantizes it.
    kind : str
        ``same`` (no arithmetic), ``shift``, ``multiplier`` (proven to round as float32 does, for every sum),
        ``float32`` (a float32 product in integers), ``table``, ``sum`` (of several scales), ``approximate`` or
        ``float``.
    bits : int
        Width of the multiplier (bits); of a table, of its index.
    differs : float or None
        Share of all operand values for which a code differs from ONNX Runtime's formula, where all were compared.
    """

    name: str
    kind: str
    bits: int = 0
    differs: float | None = None


@dataclass(frozen=True)
class ImportReport:
    """What became of each quantizer of a model, and what stayed in float.

    Parameters
    ----------
    layers : tuple of Requantization
    in_float : tuple of str
        Operations that have no integer form, by the names that the model gives them.
    float_sums : tuple of str
        Operators that ONNX Runtime sums in float32 and this model in integers: codes may differ at ties.
    """

    layers: tuple[Requantization, ...]
    in_float: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    float_sums: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether every code is proven to be that of ONNX Runtime's integer kernels, for the codes before it.

        Without these kernels ONNX Runtime adds float32 products in an order of its own: codes next to a tie may differ.
        """
        exact = ("same", "shift", "multiplier", "float32")
        unknown = self.in_float or self.float_sums
        return not unknown and all(r.kind in exact or r.differs == 0 for r in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.layers), default=4)
        lines = [f"{'layer'.ljust(width)}  codes by      bits  differs"]
        for r in self.layers:
            differs = "-" if r.differs is None else f"{r.differs:.4%}"
            lines.append(f"{r.name.ljust(width)}  {r.kind.ljust(11)}  {r.bits or '-':>5}  {differs:>7}")
        kinds = Counter(r.kind for r in self.layers)
        lines.append(", ".join(f"{count} by {kind}" for kind, count in kinds.most_common()))
        lines.append("left in float: " + (", ".join(self.in_float) or "nothing"))
        if self.float_sums:
            sums = ", ".join(self.float_sums)
            lines.append(
                f"sums that ONNX Runtime rounds to float32, here exact (codes may differ at ties): {sums}"
            )
        lines += [f"warning: {w}" for w in self.warnings]
        return "\n".join(lines)
