"""Compares an imported graph with the file's float graph: each layer on the same codes, each rounding near its ties.

Every quantizer is cut: its readers get the same telling codes in both graphs, so that each layer is compared by itself
and differences do not add up.  Few sums of such codes lie next to a tie, so roundings are also given these sums.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, ValidationError
from tg2hdl_ir.tensors import Quantizer, TensorGraph, TensorNode, evaluate_nodes
from tg2hdl_quant.graph.builder import Bounds
from tg2hdl_quant.graph.observed import below, constants, evaluated
from tg2hdl_quant.graph.report import Requantization
from tg2hdl_quant.graph.sampled import SampledValues, TooMuch, picked
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, compact

__all__ = ["CodeCut", "Rounding", "check_import", "check_roundings"]

Array = npt.NDArray[Any]
KINDS = ("uniform", "zero", "near zero", "corners")
"""Codes of the quantizers; of ``zero`` the value is zero, so that only the added terms are left."""
_ELEMENTS, _ELEMENTS_IF_FULL = 4, 200
"""Elements of each kind and layer at the ends of axes, and as many anywhere."""
_MOST, _MOST_IF_FULL = 1 << 20, 1 << 26
"""Most elements that are computed for a layer."""
_TIES = 256
"""Most ties of a rounding that are looked at."""
_MOST_SUMS = 1 << 20
_TIE, _SUM, _DOUBT = 2.0**-14, 2.0**-10, 0.5
"""Distance from a tie (steps) within which codes may differ: of a sum that is known, of a layer whose float32
operations round, and of a layer that is not proven."""


@dataclass(frozen=True)
class CodeCut:
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
    total: IntegerSum
    quantizer: Quantizer
    bounds: Bounds
    made: int
    doubt: str


def check_roundings(graph: TensorGraph, integer: TensorGraph, roundings: Sequence[Rounding]) -> None:
    """Compare the codes of the sums on both sides of every tie.

    Parameters
    ----------
    graph : TensorGraph
        In float, with the file's quantizers.
    integer : TensorGraph
        The graph that was made of it.
    roundings : sequence of Rounding
        Those of each layer.

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
    # Codes change at halves or at whole steps, depending on the rounding.
    places = np.concatenate([codes + 0.5] if quantizer.is_plain else [codes + 0.5, codes])
    below = np.floor(((places - quantizer.zero.reshape(())) * step - offset) / scale)
    sums = np.clip(np.concatenate([below, below + 1]), term.low, term.high)
    exact = sums * scale + offset
    is_proven = not rounding.doubt and (quantizer.is_plain or quantizer.zero_first)
    slack = np.abs(exact) * 2.0**-20 + (_TIE if is_proven else _DOUBT) * step
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
    borders: tuple[Sequence[IntegerValue], Sequence[IntegerValue]],
    cuts: Sequence[CodeCut],
    layers: Sequence[Requantization],
    *,
    is_full: bool = False,
) -> str:
    """Compare elements of both graphs, layer by layer; a note on the layers for which that takes too long.

    Parameters
    ----------
    borders : tuple
        Values of the inputs and outputs of the integer graph.

    Raises
    ------
    ValidationError
        For the first layer with other codes, or an output with other values.
    """
    return _CodeComparison(graph, integer, borders, cuts, layers, is_full).run()


class _CodeComparison:
    def __init__(
        self,
        graph: TensorGraph,
        integer: TensorGraph,
        borders: tuple[Sequence[IntegerValue], Sequence[IntegerValue]],
        cuts: Sequence[CodeCut],
        layers: Sequence[Requantization],
        is_full: bool,
    ) -> None:
        constant = constants(graph)
        self.graph, self.integer, self.borders, self.is_full = graph, integer, borders, is_full
        self.cuts = sorted(
            (c for c in cuts if not constant[c.number] and integer.nodes[c.made].op != "const"),
            key=lambda cut: cut.number,
        )
        self.doubts = {layer.name: layer.doubt for layer in layers}
        self.made = {cut.number: cut.made for cut in self.cuts}
        self.codes = self.telling = self._codes()
        self.inputs = [self._integers(n) for n in range(len(integer.inputs))]
        self.values = self._values()

    def run(self) -> str:
        """Compare the codes of all quantizers, then the outputs."""
        cut, computed = self._cut()
        left = []
        for number, layer in enumerate(self.cuts):
            source, made = self.graph.nodes[layer.number].sources[0], layer.made
            # A conversion to the same codes is left out.
            node = made if made in self._reached(source) else computed[made]
            try:
                self._choose_codes(cut, source, node)
                self._compare(layer, number, cut, node)
            except TooMuch:
                left.append(self._name(layer))
        for number, output in enumerate(self.graph.outputs):
            if self.graph.nodes[output].dtype.is_float:
                try:
                    self._choose_codes(cut, output, self.borders[1][number].node)
                    self._compare_output(number, cut)
                except TooMuch:
                    left.append(f"output {number}")
        return f"not compared with the float operations of the file: {', '.join(left)}" if left else ""

    def _cut(self) -> tuple[TensorGraph, dict[int, int]]:
        """The integer graph whose codes of quantizers are inputs, and the nodes that compute these codes."""
        count = len(self.integer.inputs)
        nodes = list(self.integer.nodes)
        computed = {}
        for place, made in enumerate(self.telling, count):
            computed[made] = len(nodes)
            nodes.append(nodes[made])
            nodes[made] = TensorNode("input", (), place, nodes[made].shape, nodes[made].dtype)
        return replace(self.integer, nodes=tuple(nodes)), computed

    def _choose_codes(self, cut: TensorGraph, wanted: int, node: int) -> None:
        """Use codes that tell most, or those of the file where an integer layer does not read the same ones as it.

        It may read what they are made of, or nothing of codes that are always the same.  The codes of the file are made
        of each other.
        """
        ends = _ends(cut, node, self.telling)
        reads = {n if n in self.telling else ~cut.nodes[n].arg for n in ends}
        self.codes = self.telling if reads == self._reached(wanted) else self._file_codes

    def _reached(self, wanted: int) -> set[int]:
        """Codes, and inputs as negative numbers, that the layer of the file before a node reads."""
        ends = _ends(self.graph, wanted, self.made)
        return {self.made[n] if n in self.made else ~self.graph.nodes[n].arg for n in ends}

    @cached_property
    def _file_codes(self) -> dict[int, Array]:
        """Codes that the float graph of the file makes of the inputs."""
        found = evaluate_nodes(self.graph, self.values, list(self.made))
        codes = {made: found[number] for number, made in self.made.items()}
        return {made: codes[made].astype(array.dtype) for made, array in self.telling.items()}

    def _sampled(self, graph: TensorGraph, given: Sequence[Array]) -> SampledValues:
        return SampledValues(graph, given, _MOST_IF_FULL if self.is_full else _MOST)

    def _floats(self, graph: TensorGraph, wanted: int, index: Array) -> Array:
        nodes = list(graph.nodes)
        count = len(graph.inputs)
        for n, cut in enumerate(self.cuts):
            node = nodes[cut.number]
            nodes[cut.number] = TensorNode("input", (), count + n, node.shape, node.dtype)
        given = [*self.values, *(self.codes[c.made] for c in self.cuts)]
        return self._sampled(replace(graph, nodes=tuple(nodes)), given).at(wanted, index)

    def _elements(self, shape: tuple[int, ...], seed: int) -> Array:
        """Some elements anywhere, and some at the ends of axes, where paddings are."""
        rng = np.random.default_rng(seed)
        count = _ELEMENTS_IF_FULL if self.is_full else _ELEMENTS
        size = int(np.prod(shape))
        if size <= 2 * count:
            return np.arange(size)
        ends = tuple(rng.choice([0, n - 1], count) for n in shape)
        return np.concatenate([np.ravel_multi_index(ends, shape), rng.integers(0, size, count)])

    def _codes(self) -> dict[int, Array]:
        """Codes of each cut of the integer graph, a sample for each kind."""
        found = {}
        for n, cut in enumerate(self.cuts):
            node = self.integer.nodes[cut.made]
            zero = int(np.clip(self.graph.nodes[cut.number].arg.zero.reshape(-1)[0], *cut.bounds))
            samples = [_telling(kind, node.shape, zero, cut.bounds, n) for kind in KINDS]
            found[cut.made] = np.stack(samples).astype(node.dtype.numpy())
        return found

    def _integers(self, number: int) -> Array:
        """Inputs of the integer graph: codes, or values of an input that has none."""
        node = self.integer.nodes[self.integer.inputs[number]]
        rng = np.random.default_rng(1000 + number)
        shape = (len(KINDS), *node.shape)
        value = self.borders[0][number]
        if node.dtype.is_float:
            return (rng.normal(size=shape) * 2).astype(node.dtype.numpy())
        if node.dtype.is_bool or value.high - value.low > 1 << 16:
            return rng.integers(0, 2, shape).astype(node.dtype.numpy())
        return rng.integers(value.low, value.high + 1, shape).astype(node.dtype.numpy())

    def _values(self) -> list[Array]:
        """Inputs of the float graph, from those of the integer graph."""
        found = []
        for number, value in enumerate(self.borders[0]):
            codes, node = self.inputs[number], self.graph.nodes[self.graph.inputs[number]]
            if node.dtype.is_float and codes.dtype.kind in "iu":
                values = (codes.astype(np.int64) - value.zero).astype(np.float32)
                codes = values * value.scale.astype(np.float32) + value.offset.astype(np.float32)
            found.append(codes.astype(node.dtype.numpy()))
        return found

    def _name(self, cut: CodeCut) -> str:
        return self.graph.nodes[cut.number].label or f"quantize{cut.number}"

    def _compare(self, cut: CodeCut, seed: int, integer: TensorGraph, computed: int) -> None:
        node, name = self.graph.nodes[cut.number], self._name(cut)
        source = node.sources[0]
        index = self._elements(node.shape, seed)
        quantizer = replace(
            node.arg,
            scale=picked(node.arg.scale, node.shape, index),
            zero=picked(node.arg.zero, node.shape, index),
        )
        found = (
            self._sampled(integer, [*self.inputs, *self.codes.values()]).at(computed, index).astype(np.int64)
        )
        floats = self._floats(self.graph, source, index)
        expected = quantizer.codes(floats)
        if np.array_equal(found, expected):
            return
        doubt = any(d for n, d in self.doubts.items() if n == name or n.startswith(f"{name}."))
        exact = self._floats(_in_double(self.graph), source, index)
        steps = np.abs(exact) * 2.0**-20 + (_DOUBT if doubt or name not in self.doubts else _SUM) * (
            quantizer.scale.astype(np.float64)
        )
        least, most = (quantizer.codes(exact + d) for d in (-steps, steps))
        wrong = ((found < least) | (found > most)) & (found != expected)
        wrong &= np.isfinite(exact) & np.isfinite(floats)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise _error(
                self.graph,
                f"{int(wrong.sum())} of {wrong.size} codes of layer {name!r} are not those of the file, "
                f"first {found[at]} instead of {int(expected[at])}",
                f"node {name!r} of the file: it quantizes {self.graph.nodes[source].label or 'a tensor'}",
                _place(index, at),
            )

    def _compare_output(self, number: int, integer: TensorGraph) -> None:
        value, output = self.borders[1][number], self.graph.outputs[number]
        shape = self.graph.nodes[output].shape
        index = self._elements(shape, number)
        found = self._sampled(integer, [*self.inputs, *self.codes.values()]).at(value.node, index)
        if found.dtype.kind in "iu":
            scale, offset = (picked(a, shape, index) for a in (value.scale, value.offset))
            found = (found.astype(np.float64) - value.zero) * scale + offset
        wrong = np.ones(found.shape, bool)
        for graph in (self.graph, _in_double(self.graph)):
            expected = self._floats(graph, output, index).astype(np.float64)
            reach = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            wrong &= np.isfinite(expected) & ~(np.abs(found - expected) <= 1e-3 * reach)
            if not wrong.any():
                break
        else:
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise _error(
                self.graph,
                f"{int(wrong.sum())} of {wrong.size} values of output {number} are not those of the file, "
                f"first {found[at]:.6g} instead of {expected[at]:.6g}",
                f"output {number}, made by {self.graph.nodes[output].label or 'a sum'}",
                _place(index, at),
            )


def _ends(graph: TensorGraph, number: int, ends: Collection[int]) -> set[int]:
    """Inputs that a node is made of, down to some nodes, which count as inputs too."""
    return {n for n in below(graph, number, ends) if n in ends or graph.nodes[n].op == "input"}


def _place(index: Array, at: tuple[int, ...]) -> str:
    return f"element {int(index[at[1]])}, codes {KINDS[at[0]]!r} before it"


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
        if node.dtype is not DType.FP32 or node.op == "input":
            return node
        arg = node.arg.astype(np.float64) if node.op == "const" else node.arg
        return replace(node, arg=arg, dtype=DType.FP64)

    return replace(graph, nodes=tuple(map(widened, graph.nodes)))
