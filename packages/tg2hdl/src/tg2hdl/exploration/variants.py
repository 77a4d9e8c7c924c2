"""Variants of a model: the model as it is, or in integers with a width of the weights of each layer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.exploration.widths import Judged, Widths, chosen_widths, widths_name
from tg2hdl.loaded_model import load_model
from tg2hdl.quantization import quantize, sample_arrays, samples_as_declared
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl_backend import CapturedProgram, tensor_graph
from tg2hdl_ir import CapacityError, InputError
from tg2hdl_ir.tensors import evaluate_graph
from tg2hdl_quant.graph import QuantizationReport
from tg2hdl_quant.graph.samples import checked_labels

__all__ = ["WidthVariant", "quantized_variants", "samples_key"]

Array = npt.NDArray[Any]

_BITS = range(2, 17)
"""Widths that weights may have (bits)."""


@dataclass(frozen=True, eq=False)
class WidthVariant:
    """A model that points are designs of.

    Parameters
    ----------
    name : str
        Widths of its weights: ``8``, or ``w1=4 w2=8``; empty for the model as it is.
    captured : CapturedProgram
    gives_codes : bool
        Whether its outputs are codes.
    judged : Judged, optional
        Its quality.
    model : QuantizedModel, optional
        The model in integers.
    """

    captured: CapturedProgram
    gives_codes: bool = True
    name: str = ""
    judged: Judged | None = None
    model: QuantizedModel | None = field(default=None, repr=False)


def samples_key(samples: Any, labels: Any, bits: Sequence[int]) -> str:
    """Text that differs for other samples, labels or widths.

    Parameters
    ----------
    samples
        Arrays, one for each input, by position or name.
    labels
        Class of each sample.
    bits : sequence of int
        Widths of weights.
    """
    digest = hashlib.sha256()
    for name, array in (*_arrays(samples).items(), ("labels", () if labels is None else labels)):
        array = np.ascontiguousarray(array)
        digest.update(repr((name, array.shape, array.dtype.str)).encode() + array.tobytes())
    return f"{tuple(bits)} {digest.hexdigest()[:40]}"


def quantized_variants(
    model: Callable[..., Any] | str | PathLike[str],
    samples: Any,
    labels: npt.ArrayLike | None,
    bits: Sequence[int],
    *,
    name: str | None,
    most_loss: float | None,
    gives_codes: bool,
    known: dict[str, list[float]],
    progress: Callable[[str], None],
) -> list[WidthVariant]:
    """The model in integers with the widths of weights that are worth planning.

    Half of the samples, those of even number, choose the scales; the other half judges: accuracy with labels, else how
    many of its answers are those of the float model.

    Parameters
    ----------
    model, samples, labels
        As for `tg2hdl.quantize`.
    bits : sequence of int
        Widths that a layer may have.
    most_loss : float, optional
        Largest loss of accuracy (percentage points).
    known : dict of str to list of float
        Accuracy and loss by the name of widths; grows.

    Raises
    ------
    InputError
        For bad widths or labels, or fewer than four samples.
    CapacityError
        When no widths keep the loss.
    """
    widths = _checked(bits)
    arrays = _arrays(samples)
    count = min(map(len, arrays.values()), default=0)
    if count < 4:
        raise InputError(
            f"{count} samples are too few to choose scales and to judge them",
            hint="give some hundred, e.g. 512",
        )
    keys = list(arrays)
    of_list = keys == list(range(len(keys)))
    first, second = ({k: a[n::2] for k, a in arrays.items()} for n in (0, 1))
    right = checked_labels(labels, count)

    def quantized(layers: Mapping[str, int]) -> QuantizedModel:
        given = tuple(first.values()) if of_list else first
        # One kind of scale for all, so that only widths differ.
        return quantize(
            model, given, weight_bits=max(widths), layers=dict(layers), requantization="multiplier"
        )

    widest = quantized({})
    assert isinstance(widest.report, QuantizationReport), "it was quantized"
    rows = {row.name: row for row in widest.report.layers if row.kind == "weights"}
    if not rows:
        raise InputError("the model has no weights whose widths could differ", hint="leave out --bits")
    weights = {name: math.prod(tensor.shape) for name, tensor in widest.named_weights().items()}
    sizes = {layer: _size(weights, layer) for layer in rows}
    held = [second[key] for key in (widest.input_names if not of_list else keys)]
    judge = _Judge(model, held, None if right is None else right[1::2])

    def judged(layers: Mapping[str, int]) -> Judged:
        tag = widths_name(layers)
        if tag not in known:
            found = judge.of(widest if set(layers.values()) == {max(widths)} else quantized(layers))
            known[tag] = [found.accuracy, found.loss]
            progress(f"{len(known)} choices of widths judged: {tag} loses {found.loss:.2f} points")
        accuracy, loss = known[tag]
        return Judged(accuracy, loss, judge.measure)

    chosen = chosen_widths(sizes, widths, judged)
    kept = [w for w in chosen if most_loss is None or w.judged.loss <= most_loss + 1e-9]
    if not kept:
        least = min(chosen, key=lambda w: w.judged.loss)
        raise CapacityError(
            f"no widths of {', '.join(map(str, widths))} bits lose at most {most_loss:g} points of {judge.measure}",
            notes=(f"{least.name} bits lose {least.judged.loss:.2f}",),
            hint="allow a larger loss, or wider weights",
        )
    return [_variant(each, quantized(each.bits), name, gives_codes) for each in kept]


def _variant(widths: Widths, model: QuantizedModel, name: str | None, gives_codes: bool) -> WidthVariant:
    examples = [np.zeros(spec.shape, np.float32) for spec in model.inputs]
    loaded = load_model(model, examples, name=name, codes=gives_codes)
    return WidthVariant(loaded.capture(), loaded.gives_codes, widths.name, widths.judged, model)


class _Judge:
    """Accuracy on samples that chose no scale."""

    def __init__(self, model: Any, samples: Sequence[Array], labels: Array | None) -> None:
        from tg2hdl.model_file import load_model_file

        if isinstance(model, str | PathLike):
            model = load_model_file(str(model), [s[:1] for s in samples], True).model
        self._samples = list(samples)
        if hasattr(model, "inputs"):
            shaped = samples_as_declared(model.inputs, samples, True)
        else:
            shaped = [s[:, None] for s in samples]
        graph = tensor_graph(model, *(s[0] for s in shaped))
        self._float = np.asarray(evaluate_graph(graph, shaped)[0]).reshape(len(samples[0]), -1)
        self.measure = "accuracy" if labels is not None else "agreement with the float model"
        if self._float.shape[1] < 2:
            raise InputError(
                "the model gives one number: no class is right or wrong",
                hint="search widths by signal to noise ratio: tg2hdl quantize --search",
            )
        self._right = self._float.argmax(1) if labels is None else labels
        self._best = self._share(self._float)

    def _share(self, scores: Array) -> float:
        return float((scores.reshape(len(scores), -1).argmax(1) == self._right).mean())

    def of(self, model: QuantizedModel) -> Judged:
        found = model.evaluate(*self._samples)
        first = next(iter(found.values())) if isinstance(found, Mapping) else found
        first = first[0] if isinstance(first, tuple | list) else first
        accuracy = self._share(np.asarray(first))
        return Judged(accuracy, 100 * (self._best - accuracy), self.measure)


def _checked(bits: Sequence[int]) -> list[int]:
    widths = sorted(set(bits), reverse=True)
    if not widths or any(isinstance(b, bool) or b not in _BITS for b in widths):
        raise InputError(
            f"bits {', '.join(map(str, bits))} are not widths of weights",
            hint="give widths from 2 to 16, e.g. 4,6,8",
        )
    return widths


def _arrays(samples: Any) -> dict[Any, Array]:
    found = sample_arrays(samples)
    return found if isinstance(found, dict) else dict(enumerate(found))


def _size(weights: Mapping[str, int], layer: str) -> int:
    return max((n for name, n in weights.items() if name == layer or name.startswith(f"{layer}.")), default=1)
