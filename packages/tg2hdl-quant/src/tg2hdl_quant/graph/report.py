"""Errors of a quantization, per tensor and end to end, and integer forms of a model that brings its own scales."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError
from tg2hdl_ir.tensors import TensorGraph, evaluate_graph, evaluate_nodes
from tg2hdl_quant.graph.lowered import Lowered, quantize_border
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed

__all__ = ["ImportReport", "LayerReport", "QuantizationReport", "Requantization", "measure"]

Array = npt.NDArray[Any]
_MEASURED = 512
_POOR = 6.0
"""Below this ratio of signal to noise a tensor is warned of (dB)."""


@dataclass(frozen=True)
class LayerReport:
    """One tensor.

    Parameters
    ----------
    name : str
    kind : str
        ``weights``, ``input``, ``activation``, ``table``, ``select``, ``maximum`` or ``sum``.
    bits : int
        Width of its integers.
    scale : float
        Value of one step; the largest where channels have their own.
    scales : int
        Number of scales.
    sqnr : float
        Signal to quantization noise (dB): of weights against their float values, of activations against the float
        model on the samples, so that it has the noise of the layers before.
    clipped : float
        Share of the float values beyond the range.
    accumulator_bits : int or None
        Proven width of the sums of a layer with weights.
    """

    name: str
    kind: str
    bits: int
    scale: float
    scales: int
    sqnr: float
    clipped: float
    accumulator_bits: int | None = None


@dataclass(frozen=True)
class QuantizationReport:
    """Errors and accuracies of a quantization.

    Parameters
    ----------
    layers : tuple of LayerReport
    samples : int
        How many samples were measured.
    output_sqnr : float
        Of the outputs (dB).
    agreement : float or None
        Share of samples with the same largest output; None where outputs are not scores.
    float_accuracy, accuracy : float or None
        Share of right classes, when labels were given.
    in_float : tuple of str
        Operations that were left in float.
    warnings : tuple of str
    error_by_position : tuple of float
        Root mean square error of the outputs at each position of a sequence, the state carried from its begin.
    """

    layers: tuple[LayerReport, ...]
    samples: int
    output_sqnr: float
    agreement: float | None
    float_accuracy: float | None
    accuracy: float | None
    in_float: tuple[str, ...]
    warnings: tuple[str, ...]
    error_by_position: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [("layer", "kind", "bits", "scale", "scales", "SQNR dB", "clipped", "sum bits")]
        for row in self.layers:
            rows.append(
                (
                    row.name,
                    row.kind,
                    str(row.bits),
                    f"{row.scale:.4g}",
                    str(row.scales),
                    f"{row.sqnr:.1f}",
                    f"{row.clipped:.2%}",
                    "" if row.accumulator_bits is None else str(row.accumulator_bits),
                )
            )
        widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(w) if c < 2 else cell.rjust(w)
                for c, (cell, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.append(f"outputs: SQNR {self.output_sqnr:.1f} dB on {self.samples} samples")
        if self.agreement is not None:
            lines.append(f"agreement with the float model: {self.agreement:.2%}")
        if self.accuracy is not None and self.float_accuracy is not None:
            lines.append(f"accuracy: {self.accuracy:.2%}, float {self.float_accuracy:.2%}")
        if self.error_by_position:
            errors, part = np.array(self.error_by_position), -(-len(self.error_by_position) // 4)
            lines.append(
                f"error by position (RMS): {errors[:part].mean():.4g} in the first quarter, "
                f"{errors[-part:].mean():.4g} in the last, at most {errors.max():.4g} at {int(errors.argmax())}"
            )
        lines.append("left in float: " + (", ".join(self.in_float) or "nothing"))
        lines += [f"warning: {w}" for w in self.warnings]
        return "\n".join(lines)


def sqnr(reference: Array, value: Array) -> float:
    """Signal to quantization noise (dB); 200 without noise.

    Parameters
    ----------
    reference, value : ndarray
        Of one shape.
    """
    reference = np.asarray(reference, np.float64)
    noise = float(np.square(np.asarray(value, np.float64) - reference).sum())
    signal = float(np.square(reference).sum())
    if noise == 0:
        return 200.0
    return float(10 * np.log10(signal / noise)) if signal > 0 else -200.0


def measure(
    graph: TensorGraph,
    simple: TensorGraph,
    lowered: Lowered,
    samples: list[Array],
    labels: Array | None,
    options: QuantizeOptions,
    observed: dict[int, Observed],
) -> QuantizationReport:
    """Compare the integer graph with the float one on the samples.

    Parameters
    ----------
    graph : TensorGraph
        In float, as the model has it.
    simple : TensorGraph
        In canonical form, whose nodes the lowering names.
    lowered : Lowered
    samples : list of ndarray
        One array for each input; the first axis counts samples.
    labels : ndarray or None
        Class of each sample.
    options : QuantizeOptions
    observed : dict of int to Observed
        Values of nodes of `simple`.
    """
    chosen = np.linspace(0, len(samples[0]) - 1, min(_MEASURED, len(samples[0]))).astype(int)
    inputs = [s[chosen] for s in samples]
    integers = [
        quantize_border(lowered.graph, value, n, x)
        for n, (value, x) in enumerate(zip(lowered.inputs, inputs, strict=True))
    ]
    layers = [
        LayerReport(
            w.name,
            "weights",
            w.bits,
            float(w.scale.max()),
            w.scale.size,
            sqnr(w.weights, w.integers * w.scale),
            float((np.abs(w.weights) > ((1 << (w.bits - 1)) - 0.5) * w.scale).mean()),
            w.accumulator_bits,
        )
        for w in lowered.weights
    ]
    warnings = []
    for start in range(0, len(lowered.stored), 8):
        part = lowered.stored[start : start + 8]
        floats = evaluate_nodes(simple, inputs, [s.source for s in part])
        codes = evaluate_nodes(lowered.graph, integers, [s.value.node for s in part])
        for stored in part:
            reference = floats[stored.source]
            got = codes[stored.value.node] * stored.value.scale + stored.value.offset
            finite = np.abs(reference) < 1e8
            top = stored.value.high * stored.value.scale + stored.value.offset
            bottom = stored.value.low * stored.value.scale + stored.value.offset
            step = np.abs(stored.value.scale)
            beyond = ((reference > top + step / 2) | (reference < bottom - step / 2)) & finite
            clipped = float(beyond.mean())
            layers.append(
                LayerReport(
                    stored.name,
                    stored.kind,
                    stored.bits,
                    float(np.max(stored.value.scale)),
                    stored.value.scale.size,
                    sqnr(reference[finite], got[finite]),
                    clipped,
                )
            )
            known = observed.get(stored.source)
            if known is not None and known.low == known.high:
                warnings.append(f"{stored.name} is constant ({known.low:.4g}) on all samples")
            if clipped > 0.5:
                warnings.append(f"{stored.name} saturates on {clipped:.0%} of its values")
            elif layers[-1].sqnr < _POOR:
                warnings.append(f"{stored.name} keeps {layers[-1].sqnr:.1f} dB of its signal")
    results = evaluate_graph(lowered.graph, integers)
    expected = evaluate_graph(graph, inputs)[0]
    values = [np.asarray(g * v.scale + v.offset) for g, v in zip(results, lowered.outputs, strict=True)]
    scores = expected.reshape(len(chosen), -1)
    result = values[0].reshape(len(chosen), -1)
    several = scores.shape[1] > 1
    agreement = float((scores.argmax(1) == result.argmax(1)).mean()) if several else None
    float_accuracy = accuracy = None
    if labels is not None:
        right = labels[chosen]
        if several and labels.max() >= scores.shape[1]:
            raise InputError(
                f"label {int(labels.max())} for {scores.shape[1]} scores", hint="give class numbers, from 0"
            )
        float_accuracy = float((_classes(scores) == right).mean())
        accuracy = float((_classes(result) == right).mean())
    return QuantizationReport(
        tuple(layers),
        len(chosen),
        sqnr(expected, values[0].reshape(expected.shape)),
        agreement,
        float_accuracy,
        accuracy,
        lowered.in_float,
        tuple(warnings),
    )


def _classes(scores: Array) -> Array:
    """Class of the largest score; one score is a class number, or a logit."""
    if scores.shape[1] > 1:
        return np.asarray(scores.argmax(1))
    return np.asarray(scores[:, 0] > 0 if scores.dtype.kind == "f" else scores[:, 0])


@dataclass(frozen=True)
class Requantization:
    """How sums become codes.

    Parameters
    ----------
    name : str
        Layer, by the name of its quantizer in the file.
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
    """The integer form of each quantizer of a model, and the operations that stayed in float.

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
