"""The codes that a quantizer makes of every code that it can be given, in the float32 arithmetic of the file.

Between a dequantizer and a quantizer, where each element depends on one code, there are a few hundred cases an element.
All of them are computed, so that an integer form can be made of them, and proven by them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors import ELEMENTWISE, MOVEMENT, Quantizer, TensorGraph, TensorNode, evaluate_nodes

__all__ = ["CodeObserver", "ObservedCodes", "below", "constants", "evaluated", "is_certain"]

_MOST = 1 << 24
"""Most elements times codes that are computed."""

_MOST_CODES = 1 << 10
_NEAR_TIE = 1e-4
"""Distance from a tie (steps) below which the last bits of a float32 function can decide."""
_ROUNDED_CORRECTLY = (ELEMENTWISE.keys() | MOVEMENT) - {"EXP2", "LOG2", "SIN", "POW"}


@dataclass(frozen=True, eq=False)
class ObservedCodes:
    """Codes for each code of one dequantizer.

    Parameters
    ----------
    source : Quantizer
        Of the dequantizer.
    codes : ndarray of int64
        First axis: the codes of the dequantizer, from the smallest one on; then the shape of the quantized tensor.
    is_certain : bool
        Whether another implementation of the file's operators gives the same codes, see `is_certain`.
    """

    source: Quantizer
    codes: npt.NDArray[np.int64]
    is_certain: bool


class CodeObserver:
    """Observes the quantizers of a graph as the file has them, before anything is simplified."""

    def __init__(self, graph: TensorGraph) -> None:
        self._graph = graph
        self._constant = constants(graph)
        self._places: dict[int, int] = {}
        for number, node in enumerate(graph.nodes):
            if node.op == "quantize":
                # A quantizer in two places is in none.
                self._places[id(node.arg)] = -1 if id(node.arg) in self._places else number

    def codes(self, quantizer: Quantizer) -> ObservedCodes | None:
        """The codes of a quantizer; None where an element depends on more than one code, or there are too many."""
        number = self._places.get(id(quantizer), -1)
        if number < 0:
            return None
        source = self._graph.nodes[number].sources[0]
        base = self._base(source)
        if base is None:
            return None
        given = self._graph.nodes[base].arg
        count = given.high - given.low + 1
        largest = max(int(np.prod(self._graph.nodes[n].shape)) for n in (base, source))
        if count > _MOST_CODES or count * largest > _MOST:
            return None
        values = given.values(np.arange(given.low, given.high + 1).reshape(-1, *(1,) * given.scale.ndim))
        shape = self._graph.nodes[base].shape
        values = values.reshape(count, *(1,) * (len(shape) + 1 - values.ndim), *values.shape[1:])
        found = evaluated(self._graph, base, np.broadcast_to(values, (count, *shape)), source)
        used = {self._graph.nodes[n].op for n in below(self._graph, source) if not self._constant[n]}
        certain = is_certain(used - {"dequantize"}, found, quantizer)
        return ObservedCodes(given, quantizer.codes(found).astype(np.int64), certain)

    def _base(self, number: int) -> int | None:
        """The only dequantizer of codes that vary, if every path to it moves elements alike."""
        found: dict[int, tuple[int, tuple[Any, ...]] | None] = {}
        for n in below(self._graph, number):
            node = self._graph.nodes[n]
            if self._constant[n]:
                found[n] = None
                continue
            if node.op == "dequantize":
                found[n] = (n, ())
                continue
            if node.op == "input":
                return None
            sources = [path for s in node.sources if (path := found[s]) is not None]
            if not sources:
                found[n] = None
            elif node.op in MOVEMENT:
                base, path = sources[0]
                found[n] = base, (*path, (node.op, str(node.arg), node.shape))
            elif node.op in ELEMENTWISE and len(set(sources)) == 1:
                shapes = {self._graph.nodes[s].shape for s in node.sources if found[s] is not None}
                if len(shapes) > 1:
                    return None
                base, path = sources[0]
                found[n] = (base, path) if shapes == {node.shape} else (base, (*path, node.shape))
            else:
                return None
        last = found[number]
        return None if last is None else last[0]


def is_certain(operations: set[str], values: npt.NDArray[Any], quantizer: Quantizer) -> bool:
    """Whether codes of float32 values are the same with any implementation of the operations.

    Sums, products and the like are rounded correctly by all; of a function such as a sigmoid the last bits differ,
    which only a value next to a tie shows.

    Parameters
    ----------
    operations : set of str
        Names of those between dequantizers and quantizer.
    values : ndarray
        In float32, before the quantizer.
    quantizer : Quantizer
    """
    if operations <= _ROUNDED_CORRECTLY:
        return True
    ends = quantizer.low - 1, quantizer.high + 1
    steps = np.nan_to_num(np.asarray(values, np.float64) / quantizer.scale + quantizer.zero, nan=ends[0])
    distance = np.abs(np.clip(steps, *ends) % 1 - 0.5)
    return quantizer.is_plain and not np.any(distance < _NEAR_TIE)


def constants(graph: TensorGraph) -> list[bool]:
    """Whether each node is made of constants only."""
    found: list[bool] = []
    for node in graph.nodes:
        found.append(node.op == "const" or (bool(node.sources) and all(found[s] for s in node.sources)))
    return found


def evaluated(graph: TensorGraph, base: int, values: npt.NDArray[Any], wanted: int) -> npt.NDArray[Any]:
    """A node for values of another one, whose first axis counts cases.

    Parameters
    ----------
    graph : TensorGraph
    base : int
        Number of the node that has the values.
    values : ndarray
    wanted : int
        Number of the node to compute.
    """
    nodes = list(graph.nodes[: max(base, wanted) + 1])  # constants are folded, also to an earlier one
    nodes[base] = TensorNode("input", (), 0, nodes[base].shape, nodes[base].dtype)
    return evaluate_nodes(replace(graph, nodes=tuple(nodes)), [values], [wanted])[wanted]


def below(graph: TensorGraph, number: int, ends: Collection[int] | None = None) -> list[int]:
    """A node and all that it is made of, down to some nodes, or to dequantizers; operands first.

    Parameters
    ----------
    graph : TensorGraph
    number : int
        Of the node.
    ends : collection of int, optional
        Nodes that are not followed; dequantizers unless given.
    """
    found: set[int] = set()
    stack = [number]
    while stack:
        n = stack.pop()
        if n not in found:
            found.add(n)
            is_end = graph.nodes[n].op == "dequantize" if ends is None else n in ends
            stack.extend(() if is_end else graph.nodes[n].sources)
    return sorted(found)
