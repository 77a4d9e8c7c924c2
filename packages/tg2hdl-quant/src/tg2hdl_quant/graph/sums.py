"""Float tensors as sums of scaled integers, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType
from tg2hdl_ir.tensors import MOVEMENT, TensorGraph
from tg2hdl_quant.graph.builder import Bounds, IntegerBuilder, weighted_bounds
from tg2hdl_quant.graph.functions import find_function
from tg2hdl_quant.graph.values import EXACT, IntegerSum, IntegerValue, is_power_of_two, of_rank

__all__ = ["IntegerForms"]

Array = npt.NDArray[np.float64]
_WIDEST = 1 << 31
"""Sums have the range of int32; wider integers are rounded when they become floats."""


class IntegerForms:
    """Integer forms of float tensors.

    Parameters
    ----------
    codes : callable
        The integer node of a tensor of integers.
    """

    def __init__(self, graph: TensorGraph, builder: IntegerBuilder, codes: Callable[[int], int]) -> None:
        self._graph = graph
        self._builder = builder
        self._codes = codes
        self._known: dict[int, IntegerSum | None] = {}

    def total(self, number: int) -> IntegerSum | None:
        """A float tensor as a sum of scaled integers; None without one."""
        if number not in self._known:
            self._known[number] = self._total(number)
        return self._known[number]

    def compared(self, number: int) -> int | None:
        """A comparison of two tensors on the same steps, in integers; None without one."""
        node = self._graph.nodes[number]
        sides = [self._plain(s) for s in node.sources]
        a, b = sides
        if a is None or b is None:
            one, place = (a, 1) if a is not None else (b, 0)
            other = self._graph.nodes[node.sources[place]]
            if one is None or other.op != "const" or np.any(other.arg):
                return None
            zero = self._builder.const(0, self._builder.nodes[one.node].dtype)
            numbers = (one.node, zero) if place else (zero, one.node)
        elif a.scale != b.scale:
            return None
        else:
            dtype = self._builder.fitting(min(a.low, b.low), max(a.high, b.high), node.op, 8)
            numbers = (self._builder.cast(a.node, dtype), self._builder.cast(b.node, dtype))
        return self._builder.elementwise(node.op, *numbers, dtype=DType.BOOL, label=node.label)

    def _total(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        if node.op == "const":
            return (
                IntegerSum((), node.arg.astype(np.float64), node.shape)
                if np.all(np.isfinite(node.arg))
                else None
            )
        if node.op == "dequantize":
            return self._dequantized(number)
        if node.op == "cast":
            return self._cast(number)
        if node.op in MOVEMENT:
            inner = self.total(node.sources[0])
            return None if inner is None else self._again(inner.moved(self._builder, node))
        if node.op == "ADD":
            return self._added(number)
        if node.op == "MUL":
            return self._product(number)
        if node.op == "FDIV":
            return self._quotient(number)
        if node.op == "sum":
            return self._summed(number)
        if node.op in ("max", "MAX", "WHERE"):
            return self._chosen(number)
        return None

    def _one(
        self,
        number: int,
        scale: npt.ArrayLike,
        shape: tuple[int, ...],
        zero: int = 0,
        floats: str = "",
        parts: tuple[IntegerValue, ...] = (),
    ) -> IntegerSum:
        low, high = self._builder.bounds(number)
        value = IntegerValue(
            number, np.asarray(scale, np.float64), low, high, zero=zero, floats=floats, parts=parts
        )
        return IntegerSum((value,), np.zeros(()), shape)

    def _again(self, total: IntegerSum) -> IntegerSum:
        """The sum with bounds proven anew."""
        terms = tuple(
            replace(t, low=low, high=high)
            for t in total.terms
            for low, high in [self._builder.bounds(t.node)]
        )
        return IntegerSum(terms, total.offset, total.shape)

    def _dequantized(self, number: int) -> IntegerSum:
        node = self._graph.nodes[number]
        codes = self._codes(node.sources[0])
        low, high = self._builder.bounds(codes)
        self._builder.set_bounds(codes, max(low, node.arg.low), min(high, node.arg.high))
        zero = node.arg.zero
        shifted = self._builder.plus(codes, -zero, f"layer {node.label}")
        kept = int(zero.reshape(-1)[0]) if zero.size == 1 else 0
        return self._one(shifted, node.arg.scale, node.shape, kept, self._single(shifted))

    def _cast(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        source = self._graph.nodes[node.sources[0]]
        if node.dtype not in (DType.FP32, DType.FP64):
            return None  # It rounds.
        if source.dtype.is_float:
            return self.total(node.sources[0]) if node.dtype.bit_width >= source.dtype.bit_width else None
        codes = self._codes(node.sources[0])
        if source.dtype.is_bool:
            codes = self._builder.cast(codes, DType.UINT8)
        total = self._one(codes, 1.0, node.shape, floats=self._single(codes))
        return total if total.terms[0].reach < _WIDEST else None

    def _single(self, codes: int) -> str:
        """`IntegerValue.floats` of integers that are scaled by themselves."""
        low, high = self._builder.bounds(codes)
        return "codes" if low > -EXACT and high < EXACT else ""

    def _added(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        first, second = (self.total(s) for s in node.sources)
        if first is None or second is None:
            return None
        total = self._constant(first).plus(self._constant(second), node.shape)
        given = first.terms + second.terms
        if (
            len(given) == 2
            and len(total.terms) == 1
            and not np.any(first.offset)
            and not np.any(second.offset)
        ):
            total = replace(total, terms=(replace(total.terms[0], parts=given),))
        if len(total.terms) != 2 or not _same_scale(total.terms):
            return total
        a, b = total.terms
        dtype = self._builder.fitting(a.low + b.low, a.high + b.high, node.label, 16)
        one = np.ones((), np.int64)
        made = self._builder.combined([(a.node, one), (b.node, one)], np.zeros((), np.int64), dtype)
        floats = _sums((a, b), a.reach + b.reach)
        return replace(self._one(made, a.scale, node.shape, floats=floats, parts=(a, b)), offset=total.offset)

    def _constant(self, total: IntegerSum) -> IntegerSum:
        """A sum whose codes are constants, such as a bias, as numbers."""
        arrays = [self._array(t.node) for t in total.terms]
        if any(a is None for a in arrays):
            return total
        numbers = sum((a * t.scale for a, t in zip(arrays, total.terms, strict=True)), total.offset)
        return IntegerSum((), np.asarray(numbers, np.float64), total.shape)

    def _product(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        constants = [s for s in node.sources if self._graph.nodes[s].op == "const"]
        if constants:
            factor = self._graph.nodes[constants[0]].arg
            others = [s for s in node.sources if s not in constants]
            return self._scaled(others[0] if others else constants[1], factor, node.shape)
        a, b = (self._plain(s) for s in node.sources)
        if a is None or b is None:
            return None
        reach = a.reach * b.reach
        dtype = self._builder.fitting(-reach, reach, "a product of activations", 32)
        made = self._builder.product(a, b, dtype)
        return self._one(made, a.scale * b.scale, node.shape, floats=_sums((a, b), reach))

    def _quotient(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        divisor = self._graph.nodes[node.sources[1]]
        if divisor.op != "const" or not np.all(divisor.arg):
            return None
        return self._scaled(node.sources[0], 1 / divisor.arg, node.shape)

    def _scaled(
        self, number: int, constant: npt.NDArray[np.floating], shape: tuple[int, ...]
    ) -> IntegerSum | None:
        """The product of a tensor and a constant."""
        factor = constant.astype(np.float64)
        inner = self.total(number)
        if inner is None or not np.all(np.isfinite(factor)):
            return None
        count = _count(factor)
        if count == 1:
            return inner.times(factor, shape)
        terms = tuple(
            replace(t, scale=t.scale / count, zero=0, count=t.count * count, floats="", parts=())
            for t in inner.terms
        )
        return IntegerSum(terms, inner.offset / count, shape)

    def _plain(self, number: int) -> IntegerValue | None:
        """A tensor of integers with one scale."""
        value = self._operand(number)
        return None if value is None or value.scale.size != 1 else value

    def _operand(self, number: int) -> IntegerValue | None:
        """A tensor of scaled integers without an offset."""
        total = self.total(number)
        if total is None or len(total.terms) != 1 or np.any(total.offset):
            return None
        term = total.terms[0]
        scale = term.scale.reshape(()) if term.scale.size == 1 else term.scale
        return replace(term, scale=scale, zero=0, count=1, parts=()) if np.all(scale > 0) else None

    def _summed(self, number: int) -> IntegerSum | None:
        node = self._graph.nodes[number]
        source = self._graph.nodes[node.sources[0]]
        if source.op == "MUL" and all(self._graph.nodes[s].op != "const" for s in source.sources):
            a, b = (self._operand(s) for s in source.sources)
            return None if a is None or b is None else self._contraction(number, a, b)
        value = self._operand(node.sources[0])
        if value is None or value.scale.size != 1:
            return None
        count = int(np.prod([source.shape[a] for a in node.arg]))
        reach = value.reach * count
        wide = self._builder.cast(value.node, self._builder.fitting(-reach, reach, node.label, 32))
        made = self._builder.summed(wide, source.shape, node.arg, node.label)
        return self._one(made, value.scale, node.shape, floats=_sums((value,), reach))

    def _contraction(self, number: int, a: IntegerValue, b: IntegerValue) -> IntegerSum | None:
        """Sum of products; a scale of its own for each channel that is not summed over."""
        node = self._graph.nodes[number]
        shape = self._graph.nodes[node.sources[0]].shape
        scale = np.ones(())
        kept = tuple(0 if n in node.arg else slice(None) for n in range(len(shape)))
        for value in (a, b):
            factor = value.scale
            if factor.size > 1:
                spread = of_rank(factor, len(shape))
                if any(_varies(spread, axis) for axis in node.arg):
                    return None
                factor = spread[kept]
            scale = scale * factor
        (low, high), reach = self._sum_bounds(a, b, shape, node.arg)
        product = self._builder.product(a, b, self._builder.fitting(low, high, f"layer {node.label}", 32))
        made = self._builder.summed(product, shape, node.arg, node.label)
        self._builder.set_bounds(made, low, high)
        return self._one(made, scale, node.shape, floats=_sums((a, b), reach))

    def _sum_bounds(
        self, a: IntegerValue, b: IntegerValue, shape: tuple[int, ...], axes: tuple[int, ...]
    ) -> tuple[Bounds, int]:
        """Bounds of a sum of products, and the largest sum of their magnitudes."""
        for weights, values in ((a, b), (b, a)):
            array = self._array(weights.node)
            if array is not None:
                array = of_rank(array.astype(np.int64), len(shape))
                bounds = weighted_bounds(array, (values.low, values.high), shape, axes)
                return bounds, weighted_bounds(np.abs(array), (-values.reach, values.reach), shape, axes)[1]
        reach = a.reach * b.reach * int(np.prod([shape[n] for n in axes]))
        return (-reach, reach), reach

    def _array(self, number: int) -> npt.NDArray[np.int64] | None:
        """Elements of a constant, of size 1 along axes that it repeats on."""
        node = self._builder.nodes[number]
        if node.op == "expand":
            inner = self._array(node.sources[0])
            return None if inner is None else of_rank(inner, len(node.shape))
        return np.asarray(node.arg) if node.op == "const" else None

    def _chosen(self, number: int) -> IntegerSum | None:
        """Maxima, and a choice between a tensor and a value below all of its elements."""
        node = self._graph.nodes[number]
        if node.op == "max":
            value = self._plain(node.sources[0])
            if value is None:
                return None
            dtype = self._builder.nodes[value.node].dtype
            made = self._builder.reduce("max", value.node, node.arg, dtype, node.label)
            return self._one(made, value.scale, node.shape, floats=value.floats)
        function = find_function(self._graph, number)
        if function is not None:
            rectified = function.clip == (0.0, np.inf)
            return self._rectified(function.base, node.shape) if rectified else None
        arms = node.sources if node.op == "MAX" else node.sources[1:]
        values = [self._plain(s) for s in arms]
        known = next((v for v in values if v is not None), None)
        if known is None or any(v is not None and v.scale != known.scale for v in values):
            return None
        numbers = []
        for value, source in zip(values, arms, strict=True):
            number_ = value.node if value is not None else self._arm(source, known)
            if number_ is None:
                return None
            numbers.append(number_)
        bounds = [self._builder.bounds(n) for n in numbers]
        dtype = self._builder.fitting(min(b[0] for b in bounds), max(b[1] for b in bounds), node.label)
        operands = [self._builder.cast(n, dtype) for n in numbers]
        if node.op == "WHERE":
            operands.insert(0, self._codes(node.sources[0]))
        made = self._builder.elementwise(node.op, *operands, dtype=dtype, label=node.label)
        constants = (self._graph.nodes[s] for v, s in zip(values, arms, strict=True) if v is None)
        same = all(np.all((c.arg == 0) | np.isinf(c.arg)) for c in constants)
        kinds = [v.floats for v in values if v is not None]
        floats = max(kinds) if same and all(kinds) else ""
        return self._one(made, known.scale, node.shape, floats=floats)

    def _arm(self, number: int, beside: IntegerValue) -> int | None:
        """A constant as integers on the steps of a tensor; an infinity is its bound."""
        node = self._graph.nodes[number]
        if node.op != "const":
            return None
        steps = np.nan_to_num(node.arg / beside.scale, posinf=beside.high, neginf=beside.low)
        if not np.array_equal(steps, np.rint(steps)) or np.any(np.isnan(node.arg)):
            return None
        dtype = self._builder.fitting(int(steps.min()), int(steps.max()), node.label)
        return self._builder.const(steps, dtype, node.label)

    def _rectified(self, base: int, shape: tuple[int, ...]) -> IntegerSum | None:
        total = self.total(base)
        if total is None or len(total.terms) != 1 or not np.all(total.terms[0].scale > 0):
            return None
        term = total.terms[0]
        added = total.whole_steps()
        if added is None:
            return None
        number = self._builder.plus(term.node, added, "relu", 32)
        dtype = self._builder.nodes[number].dtype
        made = self._builder.elementwise("MAX", number, self._builder.const(0, dtype), dtype=dtype)
        return self._one(made, term.scale, shape, floats=total.floats())


def _sums(operands: tuple[IntegerValue, ...], reach: int) -> str:
    """Whether sums up to `reach` steps are exact in float32 in every order, as `IntegerValue.floats` says it."""
    scaled = all(v.floats and is_power_of_two(v.scale) for v in operands)
    return "sums" if scaled and reach < EXACT else ""


def _count(factor: Array) -> int:
    """The integer whose reciprocal a constant is in float32; 1 for another."""
    if factor.size != 1 or not 0 < float(factor.reshape(())) < 1:
        return 1
    count = round(1 / float(factor.reshape(())))
    return count if np.float32(1 / count) == np.float32(factor.reshape(())) else 1


def _same_scale(terms: tuple[IntegerValue, ...]) -> bool:
    return all(t.scale.size == 1 for t in terms) and terms[0].scale.reshape(()) == terms[1].scale.reshape(())


def _varies(scale: Array, axis: int) -> bool:
    return bool(np.any(scale != np.take(scale, [0], axis)))
