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
    doubt : str
        Why codes next to a tie may differ from ONNX Runtime's; empty where each is proven to be the same.
    """

    name: str
    kind: str
    bits: int = 0
    differs: float | None = None
    doubt: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether every code is proven to be ONNX Runtime's, for the codes that it is made of."""
        return not self.doubt


@dataclass(frozen=True)
class ImportReport:
    """What became of each quantizer of a model, and what stayed in float.

    Parameters
    ----------
    layers : tuple of Requantization
    in_float : tuple of str
        Operations that have no integer form, by the names that the model gives them.
    """

    layers: tuple[Requantization, ...]
    in_float: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether every code is proven to be that of ONNX Runtime, for the codes before it.

        ONNX Runtime has integer kernels for most layers: for activations of uint8 always, for those of int8 with the
        session option ``session.qdqisint8allowed``.  Without one it adds float32 products in an order of its own, so
        that codes next to a tie may differ; `Requantization.doubt` says so, unless the sums are exact in float32.
        """
        return not self.in_float and all(r.is_exact for r in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"is_exact": self.is_exact}

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.layers), default=4)
        lines = [f"{'layer'.ljust(width)}  codes by      bits  differs"]
        for r in self.layers:
            differs = "-" if r.differs is None else f"{r.differs:.4%}"
            lines.append(f"{r.name.ljust(width)}  {r.kind.ljust(11)}  {r.bits or '-':>5}  {differs:>7}")
        kinds = Counter(r.kind for r in self.layers)
        lines.append(", ".join(f"{count} by {kind}" for kind, count in kinds.most_common()))
        lines.append("left in float: " + (", ".join(self.in_float) or "nothing"))
        doubts: dict[str, list[str]] = {}
        for r in self.layers:
            if r.doubt:
                doubts.setdefault(r.doubt, []).append(r.name)
        if doubts:
            lines.append("codes next to a tie may differ from ONNX Runtime's:")
            lines += [f"  {', '.join(names)}: {doubt}" for doubt, names in doubts.items()]
        lines += [f"warning: {w}" for w in self.warnings]
        return "\n".join(lines)
