"""Sums of a float graph, and the products in them, as integers that are not rounded yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import UnsupportedError
from tg2hdl_quant.graph.builder import IntegerBuilder, weighted_bounds
from tg2hdl_quant.graph.group_scales import group_scales, summed_by_group
from tg2hdl_quant.graph.lowered import WeightTensor
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.scales import (
    weight_scales,
)
from tg2hdl_quant.graph.steps import StoragePlan, layer_names
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, code_type, compact, integer_type, of_rank
from tg2hdl_quant.graph.weight_codes import WeightRounding, lost_mean, times_weights

__all__ = ["SumBuilder"]

Array = npt.NDArray[Any]


class SumBuilder:
    """Builds the sums of a plan.

    Parameters
    ----------
    plan : StoragePlan
    builder : IntegerBuilder
        Of the integer graph.
    value : callable
        Narrow integers of a stored node.
    options : QuantizeOptions
    rounding : WeightRounding
        Method that chooses the codes of weights.
    mean : mapping of int to ndarray
        Means of the operands of layers with weights, for the correction of their biases.

    Attributes
    ----------
    weights : list of WeightTensor
        Those of the layers that are built.
    """

    def __init__(
        self,
        plan: StoragePlan,
        builder: IntegerBuilder,
        value: Callable[[int], IntegerValue],
        options: QuantizeOptions,
        rounding: WeightRounding,
        mean: Mapping[int, Array],
    ) -> None:
        self._plan, self._graph, self._builder, self._value = plan, plan.graph, builder, value
        self._options, self._rounding, self._mean = options, rounding, mean
        self._names = layer_names(plan)
        self.weights: list[WeightTensor] = []

    def of(self, number: int, root: bool = False) -> IntegerSum:
        """Terms of a node that is not stored by itself.

        Parameters
        ----------
        number : int
            Of the node.
        root : bool
            Whether a stored node is taken apart too.

        Raises
        ------
        UnsupportedError
            For a sum that needs more than 64 bits, and products whose operands have several scales.
        """
        graph = self._graph
        node = graph.nodes[number]
        kind = self._plan.kind(number)
        if kind == "const":
            finite = np.nan_to_num(node.arg.astype(np.float64), posinf=3e38, neginf=-3e38)
            return IntegerSum((), finite, node.shape)
        if not root and self._plan.is_leaf(number):
            value = self._value(number)
            return IntegerSum(
                (IntegerValue(value.node, value.scale, value.low, value.high),), value.offset, node.shape
            )
        if kind == "move":
            inner = self.of(node.sources[0])
            return inner if node.op == "cast" else inner.moved(self._builder, node)
        if node.op == "ADD":
            first, second = (self.of(s) for s in node.sources)
            return first.plus(second, node.shape)
        if node.op == "MUL":
            constants = [s for s in node.sources if graph.nodes[s].op == "const"]
            if constants:
                factor = graph.nodes[constants[0]].arg.astype(np.float64)
                varying = next(s for s in node.sources if s not in constants)
                return self.of(varying).times(factor, node.shape)
            return self._products(number, node.sources)
        operands = self._plan.contraction(number)
        if operands is None:
            return self._total(number)
        constants = [s for s in operands if graph.nodes[s].op == "const"]
        if constants:
            varying = next(s for s in operands if s not in constants)
            return self._weighted(number, varying, constants[0])
        return self._products(number, operands, node.arg)

    def _where(self, number: int) -> str:
        return f"layer {self._names[number]}"

    def scalar(self, number: int) -> IntegerValue:
        """A stored node with one scale and no offset."""
        value = self._value(number)
        if value.scale.size == 1 and not np.any(value.offset):
            return IntegerValue(value.node, value.scale.reshape(()), value.low, value.high)
        raise UnsupportedError(
            "an operand of a product of two activations has several scales",
            where=self._where(number),
            hint="quantize with input_scales='one'",
        )

    def _products(self, number: int, operands: tuple[int, ...], axes: tuple[int, ...] = ()) -> IntegerSum:
        """Products of two activations, summed over axes."""
        node = self._graph.nodes[number]
        shape = self._graph.nodes[node.sources[0]].shape
        count = int(np.prod([shape[a] for a in axes]))
        a, b = (self.scalar(s) for s in operands)
        corners = [x * y * count for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = (0, a.reach * a.reach * count) if a.node == b.node else (min(corners), max(corners))
        made = self._builder.product(a, b, self._builder.fitting(low, high, self._where(number), 32))
        if axes:
            made = self._builder.summed(made, shape, axes, node.label)
        return IntegerSum.of(IntegerValue(made, a.scale * b.scale, low, high), node.shape)

    def _total(self, number: int) -> IntegerSum:
        """A sum of stored integers over axes."""
        node = self._graph.nodes[number]
        shape = self._graph.nodes[node.sources[0]].shape
        count = int(np.prod([shape[a] for a in node.arg]))
        value = self.scalar(node.sources[0])
        low, high = value.low * count, value.high * count
        wide = self._builder.cast(value.node, self._builder.fitting(low, high, self._where(number), 32))
        made = self._builder.summed(wide, shape, node.arg, node.label)
        return IntegerSum.of(IntegerValue(made, value.scale, low, high), node.shape)

    def _weighted(self, number: int, varying: int, constant: int) -> IntegerSum:
        """Sum of products with weights: a scale for each output channel."""
        node = self._graph.nodes[number]
        weight_node = self._graph.nodes[constant]
        shape = self._graph.nodes[node.sources[0]].shape
        value = self._value(varying)
        rank = len(shape)
        weights = of_rank(weight_node.arg.astype(np.float64), rank)
        float_weights, taken_up = weights, np.ones(())
        if value.scale.size > 1:
            taken_up = compact(np.broadcast_to(of_rank(value.scale, rank), shape))
            weights = weights * taken_up
        name = self._names[number]
        bits = self._options.layers.get(name, self._options.weights)
        limit = (1 << (bits - 1)) - 1
        axes = node.arg if self._options.per_channel else tuple(range(rank))
        size = self._group_size(weights.shape, shape, node.arg)
        if size:
            scale, factors = group_scales(
                weights, node.arg[0], size, limit, self._options.is_shift, search=bits < 6
            )
        else:
            scale = weight_scales(weights, axes, limit, self._options.is_shift, search=bits < 6)
            factors = np.ones((), np.int64)
        codes = self._rounding.codes(
            weights, scale * factors, limit, varying, taken_up, shape, node.arg, self._where(number)
        )
        integers = codes * factors
        offset = np.zeros(())
        if np.any(value.offset):
            # Rounded weights are multiplied with the zero point; features are centred before they are rounded.
            of = float_weights if value.scale.size > 1 else integers * scale
            offset = times_weights(of_rank(value.offset, rank), of, shape, node.arg)
        if varying in self._mean:
            offset = offset + lost_mean(
                self._mean[varying], float_weights, integers * scale / taken_up, node.arg
            )
        low, high = weighted_bounds(integers, (value.low, value.high), shape, node.arg)
        dtype = integer_type(low, high, narrowest=32)
        if dtype is None:
            raise UnsupportedError(
                f"sums of products with integers from {value.low:,} to {value.high:,} need more than 64 bits",
                where=self._where(number),
                hint="give samples of a narrower type, such as int8 or float32",
            )
        stored = self._builder.const(codes, code_type(-limit, limit), weight_node.label)
        product = self._builder.product(value, IntegerValue(stored, scale, -limit, limit), dtype)
        if size:
            made = summed_by_group(self._builder, product, shape, node.arg[0], size, factors, node.label)
        else:
            made = self._builder.summed(product, shape, node.arg, node.label)
        width = max((-low - 1).bit_length() if low < 0 else 0, high.bit_length()) + 1
        self.weights.append(WeightTensor(name, bits, weights, integers, scale, width))
        step = scale if value.scale.size > 1 else scale * value.scale
        kept = np.squeeze(np.broadcast_to(step, (*step.shape,)), node.arg) if step.ndim else step
        return IntegerSum((IntegerValue(made, kept, low, high),), offset, node.shape)

    def _group_size(self, weights: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
        """Weights that share a scale; 0 where a row does."""
        size = self._options.group
        if size is None or len(axes) != 1 or weights[axes[0]] != shape[axes[0]]:
            return 0
        return size if shape[axes[0]] > size and shape[axes[0]] % size == 0 else 0
