"""Sums of scaled integers to the codes of a given quantizer, as ONNX Runtime rounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import UnsupportedError
from tg2hdl_ir.tensors import LayerKernel, Quantizer, TensorGraph, evaluate_nodes
from tg2hdl_ir.tensors.narrow_multipliers import fit_plane
from tg2hdl_ir.tensors.roundings import code_sum
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.forms import (
    NARROW,
    by_codes,
    by_staircase,
    by_steps,
    by_table,
    with_zero,
)
from tg2hdl_quant.graph.observed import evaluated
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.products import by_float32_product, fit_products, rounded_product
from tg2hdl_quant.graph.report import Requantization
from tg2hdl_quant.graph.requantize import requantize
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, code_type, compact, is_power_of_two

__all__ = ["INTEGER", "PRODUCTS", "to_codes"]

Array = npt.NDArray[Any]
_COMPARED = 1 << 17
"""Most operand values that are compared one by one."""
PRODUCTS = ("QGemm", "QLinearConv", "QLinearGlobalAveragePool", "QLinearMatMul", "QLinearMul", "QLinearAdd")
"""Kernels that multiply integers by a float32."""
INTEGER = LayerKernel("integers")
"""Of a graph that is not a file: integer sums are multiplied by a float32."""


@dataclass(frozen=True)
class _Codes:
    """The codes to make: a quantizer with one scale, their bounds, and the layer and kernel that they are of."""

    quantizer: Quantizer
    low: int
    high: int
    name: str
    kernel: LayerKernel

    @property
    def scale(self) -> float:
        return float(self.quantizer.scale.reshape(-1)[0])

    @property
    def zero(self) -> int:
        return int(self.quantizer.zero.reshape(-1)[0])

    @property
    def where(self) -> str:
        return f"layer {self.name}"


def to_codes(
    builder: IntegerBuilder,
    total: IntegerSum,
    quantizer: Quantizer,
    low: int,
    high: int,
    name: str,
    kernel: LayerKernel = INTEGER,
) -> tuple[int, Requantization] | None:
    """Node with the codes of a sum in [low, high], and how they are made; None without an integer form.

    Parameters
    ----------
    quantizer : Quantizer
        With one scale.
    kernel : LayerKernel
        How the runtime of the file makes these codes.
    """
    if not quantizer.is_plain:
        found = by_steps(builder, total, quantizer, low, high, name)
        if found is None:
            return None
        if found[1].kind == "approximate":
            return _doubted(found, kernel, "its rounding has no form that is proven")
        return found if total.floats() or kernel == INTEGER else _doubted(found, kernel)
    if not total.terms:
        codes = np.clip(quantizer.codes(np.broadcast_to(total.offset, total.shape)), low, high)
        return builder.const(codes, code_type(low, high)), Requantization(name, "same")
    wanted = _Codes(quantizer, low, high, name, kernel)
    if len(total.terms) > 1 or not np.all(total.terms[0].scale > 0):
        return _of_several(builder, total, wanted)
    if total.terms[0].parts and (
        kernel.name == "QLinearAdd" or (kernel == INTEGER and not np.any(total.offset))
    ):
        parts = IntegerSum(total.terms[0].parts, np.zeros(()), total.shape)
        return _of_several(builder, parts, wanted)
    found = _of_one(builder, total, wanted)
    floats = total.floats()
    if found is None:
        return None
    if (floats == "codes" and kernel.name not in PRODUCTS) or (floats and not _is_integer(kernel)):
        ratio = total.terms[0].scale.astype(np.float32) / quantizer.scale
        # A power of two is exact as a factor and as a divisor.
        alike = is_power_of_two(ratio) and is_power_of_two(quantizer.scale) and found[1].kind != "approximate"
        if alike or _is_rounded_so(builder, found[0], total, wanted):
            return _doubted(found, kernel) if not kernel.name else found
        other = by_steps(builder, total, quantizer, low, high, name)
        if other is not None:
            return _doubted(other, kernel) if not kernel.name else other
        return _doubted(found, kernel)
    if not _is_integer(kernel):
        return _doubted(found, kernel)
    if found[1].kind == "approximate" or kernel.name == "QLinearAdd":
        return _doubted(found, kernel, "its sums have no form that rounds as ONNX Runtime's product does")
    if total.whole_steps() is None and kernel.name != "QLinearMul":
        return _doubted(found, kernel, "the offset of its sums is not a whole number of their steps")
    return found


def _is_integer(kernel: LayerKernel) -> bool:
    return kernel.name not in ("", "float32")


def _doubted(
    found: tuple[int, Requantization], kernel: LayerKernel, why: str = ""
) -> tuple[int, Requantization]:
    """A form whose codes are not proven to be those of the runtime."""
    doubt = why or kernel.reason or "ONNX Runtime adds float32 products in an order of its own"
    return found[0], replace(found[1], doubt=doubt)


def _of_one(builder: IntegerBuilder, total: IntegerSum, wanted: _Codes) -> tuple[int, Requantization] | None:
    """Codes of one term, by the product with a float32."""
    scale, zero = np.float32(wanted.scale), wanted.zero
    if (count := total.terms[0].count) > 1:
        # ONNX Runtime divides by the scale times the count; the quotient of a mean's scale is rounded otherwise.
        whole = replace(total.terms[0], scale=total.terms[0].scale * count)
        total, scale = IntegerSum((whole,), total.offset * count, total.shape), scale * np.float32(count)
    if wanted.kernel.name == "QLinearMul":
        # It adds the zero point before it rounds.
        term, rest, zero = total.terms[0], compact(total.offset) + zero * float(scale), 0
    else:
        term, rest = _with_offset(builder, total, wanted.where)
    found = _single(builder, term, rest, scale, zero, wanted)
    if found is None:
        return None
    return builder.finished(found[0], total.shape, wanted.low, wanted.high), found[1]


def _of_several(builder: IntegerBuilder, total: IntegerSum, wanted: _Codes) -> tuple[int, Requantization]:
    """Codes of terms of several scales."""
    kernel = wanted.kernel
    in_float = kernel.name == "float32" and all(t.floats for t in total.terms) and not np.any(total.offset)
    number, how = _several(builder, total, wanted, in_float=in_float)
    made = builder.finished(number, total.shape, wanted.low, wanted.high), how
    if how.kind == "sum" and (in_float or kernel.name in (INTEGER.name, "QLinearAdd")):
        return made
    why = "" if how.kind == "sum" else "its sums have no form that rounds as ONNX Runtime does"
    return _doubted(made, kernel, kernel.reason or why)


def _is_rounded_so(builder: IntegerBuilder, number: int, total: IntegerSum, wanted: _Codes) -> bool:
    """Whether codes are those of the quantizer in float32, for every value of a narrow term or for a constant."""
    term = total.terms[0]
    if term.high - term.low >= NARROW or np.any(total.offset):
        return False
    graph = TensorGraph("", tuple(builder.nodes), (), (), ())
    if builder.nodes[term.node].op == "const":
        steps = evaluate_nodes(graph, (), [term.node])[term.node].astype(np.int64)
    else:
        steps = np.arange(term.low, term.high + 1).reshape(-1, *(1,) * len(total.shape))
    values = steps.astype(np.float32) * term.scale.astype(np.float32)
    expected = np.clip(wanted.quantizer.codes(values), wanted.low, wanted.high)
    own = steps.astype(builder.nodes[term.node].dtype.numpy())
    return bool(np.all(evaluated(graph, term.node, own, number) == expected))


def _with_offset(builder: IntegerBuilder, total: IntegerSum, where: str) -> tuple[IntegerValue, Array]:
    """The only term with its bias added as integers, and the part of the bias that is not an integer.

    For each element of a long sum, a bias that is not an integer is rounded to one, in steps of up to 1/4096 of the
    sum's.
    """
    term, offset, added = total.terms[0], compact(total.offset), total.whole_steps()
    if added is None and (offset.size == 1 or term.high - term.low < NARROW):
        return builder.value(term.node, term.scale), offset
    node, scale = term.node, term.scale
    if added is None:
        finer = 1 << max(0, min(12, 30 - term.reach.bit_length()))
        wide = builder.fitting(term.low * finer, term.high * finer, where, 32)
        node = builder.elementwise("MUL", builder.cast(node, wide), builder.const(finer, wide), dtype=wide)
        scale = scale / finer
        added = np.rint(offset / scale).astype(np.int64)
    node = builder.plus(node, added, where, narrowest=32)
    return builder.value(node, scale), np.zeros(())


def _single(
    builder: IntegerBuilder, term: IntegerValue, rest: Array, scale: Any, zero: int, wanted: _Codes
) -> tuple[int, Requantization] | None:
    if rest.size > 1:
        return _beside_constants(builder, term, rest, scale, zero, wanted)
    low, high, name, where = wanted.low, wanted.high, wanted.name, wanted.where
    offset = float(rest.reshape(()))
    multiplier = compact(term.scale.astype(np.float32) / scale)
    if np.all(multiplier == 1) and not offset:
        number = builder.plus(term.node, np.array(zero), where)
        least, most = builder.bounds(number)
        if least < low or most > high:
            number = builder.clipped(number, low, high, max(abs(least), abs(most)))
        return number, Requantization(name, "same")
    term = IntegerValue(term.node, compact(term.scale), term.low, term.high)
    one = IntegerSum((term,), np.asarray(offset), builder.nodes[term.node].shape)
    limit = max(high - zero, zero - low, 1)

    def approximate() -> int:
        steps = low - zero, high - zero
        number = requantize(builder, one, float(scale), *steps, _even(24), where, as_float32=True)
        return builder.plus(builder.set_bounds(number, *steps), np.array(zero), where)

    if _is_shift(multiplier, limit) and not offset:
        return approximate(), Requantization(name, "shift")
    found = fit_products(multiplier, term.low, term.high, low - zero, high - zero, offset / scale)
    if found is not None:
        number, bits = by_staircase(builder, term, found, zero, low, high)
        return number, Requantization(name, "multiplier", bits)
    if term.high - term.low < 1 << 10 and multiplier.size == 1:
        codes = rounded_product(np.arange(term.low, term.high + 1), multiplier, offset / scale)
        codes = np.clip(codes + zero, low, high)
        return by_table(builder, term, codes, low, high, name)
    if offset:  # not a multiple of the scale
        return approximate(), Requantization(name, "approximate", 24)
    try:
        made = by_float32_product(builder, one, float(scale), limit, where)
    except UnsupportedError:
        return approximate(), Requantization(name, "approximate", 24)
    return with_zero(builder, made, low, high, zero, where), Requantization(name, "float32", 24)


def _beside_constants(
    builder: IntegerBuilder, term: IntegerValue, rest: Array, scale: Any, zero: int, wanted: _Codes
) -> tuple[int, Requantization] | None:
    """Codes of a narrow term and a constant for each element, in float32; None for too many."""
    shape = np.broadcast_shapes(builder.nodes[term.node].shape, rest.shape)
    count = term.high - term.low + 1
    if count > NARROW or count * int(np.prod(shape)) > 1 << 24:
        return None
    steps = np.arange(term.low, term.high + 1).reshape(count, *(1,) * len(shape)).astype(np.float32)
    values = steps * term.scale.astype(np.float32) + rest.astype(np.float32)
    low, high = wanted.low, wanted.high
    codes = np.clip(np.rint(values / np.float32(scale)) + zero, low, high).astype(np.int64)
    codes = np.broadcast_to(codes, (count, *shape))
    return by_codes(builder, term, codes, term.scale / float(scale), low, high, wanted.name)


def _is_shift(multiplier: Array, limit: int) -> bool:
    """Whether a rounding shift gives the results: float32 holds the sums that do not saturate."""
    fraction, _ = np.frexp(multiplier)
    smallest = float(multiplier.min())
    return bool(np.all(fraction == 0.5) and multiplier.max() <= 1 and (limit + 1) / smallest < 1 << 24)


def _even(bits: int) -> QuantizeOptions:
    return QuantizeOptions(requantization="multiplier", rounding="half_even", multiplier_bits=bits)


def _several(
    builder: IntegerBuilder, total: IntegerSum, wanted: _Codes, *, in_float: bool
) -> tuple[int, Requantization]:
    """Terms of several scales: narrow multipliers where all values of two operands can be compared."""
    low, high, where = wanted.low, wanted.high, wanted.where
    shapes = [builder.nodes[t.node].shape for t in total.terms]
    rounded = _float_sum if in_float else partial(_runtime_sum, shapes)
    plane = _fit_plane(total, wanted, rounded) if _is_grid(total) else None
    if plane is None:
        shifted = IntegerSum(total.terms, total.offset + wanted.zero * wanted.scale, total.shape)
        number = requantize(builder, shifted, wanted.scale, low, high, _even(24), where, as_float32=True)
        return number, Requantization(wanted.name, "approximate", 24)
    factors, added, shift = plane
    reach = sum(t.reach * f for t, f in zip(total.terms, factors, strict=True)) + abs(added)
    dtype = builder.fitting(-reach, reach, where, 32)
    parts = [(t.node, np.asarray(f)) for t, f in zip(total.terms, factors, strict=True)]
    number = builder.shifted(builder.combined(parts, np.asarray(added), dtype), shift)
    number = builder.clipped(number, low, high, (reach >> shift) + 1)
    return number, Requantization(wanted.name, "sum", max(factors).bit_length(), 0.0)


def _is_grid(total: IntegerSum) -> bool:
    """Whether all values that the terms can have together are few enough to compare."""
    spans = [t.high - t.low + 1 for t in total.terms]
    single = all(t.scale.size == 1 and t.scale > 0 for t in total.terms) and total.offset.size == 1
    return single and len(spans) == 2 and spans[0] * spans[1] <= _COMPARED


def _fit_plane(
    total: IntegerSum, wanted: _Codes, rounded: Callable[..., Array]
) -> tuple[tuple[int, int], int, int] | None:
    """Factors, constant and shift that give ONNX Runtime's code for each pair of operands; None without."""
    a, b = (np.arange(t.low, t.high + 1, dtype=np.int64) for t in total.terms)
    a, b = a[:, None], b[None, :]
    low, high, scale = wanted.low, wanted.high, wanted.scale
    expected = np.clip(rounded(total, scale, wanted.zero, a, b), low, high).astype(np.int64)
    ratios = float(total.terms[0].scale.reshape(())) / scale, float(total.terms[1].scale.reshape(())) / scale
    return fit_plane(a, b, expected, ratios, low, high)


def _float_sum(total: IntegerSum, scale: float, zero: int, a: Array, b: Array) -> Array:
    """The sum of two dequantized codes, quantized, each step in float32."""
    one, two = (
        v.astype(np.float32) * np.float32(t.scale.reshape(()))
        for t, v in zip(total.terms, (a, b), strict=True)
    )
    return np.asarray(np.rint((one + two) / np.float32(scale)) + zero)


def _runtime_sum(
    shapes: list[tuple[int, ...]], total: IntegerSum, scale: float, zero: int, a: Array, b: Array
) -> Array:
    """The sum of two dequantized codes as ONNX Runtime's QLinearAdd quantizes it."""
    zeros = [t.zero for t in total.terms]
    codes = [v + z for v, z in zip((a, b), zeros, strict=True)]
    scales = [float(t.scale.reshape(-1)[0]) for t in total.terms]
    return code_sum(codes, shapes, scales, zeros, scale, zero, float(total.offset.reshape(-1)[0]))
