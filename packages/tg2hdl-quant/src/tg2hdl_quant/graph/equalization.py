"""Scales of the channels of a tensor between layers, which the weights that read it take up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_quant.graph.steps import Plan
from tg2hdl_quant.graph.values import compact, move_array

__all__ = ["channel_factors", "equalization_method"]

Array = npt.NDArray[Any]
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
    known = {q.name: q.equalize for q in registry().quantizers() if q.equalize is not None}
    if name not in known:
        raise InputError(
            f"no equalization method {name!r}",
            notes=(f"registered: {', '.join(known)}",),
            hint="install the plugin that registers it, or name another",
        )
    method: Equalize = resolve(known[name])
    return method


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
