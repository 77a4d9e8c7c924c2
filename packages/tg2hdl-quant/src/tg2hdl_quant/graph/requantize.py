"""Sums of scaled integers to narrow integers, in integer operations only, by the integer form of a `RoundingDef`.

``round(sum(q_i * s_i) / s)`` becomes ``(sum(q_i * M_i) + D + half) >> n``.  Where every ``s_i / s`` is a power of two
and there is one term, it is a shift: ``(q + d + half) >> n``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, RoundingDef, UnsupportedError, registry
from tg2hdl_ir.tensors.roundings import half_away_shift, high_product, multipliers
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.products import by_float32_product, fit_products, follows_float32, rounded_product
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, code_type, compact

__all__ = ["codes_of_sums", "doubling_codes", "doubling_product", "float32_product", "requantize"]

Array = npt.NDArray[Any]


def requantize(
    builder: IntegerBuilder,
    total: IntegerSum,
    scale: float,
    low: int,
    high: int,
    options: QuantizeOptions,
    where: str,
    *,
    as_float32: bool = False,
) -> int:
    """Node with ``round(total / scale)``, clipped to [low, high], in the narrowest type.

    Parameters
    ----------
    as_float32 : bool
        Whether multipliers have all their bits, as the float32 of another system has; else sums may err by 1/16 code.

    Raises
    ------
    UnsupportedError
        For a sum that needs more than 64 bits, or a rounding without an integer form for it.
    """
    if not total.terms:
        values = np.clip(np.rint(np.broadcast_to(total.offset, total.shape) / scale), low, high)
        return builder.const(values, code_type(low, high))
    rounding = registry().rounding(options.rounding)
    made = _by_product(builder, total, scale, low, high, rounding, where) if follows_float32(total) else None
    if rounding.bias is None:
        rounding = registry().rounding("half_even")
    if made is None and (shifts := _shift_amounts(total, scale)) is not None:
        made = _by_shift(builder, total, shifts, scale, rounding, where)
    if made is None:
        limit = max(high, -low)
        bits = options.multiplier_bits
        made = _by_multiplier(builder, total, scale, limit, bits, rounding, where, as_float32)
    return builder.finished(builder.clipped(made[0], low, high, made[1]), total.shape, low, high)


def _shift_amounts(total: IntegerSum, scale: float) -> Array | None:
    """Right shift of each element of a single term whose scale is a power of two of `scale`."""
    if len(total.terms) != 1:
        return None
    ratio = total.terms[0].scale / scale
    if not np.all(ratio > 0):
        return None
    exponents = np.rint(np.log2(ratio))
    if not np.array_equal(np.exp2(exponents), ratio) or exponents.max() > 0 or exponents.min() < -30:
        return None
    return (-exponents).astype(np.int64)


def _by_product(
    builder: IntegerBuilder,
    total: IntegerSum,
    scale: float,
    low: int,
    high: int,
    rounding: RoundingDef,
    where: str,
) -> tuple[int, int] | None:
    """One term by the rounding's own product, or by a proven multiplier where it has no shift; None for the shift."""
    if rounding.product is not None:
        made: tuple[int, int] | None = registry().call(
            rounding, "product", builder, total, scale, low, high, where
        )
        return made
    if rounding.bias is not None:
        return None
    made = _by_staircase(builder, total, scale, low, high, codes_of_sums(rounding), where)
    if made is None:
        raise UnsupportedError(
            f"no multiplier and shift gives the codes of rounding {rounding.name!r} for every sum",
            where=where,
            hint="choose another rounding, or give its RoundingDef `bias` or `product`",
        )
    return made


def codes_of_sums(rounding: RoundingDef) -> Callable[[Array, Any], Array]:
    """Codes of sums and a multiplier in numpy: `RoundingDef.sums`, or `numbers` of the products."""
    if rounding.sums is not None:
        return registry().factory(rounding, "sums")
    numbers = registry().factory(rounding, "numbers")
    return lambda sums, multiplier: np.asarray(numbers(sums.astype(np.float64) * np.float64(multiplier)))


def float32_product(
    builder: IntegerBuilder, total: IntegerSum, scale: float, low: int, high: int, where: str
) -> tuple[int, int] | None:
    """ONNX Runtime's product in float32; where a shift gives the same, None.

    Parameters
    ----------
    builder : IntegerBuilder
    total : IntegerSum
        With one term.
    scale : float
        Of the codes.
    low, high : int
        Smallest and largest code, less the zero point.
    where : str
        Layer, for the error.
    """
    if _shift_amounts(total, scale) is not None:
        return None
    fitted = _by_staircase(builder, total, scale, low, high, rounded_product, where)
    return fitted or by_float32_product(builder, total, scale, max(high, -low), where)


def _by_staircase(
    builder: IntegerBuilder,
    total: IntegerSum,
    scale: float,
    low: int,
    high: int,
    codes: Callable[[Array, Any], Array],
    where: str,
) -> tuple[int, int] | None:
    """The product by the narrowest multiplier that gives known codes for every sum; None without one."""
    term = total.terms[0]
    added = compact(np.rint(total.offset / term.scale).astype(np.int64))
    least, most = term.low + int(added.min()), term.high + int(added.max())
    multiplier = compact(term.scale.astype(np.float32) / np.float32(scale))
    found = fit_products(multiplier, least, most, low, high, rounded=codes)
    if found is None:
        return None
    # The bias is multiplied here, not at run time.
    return builder.stepped(term, found, added * found.factor + found.above, where)


def _by_shift(
    builder: IntegerBuilder, total: IntegerSum, shifts: Array, scale: float, rounding: RoundingDef, where: str
) -> tuple[int, int]:
    term = total.terms[0]
    shifts = compact(shifts)
    added = np.rint(total.offset / term.scale).astype(np.int64)
    reach = term.reach + int(np.abs(added + registry().call(rounding, "bias", shifts)).max()) + 1
    dtype = builder.fitting(-reach, reach, where, 32)
    number = _shifted(builder, builder.cast(term.node, dtype), added, shifts, rounding, dtype)
    return number, (reach >> int(shifts.min())) + 1


def _shifted(
    builder: IntegerBuilder, number: int, added: Array, shift: Array, rounding: RoundingDef, dtype: DType
) -> int:
    """``(number + added) / 2**shift``, rounded."""
    if rounding.correction is not None and shift.any():
        number = builder.added(number, added, dtype)
        correction = registry().call(rounding, "correction", builder, number, shift, dtype)
        number, added = builder.elementwise("ADD", number, correction, dtype=dtype), np.zeros((), np.int64)
    number = builder.added(number, added + registry().call(rounding, "bias", shift), dtype)
    return builder.shifted(number, shift)


def doubling_product(
    builder: IntegerBuilder, total: IntegerSum, scale: float, low: int, high: int, where: str
) -> tuple[int, int]:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier: a 31-bit multiplier, and two roundings.

    The doubling high product rounds halves up, the shift after it rounds them away from zero.

    Parameters
    ----------
    builder : IntegerBuilder
    total : IntegerSum
        With one term.
    scale : float
        Of the codes.
    low, high : int
        Smallest and largest code, less the zero point.
    where : str
        Layer, for the error.
    """
    term = total.terms[0]
    factor, right = _doubling_multipliers(term.scale / scale)
    added = np.rint(total.offset / term.scale).astype(np.int64)
    reach = term.reach + int(np.abs(added).max())
    builder.fitting(0, 2 * reach * int(factor.max()), where)
    wide = DType.INT64
    number = builder.added(builder.cast(term.node, wide), added, wide)
    number = builder.shifted(builder.combined([(number, factor)], np.asarray(1 << 30), wide), 31)
    if right.any():
        negative = builder.elementwise("CMPLT", number, builder.const(0, wide), dtype=DType.BOOL)
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        below = builder.const(compact(half - (right > 0)), wide)
        half_away = builder.elementwise(
            "WHERE", negative, below, builder.const(compact(half), wide), dtype=wide
        )
        number = builder.elementwise("ADD", number, half_away, dtype=wide)
        number = builder.shifted(number, compact(right))
    return number, int(reach * float((term.scale / scale).max())) + 2


def _doubling_multipliers(ratio: Array) -> tuple[Array, Array]:
    """Multipliers in units of 2**-31, and the shifts to the right after the products."""
    factor, shift = multipliers(ratio)
    return factor << np.maximum(shift, 0), np.maximum(-shift, 0)


def doubling_codes(sums: Array, multiplier: Array) -> Array:
    """`doubling_product` in numpy.

    Parameters
    ----------
    sums : ndarray
        Integers.
    multiplier : ndarray
        Scale of the sums by that of the codes.
    """
    factor, right = _doubling_multipliers(multiplier)
    return half_away_shift(high_product(sums, factor), right)


def _by_multiplier(
    builder: IntegerBuilder,
    total: IntegerSum,
    scale: float,
    limit: int,
    bits: int,
    rounding: RoundingDef,
    where: str,
    as_float32: bool,
) -> tuple[int, int]:
    terms = [t for t in total.terms if t.reach and np.any(t.scale)] or list(total.terms[:1])
    ratios = [t.scale / scale for t in terms]
    shift = max(_precision(t.reach, r, bits, as_float32) for t, r in zip(terms, ratios, strict=True))
    dropped = 0
    if bits < 24:
        shift, dropped = _narrow_sums(terms, ratios, total.offset / scale, limit, shift)
    factors = [compact(np.rint(r * 2.0 ** (shift + dropped)).astype(np.int64)) for r in ratios]
    # The bits that are dropped are half of their largest value on average.
    added = np.rint(total.offset / scale * 2.0**shift + sum(f * (1 - 2.0**-dropped) / 2 for f in factors))
    builder.fitting(0, 2 * int(np.abs(added).max()), where)
    constant, amount = compact(added.astype(np.int64)), np.asarray(shift, np.int64)
    reach = int(np.abs(constant).max()) + int(registry().call(rounding, "bias", amount)) + 1
    reach += rounding.correction is not None and shift > 0
    reach += sum(
        ((t.reach >> dropped) + 1) * int(np.abs(f).max()) for t, f in zip(terms, factors, strict=True)
    )
    dtype = builder.fitting(-reach, reach, where, 32)
    parts = []
    for term, factor in zip(terms, factors, strict=True):
        node = term.node
        if dropped:
            # The sum may be wider than its shifted result.
            whole = builder.fitting(-term.reach, term.reach, where, dtype.bit_width)
            node = builder.cast(builder.shifted(builder.cast(node, whole), dropped), dtype)
            if term.reach >> dropped < 1 << 15:
                node = builder.cast(node, DType.INT16)
        parts.append((node, factor))
    number = builder.combined(parts, constant, dtype)
    number = _shifted(builder, number, np.zeros((), np.int64), amount, rounding, dtype)
    return number, (reach >> shift) + 1


def _precision(reach: int, ratio: Array, bits: int, has_all: bool) -> int:
    """Right shift for which a multiplier has `bits`, or is so exact that a sum errs by less than 1/16."""
    largest = float(np.abs(ratio).max())
    if largest == 0:
        return 0
    full = bits - 1 - int(np.floor(np.log2(largest)))
    return max(full if has_all else min(full, reach.bit_length() + 3), 0)


def _narrow_sums(
    terms: list[IntegerValue], ratios: list[Array], added: Array, limit: int, shift: int
) -> tuple[int, int]:
    """Right shift, and low bits to drop before the product, with which sums have 32 bits.

    Results may err by 1/8 (or limit / 2048), or 1/4 where that is not enough; beyond it the shift is the given one.
    """
    largest = [float(np.abs(r).max()) for r in ratios]
    reach = float(np.abs(added).max()) + 1.0 + sum(t.reach * m for t, m in zip(terms, largest, strict=True))
    if len(terms) == 1:
        # A sum beyond the limit saturates, however far.
        ratio = np.maximum(np.abs(ratios[0]), 2.0**-60)
        wrong = float(np.minimum(terms[0].reach, (limit + float(np.abs(added).max()) + 1) / ratio).max()) / 2
    else:
        wrong = sum(t.reach for t in terms) / 2
    lost = [
        sum(largest) * (2.0**bits - 1) / 2 for bits in range(max(1, *(t.reach.bit_length() for t in terms)))
    ]
    narrow = [int(np.floor(31 - np.log2(reach + 2 * error))) for error in lost]
    errors = [
        error + wrong * 2.0 ** -(n + bits) for bits, (n, error) in enumerate(zip(narrow, lost, strict=True))
    ]
    dropped = max(0, terms[0].reach.bit_length() - 15) if len(terms) == 1 else 0
    if (
        0 < dropped <= shift
        and lost[dropped] <= max(limit / 2048, 1 / 8)
        and shift - dropped <= narrow[dropped]
    ):
        # 16 bits of the sum and a multiplier of 15: one hardware multiplier has both.
        return shift - dropped, dropped
    dropped = 0
    if narrow[0] < shift:
        for tolerance in (1 / 8, 1 / 4):
            fitting = [
                k for k, e in enumerate(errors) if e <= max(limit / 2048, tolerance) and narrow[k] >= 0
            ]
            if fitting:
                dropped = fitting[0]
                shift = narrow[dropped]
                break
    spare = 0 if dropped else min(_trailing_zeros(r, shift) for r in ratios)
    return shift - min(spare, shift), dropped


def _trailing_zeros(ratio: Array, shift: int) -> int:
    """Bits by which every multiplier can be shorter without changing."""
    whole = np.rint(ratio * 2.0**shift).astype(np.int64)
    if not np.array_equal(whole, ratio * 2.0**shift):
        return 0
    lowest = np.abs(whole[whole != 0]) if np.any(whole) else np.ones(1, np.int64)
    return int(np.log2(lowest & -lowest).min())
