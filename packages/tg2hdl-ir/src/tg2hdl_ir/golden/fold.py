"""Registers that one op updates in every step: ``reg = op(reg, x)``, computed by numpy over all steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.dependence import Element, element
from tg2hdl_ir.evaluation import wrap
from tg2hdl_ir.nodes import IROp, IRRegLoad, IRRegStore, IRValue
from tg2hdl_ir.rounding import canonicalize_nan

__all__ = ["GoldenFold", "find_fold"]

Array = npt.NDArray[Any]

_INTEGER = {
    "add": np.add,
    "mul": np.multiply,
    "mulacc": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_FLOAT = {"add": np.add, "mul": np.multiply}

_ROW = 256
"""Minimum number of elements for which a loop over rows is faster than `accumulate`."""


@dataclass(frozen=True)
class GoldenFold:
    """``reg = op(... op(op(reg, x0), x1) ...)`` in every step.

    Parameters
    ----------
    chain : tuple of IROp
        The ops, innermost first.
    terms : tuple of tuple of values
        The other operand of each op: one, or the two factors of a ``mulacc``.
    """

    register: Element
    load: IRRegLoad
    op: str
    chain: tuple[IROp, ...]
    terms: tuple[tuple[IRValue, ...], ...]

    def run(
        self, initial: Array, inputs: Mapping[IRValue, Array], shape: tuple[int, ...], *, each: bool
    ) -> tuple[Array | None, Array]:
        """Fold all steps.

        Parameters
        ----------
        initial : ndarray
            Value of the register before the first step.
        inputs : mapping
            The terms, for all steps: the first of their dimensions when they have as many as `shape`.
        each : bool
            Whether the value of the register in each step is wanted.

        Returns
        -------
        loaded : ndarray or None
            Value at the start of each step.
        final : ndarray
            Value after the last step.
        """
        terms = [self.term(t, inputs, shape) for t in self.terms]
        dtype = self.chain[0].dtype
        if dtype.is_float:
            loaded, final = self._floats(initial, terms, each)
            return (
                None if loaded is None else canonicalize_nan(loaded, dtype),
                canonicalize_nan(final, dtype),
            )
        ufunc = _INTEGER[self.op]
        storage = dtype.numpy()
        if each or len(terms) > 1:
            sequence = _sequence(initial, terms, shape)
            running = wrap(ufunc.accumulate(sequence, axis=0, dtype=storage), dtype)
            return running[: -1 : len(terms)] if each else None, running[-1]
        total = ufunc.reduce(terms[0], axis=0, dtype=storage)
        return None, np.asarray(wrap(np.asarray(ufunc(initial, total)), dtype))

    def term(
        self, values: tuple[IRValue, ...], inputs: Mapping[IRValue, Array], shape: tuple[int, ...]
    ) -> Array:
        """A value, or the product of two, for all steps: the first of its dimensions.

        Parameters
        ----------
        values : tuple of IRValue
            One value, or the two factors of a product.
        inputs : mapping of IRValue to ndarray
            Values for all steps (first dimension), or for each of the other dimensions only.
        shape : tuple of int
            Steps, then the other dimensions.
        """
        arrays = [inputs[v] for v in values]
        product = arrays[0] if len(arrays) == 1 else np.multiply(*arrays)
        if product.ndim == len(shape) and product.shape[0] == shape[0]:
            return product
        inner = product.shape[1:] if product.ndim == len(shape) else product.shape
        return np.broadcast_to(product, (shape[0], *(1,) * (len(shape) - 1 - len(inner)), *inner))

    def _floats(self, initial: Array, terms: Sequence[Array], each: bool) -> tuple[Array | None, Array]:
        ufunc = _FLOAT[self.op]
        inner = np.broadcast_shapes(initial.shape, *(t.shape[1:] for t in terms))
        steps = terms[0].shape[0]
        if each or int(np.prod(inner)) < _ROW:
            running = ufunc.accumulate(_sequence(initial, terms, (steps, *inner)), axis=0)
            return running[: -1 : len(terms)] if each else None, running[-1]
        value = np.array(np.broadcast_to(initial, inner))
        for n in range(steps):
            for term in terms:
                ufunc(value, term[n], out=value)
        return None, value


def _sequence(initial: Array, terms: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The initial value and then the terms of each step, along the first dimension."""
    inner = np.broadcast_shapes(initial.shape, *(t.shape[1:] for t in terms))
    steps, count = shape[0], len(terms)
    sequence = np.empty((1 + steps * count, *inner), dtype=initial.dtype)
    sequence[0] = initial
    for n, term in enumerate(terms):
        sequence[1 + n :: count] = term
    return sequence


def find_fold(core: Sequence[IRRegLoad | IRRegStore], tainted: set[IROp]) -> GoldenFold | None:
    """Fold of the accesses of one register, or None.

    Parameters
    ----------
    core : sequence of IRRegLoad or IRRegStore
        All accesses of the register in a step, in program order.
    tainted : set of IROp
        Ops that depend on a loop-carried register.
    """
    if len(core) != 2:
        return None
    load, store = core
    if not isinstance(load, IRRegLoad) or not isinstance(store, IRRegStore) or store.gate is not None:
        return None
    chain: list[IROp] = []
    terms: list[tuple[IRValue, ...]] = []
    value: IRValue = store.value
    while value is not load:
        if not isinstance(value, IROp) or value not in tainted or not _foldable(value, store.value):
            return None
        previous = [s for s in value.srcs if s is load or s in tainted]
        others = tuple(s for s in value.srcs if not (s is load or s in tainted))
        if len(previous) != 1 or (value.op == "mulacc" and value.srcs[2] is not previous[0]):
            return None
        chain.append(value)
        terms.append(others)
        value = previous[0]
    if not chain:
        return None
    return GoldenFold(element(load), load, chain[-1].op, tuple(reversed(chain)), tuple(reversed(terms)))


def _foldable(op: IROp, last: IRValue) -> bool:
    if not isinstance(last, IROp) or op.op != last.op:
        return False
    if op.dtype.is_float:
        return op.op in _FLOAT and op.dtype.bit_width >= 32
    return op.op in _INTEGER
