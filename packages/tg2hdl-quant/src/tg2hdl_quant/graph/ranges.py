"""Ranges of tensors from samples, by a registered method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError, QuantizerDef, registry
from tg2hdl_ir.tensors import TensorGraph, evaluate_nodes

__all__ = ["Observed", "calibration_method", "means", "observe", "registered_method"]

MASKED = 1e8
"""Magnitudes from here on are those of masks."""
_KEPT = 1 << 17
_CHUNK_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class Observed:
    """Values that a tensor took.

    Parameters
    ----------
    values : ndarray
        Some of them, chosen at random, with the smallest and the largest.
    low, high : float
        The smallest and the largest of all.
    channels : ndarray, optional
        Largest magnitude of each element of axis 1, of tensors of two and four axes.
    lows, highs : ndarray, optional
        Of each element of an input.
    """

    values: npt.NDArray[np.float64]
    low: float
    high: float
    channels: npt.NDArray[np.float64] | None = None
    lows: npt.NDArray[np.float64] | None = None
    highs: npt.NDArray[np.float64] | None = None


def observe(
    graph: TensorGraph, samples: Sequence[npt.NDArray[Any]], wanted: Iterable[int], seed: int
) -> dict[int, Observed]:
    """Values of some nodes on the samples; infinities, which masks write, are left out.

    Parameters
    ----------
    graph : TensorGraph
    samples : sequence of ndarray
        One array for each input; the first axis counts samples.
    wanted : iterable of int
        Numbers of the nodes.
    seed : int
        Of the choice of values that are kept.

    Raises
    ------
    InputError
        For a node with nothing left.
    """
    wanted = tuple(wanted)
    rng = np.random.default_rng(seed)
    count = len(samples[0])
    size = sum(int(np.prod(graph.nodes[n].shape)) for n in wanted) or 1
    step = max(1, min(count, _CHUNK_ELEMENTS // size, 64))
    kept: dict[int, list[npt.NDArray[Any]]] = {n: [] for n in wanted}
    bounds = {n: (np.inf, -np.inf) for n in wanted}
    channels: dict[int, Any] = {}
    for start in range(0, count, step):
        chunk = [s[start : start + step] for s in samples]
        values = evaluate_nodes(graph, chunk, wanted)
        share = max(1, _KEPT * len(chunk[0]) // count)
        for number in wanted:
            if values[number].ndim in (3, 5):
                axes = (0, 1, *range(3, values[number].ndim))
                channels[number] = np.maximum(channels.get(number, 0.0), np.abs(values[number]).max(axes))
            flat = np.asarray(values[number], np.float64).reshape(-1)
            if graph.nodes[number].op != "input":
                flat = flat[np.abs(flat) < MASKED]
            if not flat.size:
                continue
            low, high = bounds[number]
            bounds[number] = (min(low, float(flat.min())), max(high, float(flat.max())))
            kept[number].append(flat if flat.size <= share else rng.choice(flat, share, replace=False))
    found = {}
    for number in wanted:
        low, high = bounds[number]
        if low > high:
            node = graph.nodes[number]
            raise InputError(
                f"all values of {node.label or node.op} on the samples are beyond {MASKED:.0e}: "
                "they are taken for masks",
                where=f"layer {node.label or node.op}",
                hint="scale the inputs or the weights down",
            )
        values_kept = np.concatenate([*kept[number], [low, high]])
        node = graph.nodes[number]
        if node.op == "input":
            array = np.asarray(samples[node.arg], np.float64)
            found[number] = Observed(values_kept, low, high, None, array.min(0), array.max(0))
        else:
            found[number] = Observed(values_kept, low, high, channels.get(number))
    return found


def means(
    graph: TensorGraph, samples: Sequence[npt.NDArray[Any]], wanted: Iterable[int]
) -> dict[int, npt.NDArray[np.float64]]:
    """Mean of each element of some nodes over the samples.

    Parameters
    ----------
    graph : TensorGraph
    samples : sequence of ndarray
        One array for each input; the first axis counts samples.
    wanted : iterable of int
        Numbers of the nodes.
    """
    wanted = tuple(wanted)
    totals: dict[int, Any] = dict.fromkeys(wanted, 0.0)
    count = len(samples[0])
    for start in range(0, count, 32):
        values = evaluate_nodes(graph, [s[start : start + 32] for s in samples], wanted)
        for number in wanted:
            totals[number] = totals[number] + values[number].sum(0, dtype=np.float64)
    return {number: total / count for number, total in totals.items()}


def calibration_method(name: str) -> Callable[[Observed, int], tuple[float, float]]:
    """``(observed, bits) -> (low, high)`` of a registered method.

    The function raises a `PluginError` with the name of the plugin for a range that is none.

    Raises
    ------
    InputError
        For a name that nothing registers.
    """
    method = registered_method("calibrate", name, f"no calibration method {name!r}")

    def calibrate(observed: Observed, bits: int) -> tuple[float, float]:
        found = registry().call(method, "calibrate", observed.values, bits)
        try:
            low, high = map(float, found)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise registry().fault(method, f": calibrate gave {found!r:.60}, not a finite range (low, high)")
        return low, high

    return calibrate


def registered_method(field: str, name: str, message: str) -> QuantizerDef:
    """The registered `QuantizerDef` of a name that has a field.

    Parameters
    ----------
    field : str
        Of `QuantizerDef`, such as ``"calibrate"``.
    name : str
    message : str
        Of the error.

    Raises
    ------
    InputError
        With the message, for a name that nothing registers.
    """
    known = {q.name: q for q in registry().quantizers() if getattr(q, field) is not None}
    if name not in known:
        raise InputError(
            message,
            notes=(f"registered: {', '.join(known)}",),
            hint="install the plugin that registers it, or name another",
        )
    return known[name]
