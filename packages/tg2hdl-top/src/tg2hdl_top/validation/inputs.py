"""Inputs on which wrong rewrites show: distinct values, negative ones, the ends of the types, special values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import (
    DType,
    IRBufLoad,
    IRBufStore,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    ProgramBuffer,
    ProgramIR,
    operands,
)

__all__ = [
    "KINDS",
    "index_buffers",
    "telling_array",
    "telling_inputs",
    "variable_values",
    "whole_numbers",
    "with_special_values",
]

KINDS = ("distinct", "negative", "corners", "specials")
"""Kinds of inputs, in the order in which they are used."""

SPECIAL = 16
"""One element in so many is special: NaN in every element would hide everything behind it."""

LEAST_INDICES = 4
"""Indices are below this number, or every gate would be closed."""

Array = npt.NDArray[Any]


def telling_inputs(program: ProgramIR, kind: str) -> dict[str, Array]:
    """Contents of all inputs, by name.

    Parameters
    ----------
    program : ProgramIR
    kind : str
        ``"distinct"``, ``"negative"``, ``"corners"`` or ``"specials"``.
    """
    indices = index_buffers(program)
    return {
        buffer.name: telling_array(buffer, kind, n in indices, seed=n)
        for n, buffer in enumerate(program.buffers)
        if buffer.role == "input" and buffer.initial is None
    }


def telling_array(buffer: ProgramBuffer, kind: str, is_index: bool, seed: int) -> Array:
    """Flat contents of a buffer.

    Parameters
    ----------
    buffer : ProgramBuffer
    kind : str
        As of `telling_inputs`.
    is_index : bool
        Whether elements are used as addresses; they are small then.
    seed : int
        Equal seeds give equal contents.
    """
    rng, dtype, size = np.random.default_rng(seed), buffer.dtype, buffer.depth
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(np.bool_)
    if is_index:
        return rng.integers(0, LEAST_INDICES, size).astype(dtype.numpy())
    if kind == "corners":
        return rng.choice(_corners(dtype), size)
    order = rng.permutation(size)
    if not dtype.is_float:
        return _integers(order, dtype, kind).astype(dtype.numpy())
    values = (order + 1) * (4 / size)
    values = -values if kind == "negative" else np.where(order % 2, values, -values)
    found = values.astype(dtype.numpy())
    places = rng.permutation(size)[: -(-size // SPECIAL)]
    if kind == "specials":
        found[places] = np.resize(_specials(dtype), len(places))
    elif kind == "negative":
        # Planned kernels get two kinds of inputs only: one of them shows a lost sign of zero.
        found[places] = -0.0
    return found


def whole_numbers(array: Array, seed: int) -> Array:
    """Integers from -3 to 3 of the type and shape of an array of floats: every order of their sums is exact.

    Parameters
    ----------
    array : ndarray
    seed : int
        Equal seeds give equal contents.
    """
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, array.shape).astype(array.dtype)


def with_special_values(array: Array, dtype: DType, share: int, seed: int) -> Array:
    """A copy with the ends of the type, and of floats with NaN, infinities and subnormals, in some elements.

    Parameters
    ----------
    array : ndarray
        Flat contents.
    dtype : DType
        Integer or float.
    share : int
        One element in so many is replaced, but at least one.
    seed : int
        Equal seeds give equal contents.
    """
    rng, found = np.random.default_rng(seed), array.copy()
    places = rng.permutation(array.size)[: max(1, array.size // share)]
    values = np.concatenate([_specials(dtype), _corners(dtype)]) if dtype.is_float else _corners(dtype)
    # Of few elements the first one is NaN, or the smallest number.
    found[places] = np.resize(values, len(places))
    return found


def variable_values(program: ProgramIR) -> list[dict[str, int]]:
    """Values of the run-time variables: all at their largest, smallest and middle values."""
    found = {v.name: v for call in program.calls for v in call.host_variables}
    points = [
        {name: v.high for name, v in found.items()},
        {name: v.low for name, v in found.items()},
        {name: (v.low + v.high) // 2 for name, v in found.items()},
    ]
    return points if found else points[:1]


def _integers(order: npt.NDArray[np.int64], dtype: DType, kind: str) -> Array:
    """Different integers around zero, or below it; large ones where no number is negative."""
    count = 1 << (dtype.bit_width - (kind == "negative" and dtype.is_signed))
    values = order % count if count < 1 << 63 else order
    if kind == "negative":
        return -1 - values if dtype.is_signed else np.uint64(dtype.max_value) - values.astype(np.uint64)
    return values - (min(count, len(order)) // 2 if dtype.is_signed else 0)


def _corners(dtype: DType) -> Array:
    if not dtype.is_float:
        low, high = dtype.min_value, dtype.max_value
        ends = [low, high, 0, 1, low + 1, high - 1, -1 if dtype.is_signed else 2]
        return np.array(ends, dtype.numpy())
    # The exponent of all ones is that of infinities.
    exponent = (1 << dtype.exponent_bits) - 2
    large = dtype.bits_to_array(np.array([exponent, 1], np.uint64) << np.uint64(dtype.fraction_bits))
    small = np.array([0.0, -0.0, 1.0, -1.0, 0.5], np.float64).astype(dtype.numpy())
    return np.concatenate([large, -large, small])


def _specials(dtype: DType) -> Array:
    values = np.array([np.nan, np.inf, -np.inf, -0.0], np.float64).astype(dtype.numpy())
    return np.concatenate([values, dtype.bits_to_array(np.array([1, 3], np.uint64))])


def index_buffers(program: ProgramIR) -> set[int]:
    """Buffers whose values become addresses, also by way of other buffers."""
    found: set[int] = set()
    for call in reversed(program.calls):
        slots = call.slots
        wanted = {slot for slot, number in slots.items() if number in found}
        found |= {slots[slot] for slot in _index_slots(call.kernel, wanted)}
    return found


def _index_slots(kernel: KernelIR, wanted: set[int]) -> set[int]:
    """Slots whose values become addresses, or values of the slots that are wanted."""
    statements = list(kernel.loop_tree.statements())
    roots: list[IRValue] = [s.addr for s in statements if isinstance(s, IRBufLoad | IRBufStore)]
    roots += [s.index for s in statements if isinstance(s, IRRegLoad | IRRegStore) and s.index is not None]
    roots += [s.value for s in statements if isinstance(s, IRBufStore) and s.buf_idx in wanted]
    stores: dict[int, list[IRValue]] = {}
    for statement in statements:
        if isinstance(statement, IRRegStore):
            stores.setdefault(statement.reg, []).append(statement.value)
    slots, seen = set(), set(roots)
    while roots:
        value = roots.pop()
        if isinstance(value, IRBufLoad):
            slots.add(value.buf_idx)
        below = stores.get(value.reg, []) if isinstance(value, IRRegLoad) else _operands(value)
        fresh = [v for v in below if v not in seen]
        seen.update(fresh)
        roots += fresh
    return slots


def _operands(value: IRValue) -> Iterator[IRValue]:
    """Operands that a value is made of: conditions only choose between others."""
    if isinstance(value, IROp | IRBufLoad):
        yield from (v for v in operands(value) if not v.dtype.is_bool)
