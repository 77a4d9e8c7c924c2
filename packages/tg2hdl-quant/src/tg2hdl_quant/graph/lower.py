"""A float graph to a graph of integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError, UnsupportedError
from tg2hdl_ir.tensors import MOVEMENT, GraphBuilder, Quantizer, TensorGraph, TensorNode
from tg2hdl_quant.graph.equalization import channel_factors, equalization_method
from tg2hdl_quant.graph.features import feeds_only_weights, has_feature_scales
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.integer_bounds import weighted_bounds
from tg2hdl_quant.graph.lowered import Lowered, StoredTensor, WeightTensor
from tg2hdl_quant.graph.names import layer_names
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed
from tg2hdl_quant.graph.requantize import requantize
from tg2hdl_quant.graph.scales import activation_scale, weight_scales
from tg2hdl_quant.graph.steps import FLOAT, INTERNAL, OPERAND, OUTPUT, TABLE, Plan
from tg2hdl_quant.graph.values import Sum, Value, compact, integer_type
from tg2hdl_quant.graph.weight_codes import WeightRounding

__all__ = ["Lowering"]

Array = npt.NDArray[Any]
RangeOf = Callable[[Observed, int], tuple[float, float]]
TABLE_BITS = (8, 9, 10, 11, 12)
TABLE_SQNR = 44.0
_BEFORE_WEIGHTS = frozenset({"reshape", "permute", "expand", "pad", "shrink", "flip", "max"})


class Lowering:
    """Builds the integer graph of a plan.

    Parameters
    ----------
    graph : TensorGraph
        Simplified.
    plan : Plan
        Of it.
    observed : mapping of int to Observed
        Values of stored nodes and of what tables are computed from.
    range_of : callable
        ``(observed, bits) -> (low, high)``: the calibration method.
    rounding : WeightRounding
        What chooses the codes of weights.
    mean : mapping of int to ndarray, optional
        Means of the operands of layers with weights, for the correction of their biases.
    """

    def __init__(
        self,
        graph: TensorGraph,
        plan: Plan,
        observed: Mapping[int, Observed],
        range_of: RangeOf,
        options: QuantizeOptions,
        rounding: WeightRounding,
        mean: Mapping[int, Array] | None = None,
    ) -> None:
        self._mean = mean or {}
        self._plan = plan
        self._graph = plan.graph
        self._observed = observed
        self._range_of = range_of
        self._options = options
        self._rounding = rounding
        self._equalize = equalization_method(options.equalization)
        self._builder = GraphBuilder()
        self._names = layer_names(plan)
        self._values: dict[int, Value] = {}
        self._exact_nodes: dict[int, int] = {}
        self._stored: list[StoredTensor] = []
        self._weights: list[WeightTensor] = []
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
        outputs = tuple(self._output(n) for n in graph.outputs)
        unknown = sorted(set(self._options.layers) - {w.name for w in self._weights})
        if unknown:
            raise InputError(
                f"no layer {unknown[0]!r} with integer weights",
                hint="one of: " + ", ".join(w.name for w in self._weights),
            )
        integer = TensorGraph(
            graph.name,
            tuple(self._builder.nodes),
            tuple(v.node for v in inputs),
            tuple(v.node for v in outputs),
            graph.input_names,
            graph.structure,
        )
        in_float = tuple(self._floats.names)
        return Lowered(integer, inputs, outputs, tuple(self._stored), tuple(self._weights), in_float)

    # Stored nodes

    def _value(self, number: int) -> Value:
        """The narrow integers of a stored node."""
        if number not in self._values:
            kind = self._plan.kind(number)
            self._values[number] = getattr(self, f"_{kind}")(number)
        return self._values[number]

    def _bits(self, number: int) -> int:
        """Width of a stored node, by who reads it (bits)."""
        roles = self._plan.roles.get(number, {INTERNAL}) - {FLOAT}
        if OPERAND in roles:
            return self._options.bits
        if roles == {TABLE}:
            return self._index_bits(number)
        if roles == {OUTPUT}:
            return self._options.output_bits
        return max(self._options.internal_bits, self._options.bits)

    def _index_bits(self, number: int) -> int:
        """Width of a table's index for which the table is exact enough on the samples (bits)."""
        values = self._observed[number].values
        functions = [f for n, f in self._plan.functions.items() if f.base == number and n in self._plan.roles]
        for bits in TABLE_BITS:
            scale, low, high = self._scale(number, bits, bool(values.min() >= 0))
            rounded = np.clip(np.rint(values / scale), low, high) * scale
            if all(_sqnr(f(values), f(rounded)) >= TABLE_SQNR for f in functions):
                return bits
        return TABLE_BITS[-1]

    def _input(self, number: int) -> Value:
        node = self._graph.nodes[number]
        if self._plan.roles.get(number) == {FLOAT}:
            return _float_value(self._floats.node(number))
        bits = self._bits(number)
        offset: Array = np.zeros(())
        if self._options.input_scales != "one" and has_feature_scales(
            self._plan, self._observed[number], number
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
            one, low, high = self._scale(number, bits, unsigned)
            scale = np.asarray(one)
            if not unsigned and self._is_affine(number):
                scale, offset, high = self._affine_scale(number, bits)
                low = 0
        dtype = integer_type(low, high)
        assert dtype is not None
        made = self._builder.add("input", (), node.shape, dtype, node.arg, node.label)
        return self._keep(number, "input", Value(made, scale, low, high, offset))

    def _is_input(self, made: int) -> bool:
        """Whether a node of the new graph is an input, perhaps in another shape."""
        node = self._builder.nodes[made]
        while node.op in MOVEMENT:
            node = self._builder.nodes[node.sources[0]]
        return node.op == "input"

    def _const(self, number: int) -> Value:
        node = self._graph.nodes[number]
        bits = self._bits(number)
        limit = (1 << (bits - 1)) - 1
        finite = node.arg[np.isfinite(node.arg)]
        bound = float(np.abs(finite).max(initial=0))
        scale = activation_scale(finite.astype(np.float64), bound, limit, -limit, self._options.is_shift)
        integers = np.clip(np.rint(node.arg / scale), -limit, limit)
        dtype = integer_type(int(integers.min()), int(integers.max()))
        assert dtype is not None
        made = self._builder.const(integers, dtype, node.label)
        return Value(made, np.asarray(scale), int(integers.min()), int(integers.max()))

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

    def _exact(self, number: int) -> Value:
        """Integers and truth values are what they are: their step is 1."""
        node = self._graph.nodes[number]
        source = node.sources[0] if node.dtype.is_float else number
        made = self._exact_number(source)
        dtype = self._builder.nodes[made].dtype
        if dtype.is_bool and node.dtype.is_float:
            made = self._builder.cast(made, DType.UINT8)
        return Value(made, np.ones(()), dtype.min_value, dtype.max_value)

    _compare = _exact

    def _move(self, number: int) -> Value:
        node = self._graph.nodes[number]
        source = self._value(node.sources[0])
        if node.op == "cast":
            return source
        if node.op == "pad" and source.offset.size == 1 and np.any(source.offset):
            return self._pad_with_zero_point(node, source)
        moved = Sum((source,), source.offset, self._graph.nodes[node.sources[0]].shape).moved(
            self._builder, node
        )
        term = moved.terms[0]
        return Value(term.node, term.scale, term.low, term.high, moved.offset)

    def _pad_with_zero_point(self, node: TensorNode, source: Value) -> Value:
        """Padding with the code that stands for zero."""
        zero = int(np.rint(-source.offset / source.scale))
        dtype = self._builder.nodes[source.node].dtype
        down, up = (self._builder.const(value, DType.INT16) for value in (-zero, zero))
        made = self._builder.cast(source.node, DType.INT16)
        made = self._builder.elementwise("ADD", made, down, dtype=DType.INT16)
        made = self._builder.elementwise("ADD", self._builder.move(node, made), up, dtype=DType.INT16)
        return replace(source, node=self._builder.cast(made, dtype))

    def _max(self, number: int) -> Value:
        node = self._graph.nodes[number]
        source = self._value(node.sources[0])
        dtype = self._builder.nodes[source.node].dtype
        made = self._builder.reduce("max", source.node, node.arg, dtype, node.label)
        scale = source.scale
        if scale.size > 1:
            scale = compact(np.broadcast_to(scale, self._graph.nodes[node.sources[0]].shape).max(node.arg))
        return Value(made, scale, source.low, source.high, source.offset)

    def _function(self, number: int) -> Value:
        function = self._plan.functions[number]
        if function.clip is not None:
            total = self._sum_of(function.base)
            return self._requantized(number, total, function.clip)
        return self._table(number)

    def _sum(self, number: int) -> Value:
        total = self._sum_of(number, root=True)
        term = total.terms[0]
        if len(total.terms) == 1 and term.scale.size > 1 and self._is_input(term.node):
            # The weights take up an affine function of features that have scales of their own.
            return Value(term.node, term.scale, term.low, term.high, total.offset)
        if self._plan.roles.get(number) == {OUTPUT} and self._is_plain(total):
            return self._plain_output(number, total)
        return self._requantized(number, total, (-np.inf, np.inf))

    def _where(self, number: int) -> Value:
        node = self._graph.nodes[number]
        condition = self._exact_number(node.sources[0])
        scale, low, high = self._scale(
            number, self._bits(number), False, self._constant_arms(node.sources[1:])
        )
        arms = [self._at_scale(s, scale, low, high, number) for s in node.sources[1:]]
        dtype = integer_type(low, high)
        assert dtype is not None
        made = self._builder.elementwise("WHERE", condition, *arms, dtype=dtype, label=node.label)
        return self._keep(number, "select", Value(made, np.asarray(scale), low, high))

    def _constant_arms(self, arms: tuple[int, ...]) -> float:
        """Largest magnitude of constants that are data and no mask: samples need not have selected all of them."""
        arrays = [self._graph.nodes[s].arg for s in arms if self._graph.nodes[s].op == "const"]
        data = [a[np.isfinite(a)] for a in arrays if a.size > 1 and a.min() != a.max()]
        return max((float(np.abs(a).max(initial=0)) for a in data), default=0.0)

    def _maximum(self, number: int) -> Value:
        node = self._graph.nodes[number]
        scale, low, high = self._scale(number, self._bits(number), False)
        a, b = (self._at_scale(s, scale, low, high, number) for s in node.sources)
        dtype = integer_type(low, high)
        assert dtype is not None
        made = self._builder.elementwise("MAX", a, b, dtype=dtype, label=node.label)
        return self._keep(number, "maximum", Value(made, np.asarray(scale), low, high))

    # Float arithmetic

    def _output(self, number: int) -> Value:
        is_float = self._graph.nodes[number].dtype.is_float and self._plan.is_float(number)
        return _float_value(self._floats.node(number)) if is_float else self._value(number)

    def _float(self, number: int) -> Value:
        """The integers of what float arithmetic computes."""
        if not self._graph.nodes[number].dtype.is_float:
            return self._exact(number)
        scale, low, high = self._scale(number, self._bits(number), self._observed[number].low >= 0)
        dtype = integer_type(low, high)
        assert dtype is not None
        quantizer = Quantizer(np.asarray(scale, np.float32), np.zeros((), np.int64), low, high)
        made = self._floats.quantized(number, quantizer, dtype, self._name_in_float(number))
        return self._keep(number, "float", Value(made, np.asarray(scale), low, high))

    def _before_float(self, number: int) -> Sum | None:
        """Integers that float arithmetic reads, with their scales."""
        below = self._plan.below_moves(number)
        if self._plan.kind(below) == "float" or self._plan.roles.get(below) == {FLOAT}:
            return None
        return self._sum_of(number)

    def _name_in_float(self, number: int) -> str:
        node = self._graph.nodes[number]
        return self._plan.floats.get(number) or node.label or node.op

    # Parts

    def _scale(self, number: int, bits: int, unsigned: bool, at_least: float = 0.0) -> tuple[float, int, int]:
        """Scale of a node and the bounds of its integers."""
        observed = self._observed[number]
        # Unsigned operands of 16 bits would take 32 in memory.
        unsigned_bits = min(bits, 15) if self._options.bits == 16 else bits
        low, high = (
            (0, (1 << unsigned_bits) - 1) if unsigned else (1 - (1 << (bits - 1)), (1 << (bits - 1)) - 1)
        )
        smallest, largest = self._range_of(observed, bits)
        bound = max(largest, 0.0 if unsigned else -smallest, at_least)
        scale = activation_scale(observed.values, bound, high, low, self._options.is_shift)
        return scale, low, high

    def _is_affine(self, number: int) -> bool:
        """Whether a stored tensor has a zero point."""
        chosen = self._options.activations == "affine" and self._options.bits <= 8
        return chosen and self._feeds_only_weights(number)

    def _feeds_only_weights(self, number: int) -> bool:
        return self._plan.roles.get(number) == {OPERAND} and feeds_only_weights(
            self._plan, number, _BEFORE_WEIGHTS
        )

    def _factors(self, number: int) -> Array:
        """What an equalization method divides the channels of a tensor by; one number without."""
        channels = self._observed[number].channels
        if self._equalize is None or channels is None or channels.size == 1:
            return np.ones(())
        if self._graph.nodes[number].shape[0] != 1 or not self._feeds_only_weights(number):
            return np.ones(())
        return channel_factors(self._plan, number, channels, self._equalize, self._options.is_shift)

    def _affine_scale(self, number: int, bits: int) -> tuple[Array, Array, int]:
        """Scale, value of code 0, and the largest code, so that the codes span what samples had, and zero has one."""
        observed = self._observed[number]
        smallest, largest = self._range_of(observed, bits)
        smallest, largest = min(smallest, 0.0), max(largest, 0.0)
        high = (1 << bits) - 1
        scale = activation_scale(
            observed.values - smallest, largest - smallest, high, 0, self._options.is_shift
        )
        zero = np.clip(np.rint(-smallest / scale), 0, high)
        return np.asarray(scale), np.asarray(-zero * scale), high

    def _keep(self, number: int, kind: str, value: Value) -> Value:
        bits = max(value.high.bit_length(), value.low.bit_length() + 1 if value.low < 0 else 0)
        self._stored.append(StoredTensor(self._names[number], kind, number, value, bits))
        return value

    def _requantized(self, number: int, total: Sum, clip: tuple[float, float]) -> Value:
        smallest = sum(
            float(np.minimum(t.scale * t.low, t.scale * t.high).min()) for t in total.terms
        ) + float(total.offset.min())
        unsigned = max(smallest, clip[0]) >= 0
        scale, low, high = self._scale(number, self._bits(number), unsigned)
        offset: Array = np.zeros(())
        factors = self._factors(number) if clip[0] in (0, -np.inf) and clip[1] == np.inf else np.ones(())
        if factors.size > 1:
            observed = self._observed[number]
            assert observed.channels is not None
            bound = float((observed.channels / factors.reshape(-1)).max())
            scale = activation_scale(np.array([bound]), bound, high, low, self._options.is_shift)
            total = total.times(1 / factors, total.shape)
        elif not unsigned and self._is_affine(number):
            one, offset, high = self._affine_scale(number, self._bits(number))
            scale, low = float(one), 0
            total = Sum(total.terms, total.offset - offset, total.shape)
        if np.isfinite(clip[0]):
            low = max(low, int(np.rint((clip[0] - offset) / scale)))
        if np.isfinite(clip[1]):
            high = min(high, int(np.rint((clip[1] - offset) / scale)))
        high = max(high, low)
        # A mask adds a number that is far out of range: any that saturates does the same.
        far = sum(t.reach * float(np.abs(t.scale).max()) for t in total.terms) + 4 * scale * max(high, -low)
        total = Sum(total.terms, np.clip(total.offset, -far, far), total.shape)
        made = requantize(self._builder, total, scale, low, high, self._options, self._where_name(number))
        return self._keep(number, "activation", Value(made, np.asarray(scale * factors), low, high, offset))

    def _where_name(self, number: int) -> str:
        return f"layer {self._names[number]}"

    def _at_scale(self, number: int, scale: float, low: int, high: int, owner: int) -> int:
        node = self._graph.nodes[number]
        dtype = integer_type(low, high)
        assert dtype is not None
        if node.op == "const":
            values = np.nan_to_num(node.arg / scale, posinf=high, neginf=low)
            return self._builder.const(np.clip(np.rint(values), low, high), dtype, node.label)
        total = self._sum_of(number)
        made = requantize(self._builder, total, scale, low, high, self._options, self._where_name(owner))
        return self._builder.cast(made, dtype)

    def _is_plain(self, total: Sum) -> bool:
        """One term with one scale: its integers are the result, without rounding."""
        return len(total.terms) == 1 and total.terms[0].scale.size == 1 and bool(total.terms[0].scale > 0)

    def _plain_output(self, number: int, total: Sum) -> Value:
        term = total.terms[0]
        added = np.rint(total.offset / term.scale).astype(np.int64)
        low, high = term.low + int(added.min()), term.high + int(added.max())
        dtype = integer_type(low, high, narrowest=32)
        if dtype is None or dtype.bit_width > 32:
            return self._requantized(number, total, (-np.inf, np.inf))
        made = self._builder.cast(term.node, dtype)
        if np.any(added):
            made = self._builder.elementwise("ADD", made, self._builder.const(added, dtype), dtype=dtype)
        return self._keep(number, "sum", Value(made, term.scale, low, high))

    def _table(self, number: int) -> Value:
        """A function by a table that the integers of its argument index."""
        function = self._plan.functions[number]
        node = self._graph.nodes[number]
        base = self._scalar(function.base)
        codes = np.arange(base.low, base.high + 1)
        results = function(codes * base.scale)
        results = np.nan_to_num(results, nan=0.0, posinf=3e38, neginf=-3e38)
        observed = self._observed[number]
        results = np.clip(results, observed.low, observed.high)
        bits = self._bits(number)
        unsigned = bool(results.min() >= 0)
        scale, low, high = self._scale(number, bits, unsigned)
        entries = np.clip(np.rint(results / scale), low, high).astype(np.int64)
        dtype = integer_type(low, high)
        assert dtype is not None
        table = self._builder.const(entries, dtype, f"{self._names[number]}.table")
        index = self._builder.cast(base.node, DType.INT32)
        if base.low:
            start = self._builder.const(-base.low, DType.INT32)
            index = self._builder.elementwise("ADD", index, start, dtype=DType.INT32)
        made = self._builder.add("gather", (table, index), node.shape, dtype, None, node.label)
        value = Value(made, np.asarray(scale), int(entries.min()), int(entries.max()))
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
                total = Sum((value,), value.offset, self._graph.nodes[source].shape)
                reach = int(np.ceil(value.reach * float(value.scale.max()) / scale)) + 1
                made = requantize(
                    self._builder, total, scale, -reach, reach, self._options, f"op {node.label or node.op}"
                )
                sides.append(self._builder.cast(made, DType.INT32))
        return self._builder.elementwise(node.op, *sides, dtype=DType.BOOL, label=node.label)

    # Sums

    def _sum_of(self, number: int, root: bool = False) -> Sum:
        """Terms of a node that is not stored by itself."""
        graph = self._graph
        node = graph.nodes[number]
        kind = self._plan.kind(number)
        if kind == "const":
            finite = np.nan_to_num(node.arg.astype(np.float64), posinf=3e38, neginf=-3e38)
            return Sum((), finite, node.shape)
        if not root and self._plan.is_leaf(number):
            value = self._value(number)
            return Sum((Value(value.node, value.scale, value.low, value.high),), value.offset, node.shape)
        if kind == "move":
            inner = self._sum_of(node.sources[0])
            return inner if node.op == "cast" else inner.moved(self._builder, node)
        if node.op == "ADD":
            first, second = (self._sum_of(s) for s in node.sources)
            return first.plus(second, node.shape)
        if node.op == "MUL":
            constants = [s for s in node.sources if graph.nodes[s].op == "const"]
            if constants:
                factor = graph.nodes[constants[0]].arg.astype(np.float64)
                varying = next(s for s in node.sources if s not in constants)
                return self._sum_of(varying).times(factor, node.shape)
            return self._product(number)
        operands = self._plan.contraction(number)
        if operands is None:
            return self._total(number)
        constants = [s for s in operands if graph.nodes[s].op == "const"]
        if constants:
            varying = next(s for s in operands if s not in constants)
            return self._weighted(number, varying, constants[0])
        return self._contraction(number, operands)

    def _scalar(self, number: int) -> Value:
        """A stored node with one scale and no offset."""
        value = self._value(number)
        if value.scale.size == 1 and not np.any(value.offset):
            return Value(value.node, value.scale.reshape(()), value.low, value.high)
        raise UnsupportedError(
            "an operand of a product of two activations has several scales",
            where=self._where_name(number),
            hint="quantize with input_scales='one'",
        )

    def _product(self, number: int) -> Sum:
        node = self._graph.nodes[number]
        a, b = (self._scalar(s) for s in node.sources)
        made, low, high = self._multiplied(a, b, 1, self._where_name(number))
        return Sum((Value(made, a.scale * b.scale, low, high),), np.zeros(()), node.shape)

    def _multiplied(self, a: Value, b: Value, terms: int, where: str) -> tuple[int, int, int]:
        """Products of integers in a type that holds a sum of `terms` of them."""
        if a.node == b.node:
            low, high = 0, a.reach * a.reach
        else:
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            low, high = min(corners), max(corners)
        dtype = integer_type(low * terms, high * terms, narrowest=32)
        if dtype is None:
            raise UnsupportedError("a sum of products needs more than 64 bits", where=where)
        factors = (self._builder.cast(v.node, dtype) for v in (a, b))
        return self._builder.elementwise("MUL", *factors, dtype=dtype), low, high

    def _total(self, number: int) -> Sum:
        """A sum of stored integers over axes."""
        node = self._graph.nodes[number]
        source = self._value(node.sources[0])
        shape = self._graph.nodes[node.sources[0]].shape
        count = int(np.prod([shape[a] for a in node.arg]))
        value = self._scalar(node.sources[0])
        dtype = integer_type(source.low * count, source.high * count, narrowest=32)
        assert dtype is not None
        made = self._builder.reduce("sum", self._builder.cast(value.node, dtype), node.arg, dtype, node.label)
        term = Value(made, value.scale, source.low * count, source.high * count)
        return Sum((term,), np.zeros(()), node.shape)

    def _contraction(self, number: int, operands: tuple[int, int]) -> Sum:
        """Sum of products of two activations."""
        node = self._graph.nodes[number]
        shape = self._graph.nodes[node.sources[0]].shape
        count = int(np.prod([shape[a] for a in node.arg]))
        a, b = (self._scalar(s) for s in operands)
        product, low, high = self._multiplied(a, b, count, self._where_name(number))
        dtype = self._builder.nodes[product].dtype
        made = self._builder.reduce("sum", product, node.arg, dtype, node.label)
        term = Value(made, a.scale * b.scale, low * count, high * count)
        return Sum((term,), np.zeros(()), node.shape)

    def _weighted(self, number: int, varying: int, constant: int) -> Sum:
        """Sum of products with weights: a scale for each output channel."""
        node = self._graph.nodes[number]
        weight_node = self._graph.nodes[constant]
        shape = self._graph.nodes[node.sources[0]].shape
        value = self._value(varying)
        rank = len(shape)
        weights = _of_rank(weight_node.arg.astype(np.float64), rank)
        float_weights, taken_up = weights, np.ones(())
        if value.scale.size > 1:
            taken_up = compact(np.broadcast_to(_of_rank(value.scale, rank), shape))
            weights = weights * taken_up
        name = self._names[number]
        bits = self._options.layers.get(name, self._options.weights)
        limit = (1 << (bits - 1)) - 1
        axes = node.arg if self._options.per_channel else tuple(range(rank))
        scale = weight_scales(weights, axes, limit, self._options.is_shift, search=bits < 6)
        integers = self._rounding.codes(
            weights, scale, limit, varying, taken_up, shape, node.arg, self._where_name(number)
        )
        offset = np.zeros(())
        if np.any(value.offset):
            # A zero point is what rounded weights are multiplied with; features are centred before they are rounded.
            of = float_weights if value.scale.size > 1 else integers * scale
            offset = _times_weights(_of_rank(value.offset, rank), of, shape, node.arg)
        if varying in self._mean:
            offset = offset + _lost_mean(
                self._mean[varying], float_weights, integers * scale / taken_up, node.arg
            )
        low, high = weighted_bounds(integers, (value.low, value.high), shape, node.arg)
        dtype = integer_type(low, high, narrowest=32)
        stored_type = integer_type(-limit, limit)
        if dtype is None:
            raise UnsupportedError(
                f"sums of products with integers from {value.low:,} to {value.high:,} need more than 64 bits",
                where=self._where_name(number),
                hint="give samples of a narrower type, such as int8 or float32",
            )
        assert stored_type is not None
        stored = self._builder.const(integers, stored_type, weight_node.label)
        factors = (self._builder.cast(value.node, dtype), self._builder.cast(stored, dtype))
        product = self._builder.elementwise("MUL", *factors, dtype=dtype)
        if self._builder.nodes[product].shape != shape:
            product = self._builder.add("expand", (product,), shape, dtype)
        made = self._builder.reduce("sum", product, node.arg, dtype, node.label)
        width = max((-low - 1).bit_length() if low < 0 else 0, high.bit_length()) + 1
        self._weights.append(WeightTensor(name, bits, weights, integers, scale, width))
        step = scale if value.scale.size > 1 else scale * value.scale
        kept = np.squeeze(np.broadcast_to(step, (*step.shape,)), node.arg) if step.ndim else step
        return Sum((Value(made, kept, low, high),), offset, node.shape)


def _float_value(node: int) -> Value:
    return Value(node, np.ones(()), 0, 0)


def _sqnr(reference: Array, value: Array) -> float:
    finite = np.isfinite(reference)
    noise = np.square(np.nan_to_num(value[finite], posinf=3e38) - reference[finite]).sum()
    signal = np.square(reference[finite]).sum()
    return float(10 * np.log10(signal / noise)) if noise > 0 and signal > 0 else np.inf


def _of_rank(array: Array, rank: int) -> Array:
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _times_weights(offset: Array, weights: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Sum over `axes` of products of `shape`; an axis along which both repeat has size 1."""
    full = tuple(
        size if a in axes else max(offset.shape[a], weights.shape[a]) for a, size in enumerate(shape)
    )
    return np.asarray((offset * weights + np.zeros(full)).sum(axes))


def _lost_mean(mean: Array, weights: Array, rounded: Array, axes: tuple[int, ...]) -> Array:
    """What rounding of the weights takes from the mean of each output channel."""
    lost = (_of_rank(mean, weights.ndim) * (weights - rounded)).sum(axes, keepdims=True)
    repeated = tuple(a for a in range(weights.ndim) if a not in axes and weights.shape[a] == 1)
    return np.asarray(np.squeeze(lost.mean(repeated, keepdims=True), axes))
