"""A value while a graph is computed: a tensor, its compile-time knowledge, and the inputs that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_backend.onnx.tensors import tensor_of

__all__ = ["OnnxValue"]


@dataclass(eq=False)
class OnnxValue:
    """A tensor, or a sequence of values.

    Parameters
    ----------
    name : str
        In the graph.
    make_tensor : callable, optional
        Computes the tensor when it is first used; by default from the array.
    make_array : callable, optional
        Computes the array when it is first used, for a value that is known at compile time.
    inputs : frozenset of str
        Graph inputs that the value depends on; empty for a known one.
    is_weight : bool
        Known, and made from initializers: kept as tensors, so that they remain weights of the program.
    items : list of OnnxValue, optional
        Of a sequence.
    is_text : bool
        Its numbers stand for strings of the file.
    """

    name: str
    make_tensor: Callable[[], Tensor] | None = None
    make_array: Callable[[], npt.NDArray[Any]] | None = None
    inputs: frozenset[str] = frozenset()
    is_weight: bool = False
    items: list[OnnxValue] | None = None
    is_text: bool = False

    @classmethod
    def of_tensor(cls, name: str, tensor: Tensor, inputs: frozenset[str]) -> OnnxValue:
        """A tensor that depends on inputs of the graph.

        Parameters
        ----------
        name : str
        tensor : Tensor
        inputs : frozenset of str
            Names of the graph's inputs that it depends on.
        """
        return cls(name, lambda: tensor, None, inputs)

    @classmethod
    def of_array(cls, name: str, array: npt.NDArray[Any]) -> OnnxValue:
        """A value that is known at compile time.

        Parameters
        ----------
        name : str
            In the graph.
        array : ndarray
        """
        return cls(name, None, lambda: array)

    @property
    def is_known(self) -> bool:
        """Whether the value is known at compile time."""
        return self.make_array is not None

    @cached_property
    def tensor(self) -> Tensor:
        """The value as a tensor."""
        return self.make_tensor() if self.make_tensor is not None else tensor_of(self.array, self.name)

    @cached_property
    def array(self) -> npt.NDArray[Any]:
        """The value as an array; only of a known one."""
        assert self.make_array is not None
        return self.make_array()

    def known_array(self) -> npt.NDArray[Any]:
        """The array, made when it is first asked for."""
        return self.array

    def renamed(self, name: str) -> OnnxValue:
        """The same value under another name."""
        return OnnxValue(
            name,
            None if self.items is not None else lambda: self.tensor,
            (lambda: self.array) if self.is_known else None,
            self.inputs,
            self.is_weight,
            self.items,
            self.is_text,
        )
