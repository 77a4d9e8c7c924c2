"""Registers of the golden model, with one value per iteration of the loops that run at once.

Arrays have one dimension per such loop, the innermost first, so that values of outer loops broadcast by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.dependence import Element
from tg2hdl_ir.nodes import KernelIR

__all__ = ["GoldenRegisters"]

Array = npt.NDArray[Any]


class GoldenRegisters:
    """Contents of all registers; every register starts at zero unless it is set.

    Parameters
    ----------
    dynamic : set of int
        Registers with an access whose index is not constant; they are kept as one array.
    """

    def __init__(self, kernel: KernelIR, dynamic: frozenset[int]) -> None:
        self.elements: dict[Element, Array] = {}
        self.arrays: dict[int, Array] = {}
        for reg in kernel.registers:
            zero = np.zeros((reg.size,), dtype=reg.dtype.numpy())
            if reg.idx in dynamic:
                self.arrays[reg.idx] = zero
            else:
                self.elements |= {(reg.idx, n): zero[n] for n in range(reg.size)}

    def restore(self, contents: Mapping[int, Array]) -> None:
        """Set registers before a run.

        Parameters
        ----------
        contents : mapping of int to ndarray
            As of `contents`, after a run of the same kernel.
        """
        for reg, array in contents.items():
            if reg in self.arrays and self.arrays[reg].size == array.size:
                self.arrays[reg] = array.copy()
            self.elements |= {(reg, n): v for n, v in enumerate(array) if (reg, n) in self.elements}

    def contents(self) -> dict[int, Array]:
        """Elements by register, outside of all loops."""
        found = {reg: array.reshape(-1) for reg, array in self.arrays.items()}
        single: dict[int, list[Array]] = {}
        for (reg, _), value in self.elements.items():
            single.setdefault(reg, []).append(value.reshape(-1)[-1])
        return found | {reg: np.array(values) for reg, values in single.items()}

    def load(self, reg: int, index: Array, shape: tuple[int, ...]) -> Array:
        """Elements of an array of registers, for all iterations of `shape`.

        Parameters
        ----------
        reg : int
            Number of the array.
        index : ndarray
            Element, for all iterations or for each one.
        shape : tuple of int
            Of the iterations that run at once, innermost loop first.
        """
        array = self._aligned(reg, len(shape))
        if index.ndim == 0:
            return np.array(array[int(index)])
        full = np.broadcast_to(array, (array.shape[0], *shape))
        places = (np.broadcast_to(index, shape), *np.ogrid[tuple(map(slice, shape))])
        return np.asarray(full[places])

    def store(
        self,
        reg: int,
        index: Array,
        value: Array,
        gate: Array | None,
        shape: tuple[int, ...],
        private: tuple[bool, ...],
    ) -> None:
        """Write elements of an array of registers; `private` tells which dimensions have a copy of their own.

        Parameters
        ----------
        reg : int
            Number of the array.
        index, value : ndarray
            Broadcast to `shape`.
        gate : ndarray or None
            Where it is false nothing is written; None writes everywhere.
        shape : tuple of int
            Of the iterations that run at once, innermost loop first.
        private : tuple of bool
            For each dimension, whether its iterations have copies of their own.
        """
        array = self._aligned(reg, len(shape))
        wanted = tuple(n if own else 1 for n, own in zip(shape, private, strict=True))
        if array.shape[1:] != wanted:
            array = np.array(np.broadcast_to(array, (array.shape[0], *wanted)))
            self.arrays[reg] = array
        grid = np.ogrid[tuple(map(slice, shape))]
        places = [np.broadcast_to(index, shape)]
        places += [np.broadcast_to(g if own else 0, shape) for g, own in zip(grid, private, strict=True)]
        values = np.broadcast_to(value, shape)
        if gate is not None:
            mask = np.broadcast_to(gate, shape)
            places, values = [p[mask] for p in places], values[mask]
        array[tuple(places)] = values

    def leave(self, written: set[Element], dimensions: int) -> None:
        """Drop the innermost of `dimensions` dimensions; its last iteration remains.

        Parameters
        ----------
        written : set of Element
            Registers that the loop writes.
        dimensions : int
            Before the loop is left.
        """
        for one in written:
            if one[0] in self.arrays:
                array = self.arrays[one[0]]
                if array.ndim - 1 == dimensions:
                    self.arrays[one[0]] = array[:, -1]
            elif one[1] is not None and self.elements[one].ndim == dimensions:
                self.elements[one] = self.elements[one][-1]

    def _aligned(self, reg: int, dimensions: int) -> Array:
        array = self.arrays[reg]
        missing = dimensions - (array.ndim - 1)
        return array.reshape((array.shape[0], *(1,) * missing, *array.shape[1:]))
