"""Widths of the weights layer by layer: accuracy against multipliers, block RAM and cycles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.compile_model import compile_model_to_hardware
from tg2hdl.quantization import quantize
from tg2hdl.quantized_model import QuantizedModel
from tg2hdl.report.charts import Dot, Series, scatter
from tg2hdl.report.page import page_of
from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_file
from tg2hdl_quant.graph import QuantizationReport

__all__ = ["Candidate", "WidthSearch", "search_widths"]


@dataclass(frozen=True)
class Candidate:
    """One choice of widths.

    Parameters
    ----------
    bits : dict of str to int
        Width of the weights of each layer (bits).
    quality : float
        Share of right classes, of answers like the float model's without labels, or for outputs that are not scores the
        signal to noise ratio (dB).
    sqnr : float
        Of the outputs (dB).
    multipliers, block_rams, luts, cycles : int
        Of the compiled design; the LUTs are estimated.
    on_front : bool
        Whether no other candidate is as good in everything and better in something.
    """

    bits: dict[str, int]
    quality: float
    sqnr: float
    multipliers: int
    block_rams: int
    luts: int
    cycles: int
    on_front: bool = False

    @property
    def costs(self) -> tuple[int, ...]:
        """The costs, which should be small."""
        return self.multipliers, self.block_rams, self.luts, self.cycles


@dataclass(frozen=True)
class WidthSearch:
    """All candidates, from the widest to the narrowest; prints as a table.

    Parameters
    ----------
    measure : str
        Name of the quality.
    """

    measure: str
    candidates: tuple[Candidate, ...]

    @property
    def front(self) -> tuple[Candidate, ...]:
        """The Pareto front."""
        return tuple(c for c in self.candidates if c.on_front)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        layers = tuple(self.candidates[0].bits)
        rows = [(*layers, self.measure, "SQNR dB", "multipliers", "block RAMs", "LUTs", "cycles", "front")]
        for c in self.candidates:
            quality = f"{c.quality:.1f}" if self.measure == "SQNR" else f"{c.quality:.2%}"
            figures = (*(str(c.bits[n]) for n in layers), quality, f"{c.sqnr:.1f}", *map(str, c.costs))
            rows.append((*figures, "*" if c.on_front else ""))
        widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def plot(self, path: str | PathLike[str]) -> Path:
        """Write an HTML file: quality against each cost, the front as a line."""
        names = ("multipliers", "block RAMs", "LUTs", "cycles")
        sections = []
        for place, name in enumerate(names):
            series = []
            for chosen, label in ((self.candidates, "tried"), (self.front, "Pareto front")):
                points = sorted(chosen, key=lambda c: (c.costs[place], c.quality))
                dots = [
                    Dot(c.costs[place], c.quality, ", ".join(f"{n}: {b}" for n, b in c.bits.items()))
                    for c in points
                ]
                is_front = label == "Pareto front"
                series.append(Series(label, dots, 0 if is_front else 7, line=is_front))
            body = scatter(series, x=name, y=self.measure, caption=f"{self.measure} over {name}.")
            sections.append({"name": name.replace(" ", "-"), "title": name, "body": body})
        return write_file(path, page_of("Widths of the layers", sections))


def search_widths(
    model: Callable[..., Any],
    samples: Any,
    *,
    labels: npt.ArrayLike | None = None,
    widths: Sequence[int] = (8, 4, 2),
    multipliers: int | None = None,
    part: str = "ecp5-45k",
    advance: Callable[[], None] = lambda: None,
    **options: Any,
) -> WidthSearch:
    """Narrow the layer that costs least accuracy, again and again, and compile each step.

    Parameters
    ----------
    model, samples, labels, options
        As for `tg2hdl.quantize`.
    widths : sequence of int
        Widths of weights to choose from (bits), the widest first.
    multipliers : int, optional
        As for `tg2hdl.compile`.
    part : str
        FPGA part of the estimates.
    advance : callable
        Called after each quantization.

    Returns
    -------
    WidthSearch
        The path of the search, and the same width for all layers.

    Raises
    ------
    InputError
        For widths that do not fall, or a model without weights.
    """
    if len(widths) < 2 or any(b >= a for a, b in itertools.pairwise(widths)):
        raise InputError(f"widths {tuple(widths)} do not fall", hint="give at least two, e.g. (8, 4, 2)")
    if "weight_bits" in options or "layers" in options:
        raise InputError(
            "a search chooses the widths of weights itself", hint="leave out weight_bits and layers"
        )

    # One kind of scale for all, so that only widths differ.
    options.setdefault("requantization", "multiplier")

    def quantized(bits: dict[str, int]) -> QuantizedModel:
        made = quantize(model, samples, labels=labels, weight_bits=widths[0], layers=bits, **options)
        advance()
        return made

    widest = quantized({})
    layers = [row.name for row in _report(widest).layers if row.kind == "weights"]
    if not layers:
        raise InputError("the model has no weights", hint="quantize it with tg2hdl.quantize")
    bits = dict.fromkeys(layers, widths[0])
    found = {tuple(bits.values()): widest}
    for width in widths[1:]:
        found[(width,) * len(layers)] = quantized(dict.fromkeys(layers, width))
    while narrower := [n for n in layers if bits[n] > widths[-1]]:
        tried = {}
        for name in narrower:
            tried[name] = bits | {name: widths[list(widths).index(bits[name]) + 1]}
        models = {name: quantized(choice) for name, choice in tried.items()}
        best = max(narrower, key=lambda n: (_quality(models[n])[1], _report(models[n]).output_sqnr))
        bits = tried[best]
        found[tuple(bits.values())] = models[best]
    examples = [np.asarray(s[0]) for s in (samples if isinstance(samples, tuple) else (samples,))]
    candidates = []
    for choice, made in found.items():
        accelerator = compile_model_to_hardware(made, *examples, multipliers=multipliers)
        needs = accelerator.fits(part).needs
        candidates.append(
            Candidate(
                dict(zip(layers, choice, strict=True)),
                _quality(made)[1],
                _report(made).output_sqnr,
                needs.get("dsp", 0),
                needs["bram"],
                needs.get("lut", 0),
                accelerator.predicted_cycles,
            )
        )
    candidates.sort(key=lambda c: tuple(-b for b in c.bits.values()))
    return WidthSearch(_quality(widest)[0], _with_front(candidates))


def _quality(model: QuantizedModel) -> tuple[str, float]:
    report = _report(model)
    if report.accuracy is not None:
        return "accuracy", report.accuracy
    if report.agreement is not None:
        return "agreement", report.agreement
    return "SQNR", report.output_sqnr


def _report(model: QuantizedModel) -> QuantizationReport:
    assert isinstance(model.report, QuantizationReport)
    return model.report


def _with_front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    def beats(a: Candidate, b: Candidate) -> bool:
        first, second = (-a.quality, *a.costs), (-b.quality, *b.costs)
        return all(x <= y for x, y in zip(first, second, strict=True)) and first != second

    return tuple(replace(c, on_front=not any(beats(o, c) for o in candidates)) for c in candidates)
