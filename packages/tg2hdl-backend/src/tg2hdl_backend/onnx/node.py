"""A node of an ONNX graph, as the definition of its operator sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from tinygrad import Tensor

from tg2hdl_backend.onnx.text import TextTable
from tg2hdl_ir import InputError, UnsupportedError

__all__ = ["DependsOnData", "OnnxNode"]


class DependsOnData(InputError):
    """A value that decides a shape or the computation depends on inputs of the model.

    Attributes
    ----------
    inputs : tuple of str
        The inputs that it depends on.
    operator : str
        Operator that needs it.
    position : int
        Which of the operator's inputs it is.
    """

    inputs: tuple[str, ...]
    operator: str
    position: int


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """Facts about a node that its operator's definition may use.

    Parameters
    ----------
    op_type, domain : str
    version : int
        Of the operator set that the model imports.
    name : str
        The node's name, or that of its first output.
    attributes : mapping
        As the file gives them: numbers, text, lists, numpy arrays, graphs.
    outputs : tuple of str
        Names of the results; empty where the model does not use one.
    known_inputs : sequence of callable or None
        For each input a function that returns its numpy array, when that is known at compile time.
    text : TextTable
        Numbers of the strings of the file.
    in_float : dict of str to str
        Of the quantizers that are float operations, by node, the reason; see `stays_float`.
    """

    op_type: str
    domain: str
    version: int
    name: str
    attributes: Mapping[str, Any]
    outputs: tuple[str, ...]
    known_inputs: Sequence[Callable[[], npt.NDArray[Any]] | None] = ()
    expansion: Callable[..., Any] | None = field(default=None, repr=False)
    text: TextTable = field(default_factory=TextTable, repr=False)
    in_float: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """Place in the user's terms: node, operator and version of its operator set."""
        return f"node {self.name!r}: {self.domain or 'ai.onnx'} {self.op_type}, opset {self.version}"

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute, or `default` when the file does not give it.

        Parameters
        ----------
        name : str
            In the operator's definition.
        default
            As the operator's definition gives it.
        """
        return self.attributes.get(name, default)

    def known(self, position: int) -> npt.NDArray[Any] | None:
        """Value of an input when it is known at compile time, otherwise None."""
        source = self.known_inputs[position] if position < len(self.known_inputs) else None
        return None if source is None else source()

    def stays_float(self, reason: str) -> None:
        """Note that a quantizer is computed in float, and why; the summary of a model says so."""
        self.in_float.setdefault(self.name, f"{self.op_type}: {reason}")

    def uses(self, position: int) -> bool:
        """Whether the model uses a result."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def expand(self, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        """Compute the operator by the function that ONNX itself defines it with."""
        if self.expansion is None:
            raise self.unsupported("ONNX defines no function for it")
        return tuple(self.expansion(*inputs))

    def unsupported(self, reason: str, hint: str | None = None) -> UnsupportedError:
        """Error that refuses this node.

        Parameters
        ----------
        reason : str
            What is not supported.
        hint : str, optional
            Way out; a general one unless given.
        """
        return UnsupportedError(
            f"ONNX operator {self.op_type}: {reason}",
            where=self.where,
            hint=hint or "export the model without it, or register it with the hook tg2hdl_onnx_operators",
        )
