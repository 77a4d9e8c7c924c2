"""An imported graph beside the float graph of the file: each layer on the same codes, each rounding next to its ties.

Every quantizer is cut: what reads its codes reads telling ones in both graphs, so that each layer is compared by itself
and differences do not add up.  Few sums of such codes lie next to a tie, so roundings are also given these sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import ValidationError
from tg2hdl_ir.tensors import Quantizer, TensorGraph, TensorNode, evaluate_nodes
from tg2hdl_quant.graph.import_report import Requantization
from tg2hdl_quant.graph.integer_bounds import Bounds
from tg2hdl_quant.graph.values import Sum, Value, compact
from tg2hdl_quant.imported.observed import constants, evaluated

__all__ = ["Cut", "Rounding", "check_import", "check_roundings"]

Array = npt.NDArray[Any]
KINDS = ("uniform", "zero", "near zero", "corners")
"""Codes of the quantizers; of ``zero`` the value is zero, so that only what is added is left."""
_MOST = 20_000_000
"""Most products of the comparison, unless it is to be full."""
_TIES = 256
"""Most ties of a rounding that are looked at."""
_MOST_SUMS = 1 << 20
_TIE, _DOUBT = 2.0**-14, 0.5
"""Distance from a tie (steps) within which codes may differ: of a layer that is proven, and of another one."""


@dataclass(frozen=True)
class Cut:
    """A quantizer of the file, and the integers that stand for its codes.

    Parameters
    ----------
    number : int
        In the float graph.
    made : int
        In the integer graph.
    bounds : (int, int)
        Smallest and largest integer.
    """

    number: int
    made: int
    bounds: Bounds


@dataclass(frozen=True)
class Rounding:
    """A sum of one scale, and the node with its codes, which are clipped to bounds."""

    name: str
    total: Sum
    quantizer: Quantizer
    bounds: Bounds
    made: int
    doubt: str


def check_roundings(graph: TensorGraph, integer: TensorGraph, roundings: Sequence[Rounding]) -> None:
    """Compare the codes of the sums on both sides of every tie.

    Raises
    ------
    ValidationError
        For the first layer with another code.
    """
    for rounding in roundings:
        _check_rounding(graph, integer, rounding)


def _check_rounding(graph: TensorGraph, integer: TensorGraph, rounding: Rounding) -> None:
    (term,), quantizer = rounding.total.terms, rounding.quantizer
    low, high = rounding.bounds
    if term.node == rounding.made or integer.nodes[term.node].op == "const" or term.low >= term.high:
        return
    rank = len(rounding.total.shape)
    scale, offset = (
        a.reshape((1,) * (rank + 1 - a.ndim) + a.shape)
        for a in map(compact, (term.scale, np.asarray(rounding.total.offset, np.float64)))
    )
    count = min(_TIES, _MOST_SUMS // max(scale.size, offset.size))
    codes = np.unique(np.linspace(low, high, count).astype(np.int64)).reshape(-1, *(1,) * rank)
    step = float(quantizer.scale.reshape(()))
    half = 0.5 if quantizer.rounding == "half_even" else 0.0
    below = np.floor(((codes - quantizer.zero.reshape(()) + half) * step - offset) / scale)
    sums = np.clip(np.concatenate([below, below + 1]), term.low, term.high)
    exact = sums * scale + offset
    slack = np.abs(exact) * 2.0**-20 + (_DOUBT if rounding.doubt else _TIE) * step
    least, most = (np.clip(quantizer.codes(exact + d), low, high) for d in (-slack, slack))
    given = sums.astype(integer.nodes[term.node].dtype.numpy())
    found = evaluated(integer, term.node, given, rounding.made)
    wrong = (found < least) | (found > most)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        value, expected = (np.broadcast_to(a, wrong.shape)[at] for a in (sums, quantizer.codes(exact)))
        raise _error(
            graph,
            f"layer {rounding.name!r} rounds the sum {int(value)} to {int(found[at])} instead of {int(expected)}",
            f"node {rounding.name!r} of the file",
        )


def _error(graph: TensorGraph, message: str, where: str, *notes: str) -> ValidationError:
    return ValidationError(
        f"tg2hdl made wrong integers of model {graph.name}: {message}",
        where=where,
        notes=notes,
        hint='report it with the file; keep_float=True computes its float operations, validate="off" skips this check',
    )


def check_import(
    graph: TensorGraph,
    integer: TensorGraph,
    borders: tuple[Sequence[Value], Sequence[Value]],
    cuts: Sequence[Cut],
    layers: Sequence[Requantization],
    *,
    is_full: bool = False,
) -> str:
    """Compare both graphs, layer by layer; a note where that would take too long, and was left out.

    Parameters
    ----------
    borders : tuple
        Values of the inputs and outputs of the integer graph.

    Raises
    ------
    ValidationError
        For the first layer with other codes, or an output with other values.
    """
    work = sum(
        int(np.prod(graph.nodes[n.sources[0]].shape)) for n in graph.nodes if n.op in ("sum", "max", "prod")
    )
    fitting = len(KINDS) if is_full else min(len(KINDS), _MOST // max(work, 1))
    if not fitting:
        return f"its {work:,} products were not compared with the float graph of the file"
    _Comparison(graph, integer, borders, cuts, layers, KINDS[:fitting]).run()
    return ""


class _Comparison:
    def __init__(
        self,
        graph: TensorGraph,
        integer: TensorGraph,
        borders: tuple[Sequence[Value], Sequence[Value]],
        cuts: Sequence[Cut],
        layers: Sequence[Requantization],
        kinds: Sequence[str],
    ) -> None:
        constant = constants(graph)
        self.graph, self.integer, self.borders, self.kinds = graph, integer, borders, kinds
        self.cuts = [c for c in cuts if not constant[c.number] and integer.nodes[c.made].op != "const"]
        self.doubts = {layer.name: layer.doubt for layer in layers}
        self.codes = self._codes()
        self.values = self._values()

    def run(self) -> None:
        """Compare the codes of all quantizers, then the outputs."""
        count = len(self.integer.inputs)
        places = {made: count + n for n, made in enumerate(dict.fromkeys(c.made for c in self.cuts))}
        nodes = list(self.integer.nodes)
        computed = {}
        for made, place in places.items():
            computed[made] = len(nodes)
            nodes.append(nodes[made])
            nodes[made] = TensorNode("input", (), place, nodes[made].shape, nodes[made].dtype)
        given = [self._integers(n) for n in range(count)] + [self.codes[made] for made in places]
        outputs = [v.node for v in self.borders[1]]
        integers = evaluate_nodes(
            replace(self.integer, nodes=tuple(nodes)), given, [*computed.values(), *outputs]
        )
        wanted = [self.graph.nodes[c.number].sources[0] for c in self.cuts]
        floats = self._floats(self.graph, [*wanted, *self.graph.outputs])
        for cut, source in zip(self.cuts, wanted, strict=True):
            self._compare(cut, source, integers[computed[cut.made]], floats[source])
        for number, (output, value) in enumerate(zip(self.graph.outputs, self.borders[1], strict=True)):
            if self.graph.nodes[output].dtype.is_float:
                self._compare_output(number, integers[value.node], floats[output])

    def _floats(self, graph: TensorGraph, wanted: Sequence[int]) -> Mapping[int, Array]:
        nodes = list(graph.nodes)
        count = len(graph.inputs)
        for n, cut in enumerate(self.cuts):
            node = nodes[cut.number]
            nodes[cut.number] = TensorNode("input", (), count + n, node.shape, node.dtype)
        given = [*self.values, *(self.codes[c.made] for c in self.cuts)]
        return evaluate_nodes(replace(graph, nodes=tuple(nodes)), given, wanted)

    def _codes(self) -> dict[int, Array]:
        """Codes of each cut of the integer graph, a sample for each kind."""
        found = {}
        for n, cut in enumerate(self.cuts):
            node = self.integer.nodes[cut.made]
            zero = int(np.clip(self.graph.nodes[cut.number].arg.zero.reshape(-1)[0], *cut.bounds))
            samples = [_telling(kind, node.shape, zero, cut.bounds, n) for kind in self.kinds]
            found[cut.made] = np.stack(samples).astype(node.dtype.numpy())
        return found

    def _integers(self, number: int) -> Array:
        """What the integer graph gets: codes, or values of an input that has none."""
        node = self.integer.nodes[self.integer.inputs[number]]
        rng = np.random.default_rng(1000 + number)
        shape = (len(self.kinds), *node.shape)
        value = self.borders[0][number]
        if node.dtype.is_float:
            return (rng.normal(size=shape) * 2).astype(node.dtype.numpy())
        if node.dtype.is_bool or value.high - value.low > 1 << 16:
            return rng.integers(0, 2, shape).astype(node.dtype.numpy())
        return rng.integers(value.low, value.high + 1, shape).astype(node.dtype.numpy())

    def _values(self) -> list[Array]:
        """What the float graph gets, for what the integer graph gets."""
        found = []
        for number, value in enumerate(self.borders[0]):
            codes, node = self._integers(number), self.graph.nodes[self.graph.inputs[number]]
            if node.dtype.is_float and codes.dtype.kind in "iu":
                values = (codes.astype(np.int64) - value.zero).astype(np.float32)
                codes = values * value.scale.astype(np.float32) + value.offset.astype(np.float32)
            found.append(codes.astype(node.dtype.numpy()))
        return found

    def _compare(self, cut: Cut, source: int, integers: Array, floats: Array) -> None:
        node = self.graph.nodes[cut.number]
        quantizer: Quantizer = node.arg
        found, expected = integers.astype(np.int64), quantizer.codes(floats)
        if np.array_equal(found, expected):
            return
        name = node.label or f"quantize{cut.number}"
        doubt = any(d for n, d in self.doubts.items() if n == name or n.startswith(f"{name}."))
        exact = self._floats(_in_double(self.graph), [source])[source]
        steps = np.abs(exact) * 2.0**-20 + (_DOUBT if doubt or name not in self.doubts else _TIE) * (
            quantizer.scale.astype(np.float64)
        )
        least, most = (quantizer.codes(exact + d) for d in (-steps, steps))
        wrong = ((found < least) | (found > most)) & (found != expected) & np.isfinite(exact)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise _error(
                self.graph,
                f"{int(wrong.sum())} of {wrong.size} codes of layer {name!r} are not those of the file, "
                f"first {found[at]} instead of {int(expected[at])}",
                f"node {name!r} of the file: it quantizes {self.graph.nodes[source].label or 'a tensor'}",
                self._place(at),
            )

    def _compare_output(self, number: int, integers: Array, floats: Array) -> None:
        value = self.borders[1][number]
        found = integers.astype(np.float64)
        if integers.dtype.kind in "iu":
            found = (found - value.zero) * value.scale + value.offset
        expected = floats.astype(np.float64)
        reach = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        wrong = np.isfinite(expected) & ~(np.abs(found - expected) <= 1e-3 * reach)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise _error(
                self.graph,
                f"{int(wrong.sum())} of {wrong.size} values of output {number} are not those of the file, "
                f"first {found[at]:.6g} instead of {expected[at]:.6g}",
                f"output {number}, made by {self.graph.nodes[self.graph.outputs[number]].label or 'a sum'}",
                self._place(at),
            )

    def _place(self, at: tuple[int, ...]) -> str:
        return f"codes {self.kinds[at[0]]!r} before it, element {at[1:]}"


def _telling(kind: str, shape: tuple[int, ...], zero: int, bounds: Bounds, seed: int) -> Array:
    """Codes of one sample."""
    rng, (low, high) = np.random.default_rng(seed), bounds
    if kind == "uniform":
        return rng.integers(low, high + 1, shape)
    if kind == "zero":
        return np.full(shape, zero)
    if kind == "near zero":
        return np.clip(zero + rng.integers(-6, 7, shape), low, high)
    return rng.choice([low, high], shape)


def _in_double(graph: TensorGraph) -> TensorGraph:
    """The graph with float64 where it has float32."""

    def widened(node: TensorNode) -> TensorNode:
        if node.dtype is not DType.FP32 or node.op in ("input", "dequantize"):
            return node
        arg = node.arg.astype(np.float64) if node.op == "const" else node.arg
        return replace(node, arg=arg, dtype=DType.FP64)

    return replace(graph, nodes=tuple(map(widened, graph.nodes)))
