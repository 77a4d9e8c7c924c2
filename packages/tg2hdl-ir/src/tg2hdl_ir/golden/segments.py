"""Integer sums that start again in some steps: ``reg = start if last else reg + x``, computed over all steps at once.

A flattened reduction inside another one is of this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.evaluation import wrap
from tg2hdl_ir.golden.fold import GoldenFold, find_fold
from tg2hdl_ir.golden.plan import ops_first
from tg2hdl_ir.nodes import IROp, IRRegLoad, IRRegStore, IRStatement, IRValue, values_below

__all__ = ["Segments", "find_segments"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Segments:
    """A register that becomes ``start`` where ``restarts``, and its sum with terms elsewhere.

    Parameters
    ----------
    fold : GoldenFold
        The sum.
    is_restart : bool
        The value of `condition` in a step after which the register starts again.
    """

    fold: GoldenFold
    store: IRRegStore
    condition: IRValue
    start: IRValue
    is_restart: bool

    @property
    def inputs(self) -> tuple[IRValue, ...]:
        """Values that are needed for all steps."""
        return (self.condition, self.start, *(value for term in self.fold.terms for value in term))

    def run(
        self, initial: Array, inputs: Mapping[IRValue, Array], shape: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Value of the register before each step, and after the last one; parameters as of `GoldenFold.run`.

        Parameters
        ----------
        initial : ndarray
            Value of the register before the first step.
        inputs : mapping of IRValue to ndarray
            Terms, condition and start for all steps.
        shape : tuple of int
            Steps, then the other dimensions.
        """
        dtype, steps = self.fold.load.dtype, shape[0]
        terms = [self.fold.term(values, inputs, shape) for values in self.fold.terms]
        condition, start = (self.fold.term((v,), inputs, shape) for v in (self.condition, self.start))
        inner = np.broadcast_shapes(initial.shape, *(a.shape[1:] for a in (*terms, condition, start)))
        sums = np.zeros((steps + 1, *inner), dtype.numpy())
        for term in terms:
            sums[1:] += term
        sums = np.cumsum(sums, axis=0, dtype=sums.dtype)
        starts = np.empty_like(sums)
        starts[0], starts[1:] = initial, start
        # The number of steps before the last restart before each step.
        restarts = np.zeros((steps + 1, *condition.shape[1:]), np.intp)
        numbers = np.arange(1, steps + 1).reshape(-1, *(1,) * (condition.ndim - 1))
        restarts[1:] = np.where(condition == self.is_restart, numbers, 0)
        np.maximum.accumulate(restarts, axis=0, out=restarts)
        places = np.broadcast_to(restarts, sums.shape)
        found = sums + np.take_along_axis(starts - sums, places, axis=0)
        found = wrap(found, dtype)
        return found[:-1], np.asarray(found[-1])


def find_segments(accesses: Sequence[IRStatement], carried: set[IRValue]) -> Segments | None:
    """Segments of the accesses of one register, or None.

    Parameters
    ----------
    carried : set of values
        Loads of all registers that are carried from step to step.
    """
    if len(accesses) != 2:
        return None
    load, store = accesses
    if not isinstance(load, IRRegLoad) or not isinstance(store, IRRegStore) or store.gate is not None:
        return None
    choice = store.value
    if not isinstance(choice, IROp) or choice.op != "where" or not load.dtype.is_int:
        return None
    condition, *others = choice.srcs
    for is_restart, (start, total) in ((True, others), (False, others[::-1])):
        tainted: set[IRValue] = {load}
        for value in ops_first([total]):
            if isinstance(value, IROp) and any(s in tainted for s in value.srcs):
                tainted.add(value)
        ops = {value for value in tainted if isinstance(value, IROp)}
        fold = find_fold((load, IRRegStore(total, store.reg, store.index)), ops)
        if fold is None or fold.op not in ("add", "mulacc"):
            continue
        found = Segments(fold, store, condition, start, is_restart)
        if not carried & set(values_below(list(found.inputs))):
            return found
    return None
