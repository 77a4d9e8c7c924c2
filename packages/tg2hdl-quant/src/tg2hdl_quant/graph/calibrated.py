"""A float graph to a graph of integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, InputError
from tg2hdl_ir.tensors import MOVEMENT, Quantizer, TensorGraph, TensorNode
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.lowered import Lowered, StoredTensor
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed
from tg2hdl_quant.graph.requantize import requantize
from tg2hdl_quant.graph.scales import (
    ChosenScales,
    RangeOf,
    activation_scale,
    has_feature_scales,
)
from tg2hdl_quant.graph.steps import FLOAT, OUTPUT, StoragePlan, layer_names
from tg2hdl_quant.graph.sum_builder import SumBuilder
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, code_type, compact, integer_type
from tg2hdl_quant.graph.weight_codes import WeightRounding

__all__ = ["Lowering"]

Array = npt.NDArray[Any]


class Lowering:
    """Builds the integer graph of a plan.

    Parameters
    ----------
    graph : TensorGraph
        Simplified.
    plan : StoragePlan
        Of it.
    observed : mapping of int to Observed
        Values of stored nodes and of the operands of tables.
    range_of : callable
        ``(observed, bits) -> (low, high)``: the calibration method.
    rounding : WeightRounding
        Method that chooses the codes of weights.
    mean : mapping of int to ndarray, optional
        Means of the operands of layers with weights, for the correction of their biases.
    states : int
        How many of the last inputs are state, whose next contents are as many of the last outputs.
    """

    def __init__(
        self,
        graph: TensorGraph,
        plan: StoragePlan,
        observed: Mapping[int, Observed],
        range_of: RangeOf,
        options: QuantizeOptions,
        rounding: WeightRounding,
        mean: Mapping[int, Array] | None = None,
        states: int = 0,
    ) -> None:
        inputs, outputs = plan.graph.inputs, plan.graph.outputs
        first = len(inputs) - states, len(outputs) - states
        self._states = dict(zip(inputs[first[0] :], outputs[first[1] :], strict=True))
        self._read = outputs[: first[1]]
        self._plan = plan
        self._graph = plan.graph
        self._observed = observed
        self._options = options
        self._scales = ChosenScales(plan, observed, range_of, options)
        self._builder = IntegerBuilder()
        self._names = layer_names(plan)
        self._values: dict[int, IntegerValue] = {}
        self._exact_nodes: dict[int, int] = {}
        self._stored: list[StoredTensor] = []
        self._sums = SumBuilder(plan, self._builder, self._value, options, rounding, mean or {})
        self._floats = FloatPart(
            graph, self._builder, self._exact_number, self._before_float, self._name_in_float
        )

    def run(self) -> Lowered:
        """The integer graph.

        Raises
        ------
        UnsupportedError
            For an operation that has no integer form, or a sum that needs more than 64 bits.
        """
        graph = self._graph
        inputs = tuple(self._value(n) for n in graph.inputs)
        outputs = tuple(self._output(n) for n in self._read)
        outputs += tuple(self._next_state(*pair) for pair in self._states.items())
        unknown = sorted(set(self._options.layers) - {w.name for w in self._sums.weights})
        if unknown:
            raise InputError(
                f"no layer {unknown[0]!r} with integer weights",
                hint="one of: " + ", ".join(w.name for w in self._sums.weights),
            )
        lowered = Lowered.of(graph, self._builder, inputs, outputs, self._floats.names)
        return replace(lowered, stored=tuple(self._stored), weights=tuple(self._sums.weights))

    def _next_state(self, before: int, after: int) -> IntegerValue:
        """The new contents of a state, in its own integers: those that the next run begins with."""
        value = self._value(before)
        dtype = self._builder.nodes[value.node].dtype
        if dtype.is_float:
            return self._floats.value(after)
        if not self._graph.nodes[after].dtype.is_float:
            return self._value(after)
        scale, low, high = float(value.scale), value.low, value.high
        if self._plan.is_float(after):
            quantizer = Quantizer(np.asarray(scale, np.float32), np.zeros((), np.int64), low, high)
            made = self._floats.quantized(after, quantizer, dtype, self._name_in_float(after))
        else:
            made = self._at_scale(after, scale, low, high, after)
        return replace(value, node=self._builder.cast(made, dtype))

    # Stored nodes

    def _value(self, number: int) -> IntegerValue:
        """The narrow integers of a stored node."""
        if number not in self._values:
            kind = self._plan.kind(number)
            self._values[number] = getattr(self, f"_{kind}")(number)
        return self._values[number]

    def _input(self, number: int) -> IntegerValue:
        node = self._graph.nodes[number]
        if self._plan.roles.get(number) == {FLOAT}:
            return self._floats.value(number)
        bits = self._scales.bits(number)
        offset: Array = np.zeros(())
        is_state = number in self._states
        if (
            not is_state
            and self._options.input_scales != "one"
            and has_feature_scales(self._plan, self._observed[number], number)
        ):
            bits = self._options.bits
            observed = self._observed[number]
            assert observed.lows is not None
            assert observed.highs is not None
            high = (1 << (bits - 1)) - 1
            low = -high
            width = observed.highs - observed.lows
            # A feature that samples do not vary has the smallest step, not to widen the range of the weights.
            scale = np.where(width > 0, width, width[width > 0].min()) / (2 * high)
            offset = (observed.highs + observed.lows) / 2
        else:
            unsigned = self._observed[number].low >= 0
            one, low, high = self._scales.symmetric(number, bits, unsigned)
            scale = np.asarray(one)
            if not unsigned and not is_state and self._scales.is_affine(number):
                scale, offset, high = self._scales.affine(number, bits)
                low = 0
        dtype = code_type(low, high)
        made = self._builder.add("input", (), node.shape, dtype, node.arg, node.label)
        return self._keep(number, "input", IntegerValue(made, scale, low, high, offset))

    def _is_input(self, made: int) -> bool:
        """Whether a node of the new graph is an input, perhaps in another shape."""
        node = self._builder.nodes[made]
        while node.op in MOVEMENT:
            node = self._builder.nodes[node.sources[0]]
        return node.op == "input"

    def _const(self, number: int) -> IntegerValue:
        node = self._graph.nodes[number]
        bits = self._scales.bits(number)
        limit = (1 << (bits - 1)) - 1
        finite = node.arg[np.isfinite(node.arg)]
        bound = float(np.abs(finite).max(initial=0))
        scale = activation_scale(finite.astype(np.float64), bound, limit, -limit, self._options.is_shift)
        integers = np.clip(np.rint(node.arg / scale), -limit, limit)
        low, high = int(integers.min()), int(integers.max())
        return IntegerValue(
            self._builder.const(integers, code_type(low, high), node.label), np.asarray(scale), low, high
        )

    def _exact_number(self, number: int) -> int:
        """A node of integers or truth values in the new graph, as it is."""
        if number not in self._exact_nodes:
            node = self._graph.nodes[number]
            kind = self._plan.kind(number)
            if node.op == "const":
                made = self._builder.const(node.arg, node.dtype, node.label)
            elif kind == "compare":
                made = self._compared(number)
            elif kind == "float":
                made = self._floats.to_integers(number)
            else:
                sources = tuple(self._exact_number(s) for s in node.sources)
                made = self._builder.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)
            self._exact_nodes[number] = made
        return self._exact_nodes[number]

    def _exact(self, number: int) -> IntegerValue:
        """Integers and truth values are not scaled: their step is 1."""
        node = self._graph.nodes[number]
        source = node.sources[0] if node.dtype.is_float else number
        made = self._exact_number(source)
        dtype = self._builder.nodes[made].dtype
        if dtype.is_bool and node.dtype.is_float:
            made = self._builder.cast(made, DType.UINT8)
        return IntegerValue(made, np.ones(()), dtype.min_value, dtype.max_value)

    _compare = _exact

    def _move(self, number: int) -> IntegerValue:
        node = self._graph.nodes[number]
        source = self._value(node.sources[0])
        if node.op == "cast":
            return source
        if node.op == "pad" and source.offset.size == 1 and np.any(source.offset):
            return self._pad_with_zero_point(node, source)
        moved = IntegerSum((source,), source.offset, self._graph.nodes[node.sources[0]].shape).moved(
            self._builder, node
        )
        term = moved.terms[0]
        return IntegerValue(term.node, term.scale, term.low, term.high, moved.offset)

    def _pad_with_zero_point(self, node: TensorNode, source: IntegerValue) -> IntegerValue:
        """Padding with the code that stands for zero."""
        zero = int(np.rint(-source.offset / source.scale))
        dtype = self._builder.nodes[source.node].dtype
        down, up = (self._builder.const(value, DType.INT16) for value in (-zero, zero))
        made = self._builder.cast(source.node, DType.INT16)
        made = self._builder.elementwise("ADD", made, down, dtype=DType.INT16)
        made = self._builder.elementwise("ADD", self._builder.move(node, made), up, dtype=DType.INT16)
        return replace(source, node=self._builder.cast(made, dtype))

    def _max(self, number: int) -> IntegerValue:
        node = self._graph.nodes[number]
        source = self._value(node.sources[0])
        dtype = self._builder.nodes[source.node].dtype
        made = self._builder.reduce("max", source.node, node.arg, dtype, node.label)
        scale = source.scale
        if scale.size > 1:
            scale = compact(np.broadcast_to(scale, self._graph.nodes[node.sources[0]].shape).max(node.arg))
        return IntegerValue(made, scale, source.low, source.high, source.offset)

    def _function(self, number: int) -> IntegerValue:
        function = self._plan.functions[number]
        if function.clip is not None:
            total = self._sums.of(function.base)
            return self._requantized(number, total, function.clip)
        return self._table(number)

    def _sum(self, number: int) -> IntegerValue:
        total = self._sums.of(number, root=True)
        term = total.terms[0]
        if len(total.terms) == 1 and term.scale.size > 1 and self._is_input(term.node):
            # The weights take up an affine function of features that have scales of their own.
            return IntegerValue(term.node, term.scale, term.low, term.high, total.offset)
        if self._plan.roles.get(number) == {OUTPUT} and self._is_plain(total):
            return self._plain_output(number, total)
        return self._requantized(number, total, (-np.inf, np.inf))

    def _choice(self, number: int) -> IntegerValue:
        """One of two tensors, or the larger, on one scale."""
        node = self._graph.nodes[number]
        is_where = node.op == "WHERE"
        operands = [self._exact_number(node.sources[0])] if is_where else []
        arms = node.sources[1:] if is_where else node.sources
        at_least = self._constant_arms(arms) if is_where else 0.0
        scale, low, high = self._scales.symmetric(number, self._scales.bits(number), False, at_least)
        operands += [self._at_scale(s, scale, low, high, number) for s in arms]
        made = self._builder.elementwise(node.op, *operands, dtype=code_type(low, high), label=node.label)
        kind = "select" if is_where else "maximum"
        return self._keep(number, kind, IntegerValue(made, np.asarray(scale), low, high))

    def _constant_arms(self, arms: tuple[int, ...]) -> float:
        """Largest magnitude of constants that are data and no mask: samples need not have selected all of them."""
        arrays = [self._graph.nodes[s].arg for s in arms if self._graph.nodes[s].op == "const"]
        data = [a[np.isfinite(a)] for a in arrays if a.size > 1 and a.min() != a.max()]
        return max((float(np.abs(a).max(initial=0)) for a in data), default=0.0)

    # Float arithmetic

    def _output(self, number: int) -> IntegerValue:
        is_float = self._graph.nodes[number].dtype.is_float and self._plan.is_float(number)
        return self._floats.value(number) if is_float else self._value(number)

    def _float(self, number: int) -> IntegerValue:
        """The integers of a result of float arithmetic."""
        if not self._graph.nodes[number].dtype.is_float:
            return self._exact(number)
        scale, low, high = self._scales.symmetric(
            number, self._scales.bits(number), self._observed[number].low >= 0
        )
        dtype = code_type(low, high)
        quantizer = Quantizer(np.asarray(scale, np.float32), np.zeros((), np.int64), low, high)
        made = self._floats.quantized(number, quantizer, dtype, self._name_in_float(number))
        return self._keep(number, "float", IntegerValue(made, np.asarray(scale), low, high))

    def _before_float(self, number: int) -> IntegerSum | None:
        """Integers that float arithmetic reads, with their scales."""
        below = self._plan.below_moves(number)
        if self._plan.kind(below) == "float" or self._plan.roles.get(below) == {FLOAT}:
            return None
        return self._sums.of(number)

    def _name_in_float(self, number: int) -> str:
        node = self._graph.nodes[number]
        return self._plan.floats.get(number) or node.label or node.op

    # Parts

    def _keep(self, number: int, kind: str, value: IntegerValue) -> IntegerValue:
        bits = max(value.high.bit_length(), value.low.bit_length() + 1 if value.low < 0 else 0)
        self._stored.append(StoredTensor(self._names[number], kind, number, value, bits))
        return value

    def _requantized(self, number: int, total: IntegerSum, clip: tuple[float, float]) -> IntegerValue:
        smallest = sum(
            float(np.minimum(t.scale * t.low, t.scale * t.high).min()) for t in total.terms
        ) + float(total.offset.min())
        unsigned = max(smallest, clip[0]) >= 0
        scale, low, high = self._scales.symmetric(number, self._scales.bits(number), unsigned)
        offset: Array = np.zeros(())
        factors = (
            self._scales.factors(number) if clip[0] in (0, -np.inf) and clip[1] == np.inf else np.ones(())
        )
        if factors.size > 1:
            observed = self._observed[number]
            assert observed.channels is not None
            bound = float((observed.channels / factors.reshape(-1)).max())
            scale = activation_scale(np.array([bound]), bound, high, low, self._options.is_shift)
            total = total.times(1 / factors, total.shape)
        elif not unsigned and self._scales.is_affine(number):
            one, offset, high = self._scales.affine(number, self._scales.bits(number))
            scale, low = float(one), 0
            total = IntegerSum(total.terms, total.offset - offset, total.shape)
        if np.isfinite(clip[0]):
            low = max(low, int(np.rint((clip[0] - offset) / scale)))
        if np.isfinite(clip[1]):
            high = min(high, int(np.rint((clip[1] - offset) / scale)))
        high = max(high, low)
        # A mask adds a number that is far out of range: any that saturates does the same.
        far = sum(t.reach * float(np.abs(t.scale).max()) for t in total.terms) + 4 * scale * max(high, -low)
        total = IntegerSum(total.terms, np.clip(total.offset, -far, far), total.shape)
        made = requantize(self._builder, total, scale, low, high, self._options, self._where_name(number))
        return self._keep(
            number, "activation", IntegerValue(made, np.asarray(scale * factors), low, high, offset)
        )

    def _where_name(self, number: int) -> str:
        return f"layer {self._names[number]}"

    def _at_scale(self, number: int, scale: float, low: int, high: int, owner: int) -> int:
        node = self._graph.nodes[number]
        dtype = code_type(low, high)
        if node.op == "const":
            values = np.nan_to_num(node.arg / scale, posinf=high, neginf=low)
            return self._builder.const(np.clip(np.rint(values), low, high), dtype, node.label)
        total = self._sums.of(number)
        made = requantize(self._builder, total, scale, low, high, self._options, self._where_name(owner))
        return self._builder.cast(made, dtype)

    def _is_plain(self, total: IntegerSum) -> bool:
        """One term with one scale: its integers are the result, without rounding."""
        return len(total.terms) == 1 and total.terms[0].scale.size == 1 and bool(total.terms[0].scale > 0)

    def _plain_output(self, number: int, total: IntegerSum) -> IntegerValue:
        term = total.terms[0]
        added = np.rint(total.offset / term.scale).astype(np.int64)
        low, high = term.low + int(added.min()), term.high + int(added.max())
        dtype = integer_type(low, high, narrowest=32)
        if dtype is None or dtype.bit_width > 32:
            return self._requantized(number, total, (-np.inf, np.inf))
        made = self._builder.added(self._builder.cast(term.node, dtype), added, dtype)
        return self._keep(number, "sum", IntegerValue(made, term.scale, low, high))

    def _table(self, number: int) -> IntegerValue:
        """A function by a table that the integers of its argument index."""
        function = self._plan.functions[number]
        node = self._graph.nodes[number]
        base = self._sums.scalar(function.base)
        codes = np.arange(base.low, base.high + 1)
        results = function(codes * base.scale)
        results = np.nan_to_num(results, nan=0.0, posinf=3e38, neginf=-3e38)
        observed = self._observed[number]
        results = np.clip(results, observed.low, observed.high)
        bits = self._scales.bits(number)
        unsigned = bool(results.min() >= 0)
        scale, low, high = self._scales.symmetric(number, bits, unsigned)
        entries = np.clip(np.rint(results / scale), low, high).astype(np.int64)
        made = self._builder.looked_up(base, entries, (low, high), self._names[number], node.label)
        value = IntegerValue(made, np.asarray(scale), int(entries.min()), int(entries.max()))
        return self._keep(number, "table", value)

    def _compared(self, number: int) -> int:
        node = self._graph.nodes[number]
        values = [self._value(s) if self._graph.nodes[s].op != "const" else None for s in node.sources]
        scale = min(float(v.scale.min()) for v in values if v is not None)
        sides = []
        for source, value in zip(node.sources, values, strict=True):
            if value is None:
                bounds = self._graph.nodes[source].arg / scale
                limit = 1 << 30
                if node.op != "CMPLT":
                    rounded = np.rint(bounds)
                else:
                    rounded = np.ceil(bounds) if source == node.sources[1] else np.floor(bounds)
                sides.append(self._builder.const(np.clip(rounded, -limit, limit), DType.INT32))
            else:
                total = IntegerSum((value,), value.offset, self._graph.nodes[source].shape)
                reach = int(np.ceil(value.reach * float(value.scale.max()) / scale)) + 1
                made = requantize(
                    self._builder, total, scale, -reach, reach, self._options, f"op {node.label or node.op}"
                )
                sides.append(self._builder.cast(made, DType.INT32))
        return self._builder.elementwise(node.op, *sides, dtype=DType.BOOL, label=node.label)
