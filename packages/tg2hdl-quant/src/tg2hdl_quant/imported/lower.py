"""A graph with quantizers to integers: sums between them exact, what has no integer form in float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tg2hdl_ir.tensors import MOVEMENT, TensorGraph
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.functions import ScalarFunction, find_function
from tg2hdl_quant.graph.import_report import Requantization
from tg2hdl_quant.graph.values import Value
from tg2hdl_quant.imported.builder import IntegerBuilder
from tg2hdl_quant.imported.inputs import input_quantizers
from tg2hdl_quant.imported.requantize import by_steps, by_table, to_codes
from tg2hdl_quant.imported.sums import Sums

__all__ = ["ImportLowering"]

_TABLE = 1 << 12
"""Most entries of a table."""


class ImportLowering:
    """Builds the integer graph of a graph with quantizers.

    Parameters
    ----------
    graph : TensorGraph
        Simplified.

    Attributes
    ----------
    how : list of Requantization
        How each quantizer's codes are made.
    in_float : list of str
        Operations without an integer form.
    """

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.builder = IntegerBuilder()
        self.how: list[Requantization] = []
        self._codes: dict[int, int] = {}
        self._inputs = input_quantizers(graph)
        self._made_inputs: dict[int, int] = {}
        self.sums = Sums(graph, self.builder, self.codes)
        self.floats = FloatPart(graph, self.builder, self.codes, self.sums.total)

    @property
    def in_float(self) -> list[str]:
        """Operations without an integer form."""
        return self.floats.names

    def run(self) -> tuple[TensorGraph, tuple[Value, ...], tuple[Value, ...]]:
        """The integer graph, and the values at its borders."""
        inputs = tuple(self._input(n) for n in self.graph.inputs)
        for number, node in enumerate(self.graph.nodes):
            if node.op == "quantize":
                self.codes(number)
        outputs = tuple(self._output(n) for n in self.graph.outputs)
        made = TensorGraph(
            self.graph.name,
            tuple(self.builder.nodes),
            tuple(v.node for v in inputs),
            tuple(v.node for v in outputs),
            self.graph.input_names,
            self.graph.structure,
        )
        return made, inputs, outputs

    # Borders

    def _input(self, number: int) -> Value:
        node = self.graph.nodes[number]
        quantizer = self._inputs.get(number)
        if quantizer is None:
            if not node.dtype.is_float:
                made = self.codes(number)
                return Value(made, np.ones(()), *self.builder.bounds(made))
            return Value(self.floats.node(number), np.ones(()), 0, 0)
        dtype = self.graph.nodes[quantizer].dtype
        given = self.graph.nodes[quantizer].arg
        made = self.builder.add("input", (), node.shape, dtype, node.arg, node.label)
        self._made_inputs[number] = self.builder.set_bounds(made, given.low, given.high)
        scale, zero = given.scale.reshape(()).astype(np.float64), int(given.zero.reshape(()))
        return Value(made, scale, given.low, given.high, zero=zero)

    def _output(self, number: int) -> Value:
        node = self.graph.nodes[number]
        if not node.dtype.is_float:
            made = self.codes(number)
            return Value(made, np.ones(()), *self.builder.bounds(made))
        if node.op == "dequantize" and node.arg.zero.size == 1:
            made = self.codes(node.sources[0])
            low, high = self.builder.bounds(made)
            return Value(
                made, node.arg.scale.astype(np.float64), low, high, zero=int(node.arg.zero.reshape(()))
            )
        total = self.sums.total(number)
        if total is not None and len(total.terms) == 1 and np.all(total.terms[0].scale > 0):
            term = total.terms[0]
            added = np.rint(total.offset / term.scale)
            rest = total.offset - added * term.scale
            if np.abs(rest / term.scale).max() < 1e-3:
                made = self.builder.plus(term.node, added.astype(np.int64), f"output {node.label}", 32)
                return self.builder.value(made, term.scale)
            return Value(term.node, term.scale, term.low, term.high, total.offset)
        return Value(self.floats.node(number), np.ones(()), 0, 0)

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
        low, high = quantizer.low, quantizer.high
        total = None
        function = find_function(self.graph, source)
        if function is not None and function.clip is not None:
            bounds = [int(c) for c in quantizer.codes(np.array(function.clip, np.float32))]
            low, high = max(low, bounds[0]), min(high, bounds[1])
            total = self.sums.total(function.base)
        elif function is not None:
            made = self._table(function, low, high, name, quantizer.codes)
            if made is not None:
                return made
        if total is None:
            low, high = quantizer.low, quantizer.high
            total = self.sums.total(source)
        if total is None:
            self.how.append(Requantization(name, "float"))
            return self._in_floats(number)
        found = (
            to_codes(self.builder, total, quantizer, low, high, name)
            if quantizer.rounding == "half_even"
            else by_steps(self.builder, total, quantizer, low, high, name)
        )
        if found is None:
            self.how.append(Requantization(name, "float"))
            return self._in_floats(number)
        self.how.append(found[1])
        return found[0]

    def _tabulated(self, number: int) -> int | None:
        """Integers made of floats, as codes of another rounding are, by a table; None where it would be too long."""
        node = self.graph.nodes[number]
        function = find_function(self.graph, node.sources[0])
        if function is None or not node.dtype.is_int or node.dtype.bit_width > 16:
            return None
        low, high = node.dtype.min_value, node.dtype.max_value
        return self._table(function, low, high, node.label or f"cast{number}", np.trunc)

    def _in_floats(self, number: int) -> int:
        node = self.graph.nodes[number]
        name = node.label or node.op
        if node.arg.rounding != "half_even":
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
        self, function: ScalarFunction, low: int, high: int, name: str, codes: Callable[..., np.ndarray]
    ) -> int | None:
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
        self.how.append(how)
        return made
