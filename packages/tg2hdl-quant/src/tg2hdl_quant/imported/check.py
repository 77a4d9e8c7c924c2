"""An imported graph beside the float graph of the file: each layer on the same codes.

Every quantizer is cut: what reads its codes reads telling ones in both graphs, so that each layer is compared by itself
and differences do not add up.
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
from tg2hdl_quant.graph.values import Value
from tg2hdl_quant.imported.observed import constants

__all__ = ["Cut", "check_import"]

Array = npt.NDArray[Any]
KINDS = ("uniform", "zero", "near zero", "corners")
"""Codes of the quantizers; of ``zero`` the value is zero, so that only what is added is left."""
_MOST = 400_000_000
"""Most products of the comparison, unless it is to be full."""
_TIE, _DOUBT = 2.0**-11, 0.5
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
            node, (low, high) = self.integer.nodes[cut.made], cut.bounds
            zero = int(np.clip(self.graph.nodes[cut.number].arg.zero.reshape(-1)[0], low, high))
            rng = np.random.default_rng(n)
            near = np.clip(zero + rng.integers(-6, 7, node.shape), low, high)
            samples = {
                "uniform": lambda: rng.integers(low, high + 1, node.shape),
                "zero": lambda: np.full(node.shape, zero),
                "near zero": lambda: near,
                "corners": lambda: rng.choice([low, high], node.shape),
            }
            found[cut.made] = np.stack([samples[kind]() for kind in self.kinds]).astype(node.dtype.numpy())
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
            raise self._error(
                f"{int(wrong.sum())} of {wrong.size} codes of layer {name!r} are not those of the file, "
                f"first {found[at]} instead of {int(expected[at])}",
                f"node {name!r} of the file: it quantizes {self.graph.nodes[source].label or 'a tensor'}",
                at,
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
            raise self._error(
                f"{int(wrong.sum())} of {wrong.size} values of output {number} are not those of the file, "
                f"first {found[at]:.6g} instead of {expected[at]:.6g}",
                f"output {number}, made by {self.graph.nodes[self.graph.outputs[number]].label or 'a sum'}",
                at,
            )

    def _error(self, message: str, where: str, at: tuple[int, ...]) -> ValidationError:
        return ValidationError(
            f"tg2hdl made wrong integers of model {self.graph.name}: {message}",
            where=where,
            notes=(f"codes {self.kinds[at[0]]!r} before it, element {at[1:]}",),
            hint='report it with the file; keep_float=True computes the float operations, validate="off" skips this check',
        )


def _in_double(graph: TensorGraph) -> TensorGraph:
    """The graph with float64 where it has float32."""

    def widened(node: TensorNode) -> TensorNode:
        if node.dtype is not DType.FP32 or node.op in ("input", "dequantize"):
            return node
        arg = node.arg.astype(np.float64) if node.op == "const" else node.arg
        return replace(node, arg=arg, dtype=DType.FP64)

    return replace(graph, nodes=tuple(map(widened, graph.nodes)))
