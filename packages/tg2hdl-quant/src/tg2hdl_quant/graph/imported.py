"""A graph with quantizers to integers: sums between them exact, nodes without an integer form in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors import MOVEMENT, LayerKernel, Quantizer, TensorGraph, evaluate_nodes
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.codes import INTEGER, PRODUCTS, to_codes
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.forms import by_codes, by_table
from tg2hdl_quant.graph.functions import ScalarFunction, find_function
from tg2hdl_quant.graph.import_check import CodeCut, Rounding
from tg2hdl_quant.graph.lowered import Lowered
from tg2hdl_quant.graph.observed import (
    CodeObserver,
    ObservedCodes,
    below,
    constants,
    evaluated,
    is_certain,
)
from tg2hdl_quant.graph.report import Requantization
from tg2hdl_quant.graph.sums import IntegerForms
from tg2hdl_quant.graph.values import IntegerValue

__all__ = ["ImportLowering"]

_TABLE = 1 << 12
"""Most entries of a table."""
_UNKNOWN = LayerKernel("", "it is not known how ONNX Runtime computes it")
_FUNCTION = "the last bits of a function in float32 decide"


class ImportLowering:
    """Builds the integer graph of a graph with quantizers.

    Parameters
    ----------
    graph : TensorGraph
        Simplified.
    original : TensorGraph
        As the file has it: its float32 arithmetic is the reference.
    kernels : mapping of str to LayerKernel, optional
        How the runtime of the file computes each layer; integer sums, each multiplied by a float32, unless given.

    Attributes
    ----------
    how : list of Requantization
        How each quantizer's codes are made.
    roundings : list of Rounding
        Sums of one scale, and their codes.
    """

    def __init__(
        self,
        graph: TensorGraph,
        original: TensorGraph,
        kernels: Mapping[str, LayerKernel] | None = None,
    ) -> None:
        self.graph = graph
        self._constant = constants(graph)
        self._observed = CodeObserver(original)
        self._kernels = {
            id(n.arg): INTEGER if kernels is None else kernels.get(n.label, _UNKNOWN)
            for n in original.nodes
            if n.op == "quantize"
        }
        self.builder = IntegerBuilder()
        self.how: list[Requantization] = []
        self.roundings: list[Rounding] = []
        self._codes: dict[int, int] = {}
        self._inputs = input_quantizers(graph)
        self._made_inputs: dict[int, int] = {}
        self.sums = IntegerForms(graph, self.builder, self.codes)
        self.floats = FloatPart(graph, self.builder, self.codes, self.sums.total, constant=self._computed)

    def _computed(self, number: int) -> npt.NDArray[Any] | None:
        """A constant that the file computes of others; None of one that is only codes and a scale."""
        if not self._constant[number]:
            return None
        node = self.graph.nodes[number]
        while node.op in MOVEMENT:
            node = self.graph.nodes[node.sources[0]]
        if node.op in ("const", "dequantize"):
            return None
        found: npt.NDArray[Any] = evaluate_nodes(self.graph, [], [number])[number][0]
        return found

    def run(self) -> Lowered:
        """The integer graph, and the values at its borders."""
        inputs = tuple(self._input(n) for n in self.graph.inputs)
        for number, node in enumerate(self.graph.nodes):
            if node.op == "quantize":
                self.codes(number)
        outputs = tuple(self._output(n) for n in self.graph.outputs)
        return Lowered.of(self.graph, self.builder, inputs, outputs, self.floats.names)

    def cuts(self, original: TensorGraph) -> list[CodeCut]:
        """The quantizers of the file whose codes are integers of the new graph."""
        made: dict[tuple[str, int], list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            if node.op in ("quantize", "dequantize"):
                of = number if node.op == "quantize" else node.sources[0]
                made.setdefault((node.op, id(node.arg)), []).append(of)
        places: dict[int, list[int]] = {}
        for number, node in enumerate(original.nodes):
            if node.op in ("quantize", "dequantize"):
                place = number if node.op == "quantize" else node.sources[0]
                places.setdefault(place, []).extend(made.get((node.op, id(node.arg)), ()))
        found = []
        for number, candidates in places.items():
            fitting = {n for n in candidates if self.graph.nodes[n].shape == original.nodes[number].shape}
            if (
                original.nodes[number].op == "quantize"
                and len(fitting) == 1
                and fitting <= self._codes.keys()
            ):
                codes = self._codes[fitting.pop()]
                found.append(CodeCut(number, codes, self.builder.bounds(codes)))
        return found

    # Borders

    def _input(self, number: int) -> IntegerValue:
        node = self.graph.nodes[number]
        quantizer = self._inputs.get(number)
        if quantizer is None:
            if not node.dtype.is_float:
                return self.builder.value(self.codes(number), 1.0)
            return self.floats.value(number)
        dtype = self.graph.nodes[quantizer].dtype
        given = self.graph.nodes[quantizer].arg
        made = self.builder.add("input", (), node.shape, dtype, node.arg, node.label)
        self._made_inputs[number] = self.builder.set_bounds(made, given.low, given.high)
        scale, zero = given.scale.reshape(()).astype(np.float64), int(given.zero.reshape(()))
        return IntegerValue(made, scale, given.low, given.high, zero=zero)

    def _output(self, number: int) -> IntegerValue:
        node = self.graph.nodes[number]
        if not node.dtype.is_float:
            return self.builder.value(self.codes(number), 1.0)
        if node.op == "dequantize" and node.arg.zero.size == 1:
            codes = self.builder.value(self.codes(node.sources[0]), node.arg.scale)
            return replace(codes, zero=int(node.arg.zero.reshape(())))
        total = self.sums.total(number)
        if total is not None and len(total.terms) == 1 and np.all(total.terms[0].scale > 0):
            term = total.terms[0]
            added = total.whole_steps()
            if added is not None:
                made = self.builder.plus(term.node, added, f"output {node.label}", 32)
                return self.builder.value(made, term.scale)
            return IntegerValue(term.node, term.scale, term.low, term.high, total.offset)
        return self.floats.value(number)

    # Integers

    def codes(self, number: int) -> int:
        """The node of a tensor of integers or truth values."""
        if number not in self._codes:
            self._codes[number] = self._integers(number)
        return self._codes[number]

    def _integers(self, number: int) -> int:
        node = self.graph.nodes[number]
        if node.op == "quantize":
            return self._quantized(number)
        if node.op == "const":
            return self.builder.const(node.arg, node.dtype, node.label)
        if any(self.graph.nodes[s].dtype.is_float for s in node.sources):
            made = self.sums.compared(number) if node.op in ("CMPLT", "CMPNE", "CMPEQ") else None
            if made is None and node.op == "cast":
                made = self._tabulated(number)
            return self.floats.to_integers(number) if made is None else made
        sources = tuple(self.codes(s) for s in node.sources)
        if node.op in MOVEMENT:
            return self.builder.move(node, sources[0])
        return self.builder.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)

    def _quantized(self, number: int) -> int:
        node = self.graph.nodes[number]
        moved = self._moved_input(number)
        if moved is not None:
            return moved
        quantizer, source = node.arg, node.sources[0]
        if quantizer.scale.size > 1 or quantizer.zero.size > 1:
            return self._in_floats(number)
        name = node.label or f"quantize{number}"
        observed = self._observed.codes(quantizer)
        if observed is not None and observed.codes.shape[1:] != node.shape:
            observed = None  # This is a part of a concatenation, which the file quantizes as a whole.
        kernel = self._kernels[id(quantizer)]
        found = self._integer_form(number, name, kernel)
        if observed is not None and kernel.name not in PRODUCTS:
            if found is None or not self._gives(found[0], source, observed):
                found = self._of_codes(source, observed, quantizer, name)
            if found is not None:
                doubt = "" if kernel.name and observed.is_certain else kernel.reason or _FUNCTION
                found = found[0], replace(found[1], differs=0.0, doubt=doubt)
        if found is None:
            self.how.append(Requantization(name, "float", doubt=kernel.reason or "it is computed in float32"))
            return self._in_floats(number)
        self.how.append(found[1])
        return found[0]

    def _integer_form(self, number: int, name: str, kernel: LayerKernel) -> tuple[int, Requantization] | None:
        """Codes of a quantizer by the form of its operand: a function of one tensor, or a sum."""
        node = self.graph.nodes[number]
        quantizer, source = node.arg, node.sources[0]
        low, high = quantizer.low, quantizer.high
        total = None
        function = find_function(self.graph, source)
        if function is not None and function.clip is not None:
            bounds = [int(c) for c in quantizer.codes(np.array(function.clip, np.float32))]
            low, high = max(low, bounds[0]), min(high, bounds[1])
            total = self.sums.total(function.base)
        elif function is not None:
            made = self._table(function, low, high, name, quantizer.codes, quantizer)
            if made is not None and (made[1].doubt or not kernel.name):
                made = made[0], replace(made[1], doubt=kernel.reason or made[1].doubt)
            if made is not None:
                return made
        if total is None:
            low, high = quantizer.low, quantizer.high
            total = self.sums.total(source)
        if total is None:
            return None
        found = to_codes(self.builder, total, quantizer, low, high, name, kernel)
        if found is not None and len(total.terms) == 1 and not total.terms[0].parts:
            self.roundings.append(Rounding(name, total, quantizer, (low, high), found[0], found[1].doubt))
        return found

    def _gives(self, made: int, source: int, observed: ObservedCodes) -> bool:
        """Whether an integer form gives the codes of the file for every code that it can be made of."""
        base = self._coded(source)
        if base is None:
            return False
        least, most = self.builder.bounds(base)
        least, most = max(least, observed.source.low), min(most, observed.source.high)
        codes = np.arange(least, most + 1).astype(self.builder.nodes[base].dtype.numpy())
        codes = codes.reshape(-1, *(1,) * len(self.builder.nodes[base].shape))
        given = np.broadcast_to(codes, (len(codes), *self.builder.nodes[base].shape))
        graph = TensorGraph("", tuple(self.builder.nodes), (), (), ())
        expected = observed.codes[least - observed.source.low :][: len(codes)]
        return np.array_equal(evaluated(graph, base, given, made), expected)

    def _coded(self, number: int) -> int | None:
        """The node of the codes that a float tensor is made of."""
        found = {
            n
            for n in below(self.graph, number)
            if self.graph.nodes[n].op == "dequantize" and not self._constant[n]
        }
        return self.codes(self.graph.nodes[found.pop()].sources[0]) if len(found) == 1 else None

    def _of_codes(
        self, source: int, observed: ObservedCodes, quantizer: Quantizer, name: str
    ) -> tuple[int, Requantization] | None:
        """Codes that are fitted to those of the file, or looked up; None where no form gives them."""
        function = find_function(self.graph, source)
        total = self.sums.total(source if function is None else function.base)
        given = observed.source
        if total is None or len(total.terms) != 1 or given.zero.size != 1:
            return None
        term, zero = total.terms[0], int(given.zero.reshape(()))
        if term.low < given.low - zero or term.high > given.high - zero:
            return None
        codes = observed.codes[term.low - given.low + zero :][: term.high - term.low + 1]
        scale = float(quantizer.scale.reshape(()))
        low, high = int(codes.min()), int(codes.max())
        found = by_codes(self.builder, term, codes, term.scale / scale, low, high, name)
        return found if found is not None and self._gives(found[0], source, observed) else None

    def _tabulated(self, number: int) -> int | None:
        """Integers made of floats, as codes of another rounding are, by a table; None where it would be too long."""
        node = self.graph.nodes[number]
        function = find_function(self.graph, node.sources[0])
        if function is None or not node.dtype.is_int or node.dtype.bit_width > 16:
            return None
        low, high = node.dtype.min_value, node.dtype.max_value
        found = self._table(function, low, high, node.label or f"cast{number}", np.trunc)
        if found is not None:
            self.how.append(found[1])
        return None if found is None else found[0]

    def _in_floats(self, number: int) -> int:
        node = self.graph.nodes[number]
        name = node.label or node.op
        if not node.arg.is_plain:
            name += f" (its codes are rounded by {node.arg.rounding.upper()})"
        made = self.floats.quantized(node.sources[0], node.arg, node.dtype, name)
        return self.builder.set_bounds(made, node.arg.low, node.arg.high)

    def _moved_input(self, number: int) -> int | None:
        """Codes that the host makes of an input, in the order in which they are read."""
        path, source = [], self.graph.nodes[number].sources[0]
        while self.graph.nodes[source].op in MOVEMENT:
            path.append(source)
            source = self.graph.nodes[source].sources[0]
        if source not in self._inputs:
            return None
        made = self._made_inputs[source]
        for step in reversed(path):
            made = self.builder.move(self.graph.nodes[step], made)
        return made

    def _table(
        self,
        function: ScalarFunction,
        low: int,
        high: int,
        name: str,
        codes: Callable[..., np.ndarray],
        quantizer: Quantizer | None = None,
    ) -> tuple[int, Requantization] | None:
        total = self.sums.total(function.base)
        if total is None or len(total.terms) != 1 or np.any(total.offset):
            return None
        term = total.terms[0]
        if term.scale.size != 1 or term.high - term.low >= _TABLE:
            return None
        steps = np.arange(term.low, term.high + 1).astype(np.float32)
        results = function(steps * np.float32(term.scale.reshape(())))
        entries = np.clip(np.nan_to_num(codes(results), nan=low), low, high).astype(np.int64)
        made, how = by_table(self.builder, term, entries, low, high, name)
        used = {n.op for n in function.graph.nodes} - {"input", "const"}
        certain = quantizer is not None and is_certain(used, results, quantizer)
        return made, how if certain and term.floats else replace(how, doubt=_FUNCTION)


def input_quantizers(graph: TensorGraph) -> dict[int, int]:
    """For each input that is read only as codes, a node that quantizes it."""
    readers = graph.consumers()
    found = {}
    for number in graph.inputs:
        if graph.nodes[number].dtype.is_float and number not in graph.outputs:
            quantizing = _quantizing(graph, readers, number)
            if quantizing is not None:
                found[number] = quantizing
    return found


def _quantizing(graph: TensorGraph, readers: list[list[int]], number: int) -> int | None:
    """The quantizer after movements that all readers agree on."""
    found: int | None = None
    stack = [number]
    while stack:
        current = stack.pop()
        if current in graph.outputs:
            return None
        for reader in readers[current]:
            node = graph.nodes[reader]
            if node.op in ("reshape", "permute", "expand", "shrink", "flip"):
                stack.append(reader)
                continue
            if node.op != "quantize" or node.arg.scale.size != 1 or node.arg.zero.size != 1:
                return None
            if not node.arg.is_plain:  # Hosts round half to even.
                return None
            if found is not None and not _same(graph.nodes[found].arg, node.arg):
                return None
            found = reader
    return found


def _same(a: Quantizer, b: Quantizer) -> bool:
    return bool(np.array_equal(a.scale, b.scale) and np.array_equal(a.zero, b.zero)) and (
        (a.low, a.high) == (b.low, b.high)
    )
