"""Scales of activations, of the features of inputs, of channels between layers, and of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.tensors import ELEMENTWISE
from tg2hdl_quant.graph.ranges import Observed, registered_method
from tg2hdl_quant.graph.steps import Plan
from tg2hdl_quant.graph.values import compact, move_array

__all__ = [
    "activation_scale",
    "channel_factors",
    "equalization_method",
    "feeds_only_weights",
    "has_feature_scales",
    "weight_scales",
]

Array = npt.NDArray[Any]


def activation_scale(values: Array, bound: float, limit: int, low: int, power_of_two: bool) -> float:
    """Value of a step so that `limit` steps reach `bound`; of two powers of two the one that errs less."""
    if not bound > 0:
        return 1.0
    # Scales are float32, so that a file with them says the same.
    scale = float(np.float32(max(bound / limit, 2.0**-60)))
    if not power_of_two:
        return scale
    exponent = int(np.ceil(np.log2(scale) - 1e-9))
    return min(
        (2.0**exponent, 2.0 ** (exponent - 1)),
        key=lambda s: float(np.square(np.clip(np.rint(values / s), low, limit) * s - values).mean()),
    )


def weight_scales(
    weights: Array, axes: tuple[int, ...], limit: int, power_of_two: bool, search: bool
) -> Array:
    """Scale of each channel: axes are those over which a channel extends.

    Parameters
    ----------
    search : bool
        Clip the largest weights where that makes the squared error smaller.
    """
    largest = np.abs(weights).max(axes, keepdims=True).astype(np.float64)
    base = np.where(largest > 0, largest / limit, 1.0)
    if power_of_two:
        exponent = np.ceil(np.log2(base) - 1e-9)
        candidates = [np.exp2(exponent - k) for k in range(3 if search else 2)]
    else:
        factors = np.linspace(1.0, 0.4, 25) if search else (1.0,)
        candidates = [(base * f).astype(np.float32).astype(np.float64) for f in factors]
    return _best(weights, candidates, axes, limit)


def _best(weights: Array, candidates: list[Array], axes: tuple[int, ...], limit: int) -> Array:
    error: Callable[[Array], Array] = lambda s: np.square(  # noqa: E731
        np.clip(np.rint(weights / s), -limit, limit) * s - weights
    ).sum(axes, keepdims=True)
    best, least = candidates[0], error(candidates[0])
    for scale in candidates[1:]:
        errs = error(scale)
        best, least = np.where(errs < least, scale, best), np.minimum(errs, least)
    return best


_APART = 8
"""How many times the median range the largest one is."""


def has_feature_scales(plan: Plan, observed: Observed, number: int) -> bool:
    """Whether the features of an input get scales of their own, which the weights that read them take up."""
    shape = plan.graph.nodes[number].shape
    if len(shape) != 2 or shape[0] != 1 or observed.lows is None:
        return False
    assert observed.highs is not None
    spread = np.maximum(np.abs(observed.lows), np.abs(observed.highs))
    spread = spread[observed.highs > observed.lows]
    if not spread.size or spread.max() < _APART * np.median(spread):
        return False
    return feeds_only_weights(plan, number)


def feeds_only_weights(
    plan: Plan,
    number: int,
    between: frozenset[str] = frozenset({"reshape", "permute", "expand", "ADD", "MUL"}),
) -> bool:
    """Whether only layers with weights read a node, after operations of `between` with constants."""
    readers = plan.graph.consumers()
    stack = [number]
    while stack:
        for reader in readers[stack.pop()]:
            node = plan.graph.nodes[reader]
            constant = any(plan.graph.nodes[s].op == "const" for s in node.sources)
            weighted = [plan.contraction(r) is not None for r in readers[reader]]
            if node.op == "MUL" and constant and weighted and all(weighted):
                continue
            with_constant = node.op not in ELEMENTWISE or constant
            if reader in plan.functions or node.op not in between or not with_constant:
                return False
            stack.append(reader)
    return number not in plan.graph.outputs


Equalize = Callable[[Array, Array], Array]


def equalization_method(name: str | None) -> Equalize | None:
    """A registered method; None without a name.

    Raises
    ------
    InputError
        For a name that nothing registers.
    """
    if name is None:
        return None
    return registered_method("equalize", name, f"no equalization method {name!r}")


def channel_factors(plan: Plan, number: int, largest: Array, method: Equalize, power_of_two: bool) -> Array:
    """What each channel (axis 1) of a node that only weights read is divided by; broadcasts against it.

    Raises
    ------
    InputError
        For factors that are not positive, or of another shape.
    """
    shape = plan.graph.nodes[number].shape
    factors = np.asarray(method(largest, _weights_of_channels(plan, number)), np.float64)
    if factors.shape != largest.shape or not np.all(np.isfinite(factors)) or factors.min() <= 0:
        raise InputError(f"an equalization method gave no {len(largest)} positive factors")
    if power_of_two:
        factors = np.exp2(np.rint(np.log2(factors)))
    return factors.reshape(1, -1, *(1,) * (len(shape) - 2))


def _weights_of_channels(plan: Plan, number: int) -> Array:
    """Largest magnitude of the weights that each channel is multiplied with."""
    graph = plan.graph
    readers = graph.consumers()
    shape = graph.nodes[number].shape
    found = np.zeros(shape[1])
    channels = np.arange(shape[1]).reshape(1, -1, *(1,) * (len(shape) - 2))
    stack = [(number, channels)]
    while stack:
        current, places = stack.pop()
        for reader in readers[current]:
            node = graph.nodes[reader]
            if node.op == "MUL":
                weights = next(graph.nodes[s].arg for s in node.sources if graph.nodes[s].op == "const")
                at, magnitudes = np.broadcast_arrays(places, np.abs(weights))
                np.maximum.at(found, at.reshape(-1), magnitudes.reshape(-1))
                continue
            source = graph.nodes[current].shape
            if node.op == "max":
                moved = np.broadcast_to(places, source).max(node.arg)
            else:
                moved = move_array(node, places, source, fill=None)
            stack.append((reader, compact(moved)))
    return found
