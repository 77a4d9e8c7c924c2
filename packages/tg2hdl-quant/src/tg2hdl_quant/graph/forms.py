"""Integer forms of codes: a table, a multiplier and a shift, or the product of a rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import RoundingDef, registry
from tg2hdl_ir.tensors import Quantizer
from tg2hdl_ir.tensors.narrow_multipliers import Staircase
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.products import fit_codes, fit_products
from tg2hdl_quant.graph.report import Requantization
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue, compact

__all__ = ["NARROW", "by_codes", "by_staircase", "by_steps", "by_table", "with_zero"]

Array = npt.NDArray[Any]
NARROW = 1 << 10
"""Values of a term that are all computed."""
_MOST_ROWS = 1 << 12
"""Most different functions of the elements of a tensor, such as one for each channel."""


def by_table(
    builder: IntegerBuilder, index: IntegerValue, codes: Array, low: int, high: int, name: str
) -> tuple[int, Requantization]:
    """Codes looked up by integers; `codes` begins with that of the smallest integer.

    Parameters
    ----------
    builder : IntegerBuilder
    index : IntegerValue
    codes : ndarray
    low, high : int
        Smallest and largest code.
    name : str
        Layer.
    """
    made = builder.looked_up(index, codes, (low, high), name, name)
    return made, Requantization(name, "table", (index.high - index.low).bit_length(), 0.0)


def by_steps(
    builder: IntegerBuilder, total: IntegerSum, quantizer: Quantizer, low: int, high: int, name: str
) -> tuple[int, Requantization] | None:
    """Codes of a sum that are not rounded half to even, proven for every sum; None where such a form does not exist.

    Parameters
    ----------
    quantizer : Quantizer
        With one scale and zero point.
    """
    if len(total.terms) != 1 or not np.all(total.terms[0].scale > 0):
        return None
    added = total.whole_steps()
    if added is None:
        return None
    node = builder.plus(total.terms[0].node, added, f"layer {name}", narrowest=32)
    term = builder.value(node, compact(total.terms[0].scale))

    rounding = registry().rounding(quantizer.rounding)
    if rounding.product is not None and not quantizer.zero_first and not quantizer.is_plain:
        made = _by_product(builder, term, quantizer, rounding, low, high, name)
        if made is not None:
            return made

    def codes(sums: Array, scale: Array) -> Array:
        return quantizer.codes(sums.astype(np.float32) * np.asarray(scale, np.float32))

    is_narrow = term.high - term.low < NARROW and term.scale.size == 1

    def looked_up() -> tuple[int, Requantization]:
        entries = np.clip(codes(np.arange(term.low, term.high + 1), term.scale), low, high)
        return by_table(builder, term, entries.astype(np.int64), low, high, name)

    if is_narrow and not quantizer.is_plain:
        return looked_up()
    slope = 1 / float(quantizer.scale.reshape(()))
    scales = term.scale.astype(np.float32)
    found = fit_products(scales, term.low, term.high, low, high, rounded=codes, slope=slope)
    if found is None:
        return looked_up() if is_narrow else None
    number, bits = by_staircase(builder, term, found, 0, low, high)
    return builder.finished(number, total.shape, low, high), Requantization(name, "multiplier", bits)


def _by_product(
    builder: IntegerBuilder,
    term: IntegerValue,
    quantizer: Quantizer,
    rounding: RoundingDef,
    low: int,
    high: int,
    name: str,
) -> tuple[int, Requantization] | None:
    """Codes by the product of a rounding; None where it leaves them to a shift."""
    scale, zero, where = float(quantizer.scale.reshape(())), int(quantizer.zero.reshape(())), f"layer {name}"
    total = IntegerSum((term,), np.zeros(()), builder.nodes[term.node].shape)
    made = registry().call(rounding, "product", builder, total, scale, low - zero, high - zero, where)
    if made is None:
        return None
    number = with_zero(builder, made, low, high, zero, where)
    how = Requantization(name, "multiplier" if rounding.is_proven else "approximate", 31)
    return builder.finished(number, total.shape, low, high), how


def with_zero(
    builder: IntegerBuilder, made: tuple[int, int], low: int, high: int, zero: int, where: str
) -> int:
    """Rounded steps and their reach, saturated, plus the zero point: codes from low to high.

    Parameters
    ----------
    builder : IntegerBuilder
    made : (int, int)
        Node of the steps, and their largest magnitude.
    low, high : int
        Smallest and largest code.
    zero : int
        Zero point.
    where : str
        Layer, for the error.
    """
    number = builder.clipped(made[0], low - zero, high - zero, made[1])
    return builder.plus(builder.set_bounds(number, low - zero, high - zero), np.array(zero), where)


def by_codes(
    builder: IntegerBuilder, term: IntegerValue, codes: Array, slope: Array, low: int, high: int, name: str
) -> tuple[int, Requantization] | None:
    """Codes that are known for every value of a term, element by element; None where no form gives them.

    Parameters
    ----------
    codes : ndarray of int64
        First axis: the values of the term from its smallest one on; then the shape of the result.
    slope : ndarray of float64
        Codes for each step of the term; broadcasts against the result.
    """
    shape = codes.shape[1:]
    rows = np.ascontiguousarray(codes.reshape(len(codes), -1).T)
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    slopes = np.broadcast_to(slope, shape).reshape(-1)[first]
    found = None
    if len(first) <= _MOST_ROWS and np.all(slopes):
        found = fit_codes(slopes, rows[first], term.low, low, high)
    if found is not None:
        place = place.reshape(shape)
        number, bits = by_staircase(builder, term, found.at(place), 0, low, high)
        how = Requantization(name, "multiplier", bits)
    elif len(first) == 1:
        number, how = by_table(builder, term, rows[0], low, high, name)
    else:
        return None
    return builder.finished(number, shape, low, high), how


def by_staircase(
    builder: IntegerBuilder, term: IntegerValue, found: Staircase, zero: int, low: int, high: int
) -> tuple[int, int]:
    """``clip((term * factor + added) >> shift + zero)``, and the bits of the factor.

    Parameters
    ----------
    builder : IntegerBuilder
    term : IntegerValue
        Integers.
    found : Staircase
    zero : int
        Zero point.
    low, high : int
        Smallest and largest code.
    """
    number, reach = builder.stepped(term, found, found.above + (zero << found.shift), "a layer")
    return builder.clipped(number, low, high, reach), int(np.abs(found.factor).max()).bit_length()
