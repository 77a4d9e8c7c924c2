"""Scales of activations, of the features of inputs, of channels between layers, and of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError, registry
from tg2hdl_ir.tensors import ELEMENTWISE
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.ranges import Observed, registered_method
from tg2hdl_quant.graph.steps import FLOAT, INTERNAL, OPERAND, OUTPUT, TABLE, StoragePlan
from tg2hdl_quant.graph.values import compact, move_array

__all__ = [
    "ChosenScales",
    "RangeOf",
    "activation_scale",
    "has_feature_scales",
    "weight_scales",
]

Array = npt.NDArray[Any]


RangeOf = Callable[[Observed, int], tuple[float, float]]
_TABLE_BITS = (8, 9, 10, 11, 12)
_TABLE_SQNR = 44.0
"""Signal to quantization noise from which the index of a table is fine enough (dB)."""
_BEFORE_WEIGHTS = frozenset({"reshape", "permute", "expand", "pad", "shrink", "flip", "max"})


class ChosenScales:
    """Widths and scales of the stored nodes of a plan, by options and samples.

    Parameters
    ----------
    observed : mapping of int to Observed
        Values of stored nodes and of the operands of tables.
    range_of : callable
        ``(observed, bits) -> (low, high)``: the calibration method.

    Raises
    ------
    InputError
        For an equalization method that nothing registers.
    """

    def __init__(
        self, plan: StoragePlan, observed: Mapping[int, Observed], range_of: RangeOf, options: QuantizeOptions
    ) -> None:
        self._plan, self._observed, self._range_of, self._options = plan, observed, range_of, options
        self._graph = plan.graph
        name = options.equalization
        message = f"no equalization method {name!r}"
        self._equalize = None if name is None else registered_method("equalize", name, message)

    def bits(self, number: int) -> int:
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
        for bits in _TABLE_BITS:
            scale, low, high = self.symmetric(number, bits, bool(values.min() >= 0))
            rounded = np.clip(np.rint(values / scale), low, high) * scale
            if all(_sqnr(f(values), f(rounded)) >= _TABLE_SQNR for f in functions):
                return bits
        return _TABLE_BITS[-1]

    def symmetric(
        self, number: int, bits: int, unsigned: bool, at_least: float = 0.0
    ) -> tuple[float, int, int]:
        """Scale of a node and the bounds of its integers.

        Parameters
        ----------
        number : int
            Of the node.
        bits : int
            Of the codes.
        unsigned : bool
            Whether there are no negative values.
        at_least : float, default 0.0
            Smallest bound of the range.
        """
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

    def is_affine(self, number: int) -> bool:
        """Whether a stored tensor has a zero point."""
        chosen = self._options.activations == "affine" and self._options.bits <= 8
        return chosen and self._feeds_only_weights(number)

    def _feeds_only_weights(self, number: int) -> bool:
        return self._plan.roles.get(number) == {OPERAND} and feeds_only_weights(
            self._plan, number, _BEFORE_WEIGHTS
        )

    def factors(self, number: int) -> Array:
        """Divisors of the channels of a tensor by the equalization method; a single 1 without one."""
        channels = self._observed[number].channels
        if self._equalize is None or channels is None or channels.size == 1:
            return np.ones(())
        if self._graph.nodes[number].shape[0] != 1 or not self._feeds_only_weights(number):
            return np.ones(())
        return channel_factors(self._plan, number, channels, self._equalized, self._options.is_shift)

    def _equalized(self, activations: Array, weights: Array) -> Array:
        return np.asarray(registry().call(self._equalize, "equalize", activations, weights))

    def affine(self, number: int, bits: int) -> tuple[Array, Array, int]:
        """Scale, value of code 0, and the largest code: the codes span the range of the samples, and zero has one.

        Parameters
        ----------
        number : int
            Of the node.
        bits : int
            Of the codes.
        """
        observed = self._observed[number]
        smallest, largest = self._range_of(observed, bits)
        smallest, largest = min(smallest, 0.0), max(largest, 0.0)
        high = (1 << bits) - 1
        scale = activation_scale(
            observed.values - smallest, largest - smallest, high, 0, self._options.is_shift
        )
        zero = np.clip(np.rint(-smallest / scale), 0, high)
        return np.asarray(scale), np.asarray(-zero * scale), high


def activation_scale(values: Array, bound: float, limit: int, low: int, power_of_two: bool) -> float:
    """Value of a step so that `limit` steps reach `bound`; of two powers of two the one that errs less.

    Parameters
    ----------
    values : ndarray
        Values on samples.
    bound : float
        Magnitude that `limit` steps reach.
    limit : int
        Largest code.
    low : int
        Least code.
    power_of_two : bool
        Whether the scale is a power of two.
    """
    if not bound > 0:
        return 1.0
    # Scales are float32, so that a file with them says the same.
    scale = float(np.float32(max(bound / limit, 2.0**-60)))
    if not power_of_two:
        return scale
    exponent = int(np.ceil(np.log2(scale) - 1e-9))
    return min(
        (2.0**exponent, 2.0 ** (exponent - 1)),
        key=lambda s: float(np.square(np.clip(np.rint(values / s), low, limit) * s - values).mean()),
    )


def weight_scales(
    weights: Array, axes: tuple[int, ...], limit: int, power_of_two: bool, search: bool
) -> Array:
    """Scale of each channel: axes are those over which a channel extends.

    Parameters
    ----------
    weights : ndarray
    axes : tuple of int
        Axes over which a channel extends.
    limit : int
        Largest code.
    power_of_two : bool
        Whether scales are powers of two.
    search : bool
        Clip the largest weights where that makes the squared error smaller.
    """
    largest = np.abs(weights).max(axes, keepdims=True).astype(np.float64)
    base = np.where(largest > 0, largest / limit, 1.0)
    if power_of_two:
        exponent = np.ceil(np.log2(base) - 1e-9)
        candidates = [np.exp2(exponent - k) for k in range(3 if search else 2)]
    else:
        factors = np.linspace(1.0, 0.4, 25) if search else (1.0,)
        candidates = [(base * f).astype(np.float32).astype(np.float64) for f in factors]
    return _best(weights, candidates, axes, limit)


def _best(weights: Array, candidates: list[Array], axes: tuple[int, ...], limit: int) -> Array:
    error: Callable[[Array], Array] = lambda s: np.square(  # noqa: E731
        np.clip(np.rint(weights / s), -limit, limit) * s - weights
    ).sum(axes, keepdims=True)
    best, least = candidates[0], error(candidates[0])
    for scale in candidates[1:]:
        errs = error(scale)
        best, least = np.where(errs < least, scale, best), np.minimum(errs, least)
    return best


_APART = 8
"""How many times the median range the largest one is."""


def has_feature_scales(plan: StoragePlan, observed: Observed, number: int) -> bool:
    """Whether the features of an input get scales of their own, which the weights that read them take up.

    Parameters
    ----------
    plan : StoragePlan
    observed : Observed
    number : int
        Of the input's node.
    """
    shape = plan.graph.nodes[number].shape
    if len(shape) != 2 or shape[0] != 1 or observed.lows is None:
        return False
    assert observed.highs is not None
    spread = np.maximum(np.abs(observed.lows), np.abs(observed.highs))
    spread = spread[observed.highs > observed.lows]
    if not spread.size or spread.max() < _APART * np.median(spread):
        return False
    return feeds_only_weights(plan, number)


def feeds_only_weights(
    plan: StoragePlan,
    number: int,
    between: frozenset[str] = frozenset({"reshape", "permute", "expand", "ADD", "MUL"}),
) -> bool:
    """Whether only layers with weights read a node, after operations of `between` with constants."""
    readers = plan.graph.consumers()
    stack = [number]
    while stack:
        for reader in readers[stack.pop()]:
            node = plan.graph.nodes[reader]
            constant = any(plan.graph.nodes[s].op == "const" for s in node.sources)
            weighted = [plan.contraction(r) is not None for r in readers[reader]]
            if node.op == "MUL" and constant and weighted and all(weighted):
                continue
            with_constant = node.op not in ELEMENTWISE or constant
            if reader in plan.functions or node.op not in between or not with_constant:
                return False
            stack.append(reader)
    return number not in plan.graph.outputs


Equalize = Callable[[Array, Array], Array]


def channel_factors(
    plan: StoragePlan, number: int, largest: Array, method: Equalize, power_of_two: bool
) -> Array:
    """Divisors of the channels (axis 1) of a node that only weights read; they broadcast against it.

    Raises
    ------
    InputError
        For factors that are not positive, or of another shape.
    """
    shape = plan.graph.nodes[number].shape
    factors = np.asarray(method(largest, _weights_of_channels(plan, number)), np.float64)
    if factors.shape != largest.shape or not np.all(np.isfinite(factors)) or factors.min() <= 0:
        raise InputError(
            f"an equalization method gave no {len(largest)} positive factors",
            hint="correct the method: tg2hdl_quant.testing.check_quantizer tests it",
        )
    if power_of_two:
        factors = np.exp2(np.rint(np.log2(factors)))
    return factors.reshape(1, -1, *(1,) * (len(shape) - 2))


def _weights_of_channels(plan: StoragePlan, number: int) -> Array:
    """Largest magnitude of the weights that each channel is multiplied with."""
    graph = plan.graph
    readers = graph.consumers()
    shape = graph.nodes[number].shape
    found = np.zeros(shape[1])
    channels = np.arange(shape[1]).reshape(1, -1, *(1,) * (len(shape) - 2))
    stack = [(number, channels)]
    while stack:
        current, places = stack.pop()
        for reader in readers[current]:
            node = graph.nodes[reader]
            if node.op == "MUL":
                weights = next(graph.nodes[s].arg for s in node.sources if graph.nodes[s].op == "const")
                at, magnitudes = np.broadcast_arrays(places, np.abs(weights))
                np.maximum.at(found, at.reshape(-1), magnitudes.reshape(-1))
                continue
            source = graph.nodes[current].shape
            if node.op == "max":
                moved = np.broadcast_to(places, source).max(node.arg)
            else:
                moved = move_array(node, places, source, fill=None)
            stack.append((reader, compact(moved)))
    return found


def _sqnr(reference: Array, value: Array) -> float:
    finite = np.isfinite(reference)
    noise = np.square(np.nan_to_num(value[finite], posinf=3e38) - reference[finite]).sum()
    signal = np.square(reference[finite]).sum()
    return float(10 * np.log10(signal / noise)) if noise > 0 and signal > 0 else np.inf
