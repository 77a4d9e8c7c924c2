"""Graphs of operations on whole tensors: movements, elementwise operations, reductions and lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.registry import registry

__all__ = ["GraphBuilder", "LayerKernel", "Quantizer", "TensorGraph", "TensorNode"]

_PLAIN = "half_even"


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Codes of real numbers, divided in float32: ``clip(round(x / scale) + zero, low, high)``.

    Parameters
    ----------
    scale : ndarray of float32
        Value of one step; broadcasts against the tensor.
    zero : ndarray of int64
        Code of zero; broadcasts against the tensor.
    low, high : int
        Smallest and largest code.
    rounding : str
        Name of a registered `RoundingDef`.
    zero_first : bool
        Whether codes are ``round(clip(x / scale + zero, low, high))``, as QONNX has them.
    """

    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    low: int
    high: int
    rounding: str = _PLAIN
    zero_first: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether codes are those of QuantizeLinear: halves go to even, and the zero point is added afterwards."""
        return self.rounding == _PLAIN and not self.zero_first

    def codes(self, x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Codes of numbers, in float64; NaN has the lowest one, as in ONNX Runtime."""
        quotient = np.asarray(x, np.float32) / self.scale
        quotient = np.where(np.isnan(quotient), np.float32(-np.inf), quotient)
        rounded = registry().factory(registry().rounding(self.rounding), "numbers")
        if self.zero_first:
            limited = np.clip(
                quotient + self.zero.astype(np.float32), np.float32(self.low), np.float32(self.high)
            )
            return np.asarray(rounded(limited), np.float64)
        steps = np.asarray(rounded(quotient), np.float64)
        return np.asarray(np.clip(steps + self.zero, self.low, self.high))

    def values(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Numbers that codes stand for."""
        return np.asarray((codes - self.zero).astype(np.float32) * self.scale)


class LayerKernel(NamedTuple):
    """How the runtime of a file computes the codes of a quantizer.

    Parameters
    ----------
    name : str
        Its kernel for codes, such as ``QLinearConv``; ``float32`` where it computes the operators of the file one by
        one; empty where that is not known.
    reason : str
        Why it has no kernel for codes.
    """

    name: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class TensorNode:
    """One operation.

    Parameters
    ----------
    op : str
        ``input``, ``const``, one of `MOVEMENT` or `ELEMENTWISE`, ``sum``, ``max``, ``prod``, ``gather``, ``quantize``
        or ``dequantize``.
    sources : tuple of int
        Numbers of the operands' nodes, all smaller than that of this node.
    arg : Any
        ``input``: its number.  ``const``: the array.  ``permute``: the order of axes.  ``pad``: elements before and
        after by axis.  ``shrink``: start and end by axis.  ``flip``: the axes.  ``sum``, ``max``, ``prod``: the axes,
        which are removed.  ``gather``: None; the sources are a table of one axis and an index tensor.
        ``quantize`` (float to integers) and ``dequantize`` (integers to float): the `Quantizer`.
    shape : tuple of int
    dtype : DType
    label : str
        The method or weight that the user knows it by; empty where unknown.
    """

    op: str
    sources: tuple[int, ...]
    arg: Any
    shape: tuple[int, ...]
    dtype: DType
    label: str = ""


@dataclass(frozen=True, eq=False)
class TensorGraph:
    """Nodes in topological order, operands first.

    Parameters
    ----------
    name : str
    nodes : tuple of TensorNode
    inputs, outputs : tuple of int
        Their nodes.
    input_names : tuple of str
    structure : Any
        Structure that the model returns, with the number of the output in place of each tensor; None for one tensor.
    """

    name: str
    nodes: tuple[TensorNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_names: tuple[str, ...]
    structure: Any = None

    def consumers(self) -> list[list[int]]:
        """Nodes that read each node, in order, once each."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for source in dict.fromkeys(node.sources):
                found[source].append(number)
        return found

    def rebuilt(self, nodes: Sequence[TensorNode], place: Mapping[int, int] | Sequence[int]) -> TensorGraph:
        """The graph with other nodes, where `place` says which of them each old one became.

        Parameters
        ----------
        nodes : sequence of TensorNode
            In an order in which operands come first.
        place : mapping of int to int or sequence of int
            New number of each old input and output.
        """
        inputs, outputs = (tuple(place[n] for n in border) for border in (self.inputs, self.outputs))
        return replace(self, nodes=tuple(nodes), inputs=inputs, outputs=outputs)

    def format(self) -> str:
        """One line a node."""
        lines = [f"graph {self.name}({', '.join(self.input_names)})"]
        for number, node in enumerate(self.nodes):
            operands = ", ".join(f"%{s}" for s in node.sources)
            arg = "" if node.arg is None or node.op == "const" else f" {node.arg}"
            label = f"  # {node.label}" if node.label else ""
            lines.append(f"  %{number} = {node.op}({operands}){arg} : {node.dtype}{list(node.shape)}{label}")
        lines.append("  return " + ", ".join(f"%{n}" for n in self.outputs))
        return "\n".join(lines)


class GraphBuilder:
    """Collects nodes; equal operations on equal operands become one node."""

    def __init__(self) -> None:
        self.nodes: list[TensorNode] = []
        self._known: dict[Any, int] = {}

    def add(
        self,
        op: str,
        sources: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: DType,
        arg: Any = None,
        label: str = "",
    ) -> int:
        """Number of the node, a new one unless it is there.

        Parameters
        ----------
        op : str
            Movement, reduction, lookup, or an op of the kernel IR on elements.
        sources : tuple of int
            Numbers of the operands.
        shape : tuple of int
        dtype : DType
        arg : optional
            Depends on the op: the axes of a reduction, the contents of a constant, ...
        label : str, optional
            Name for messages; equal nodes with different labels are one node.
        """
        key = None if op == "const" else (op, sources, shape, dtype, arg)
        if key in self._known:
            return self._known[key]
        self.nodes.append(TensorNode(op, sources, arg, shape, dtype, label))
        if key is not None:
            self._known[key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def const(self, value: npt.ArrayLike, dtype: DType, label: str = "") -> int:
        """A constant; equal scalars become one node.

        Parameters
        ----------
        value : npt.ArrayLike
            A scalar or an array.
        dtype : DType
            Of its elements.
        label : str, optional
            For messages.
        """
        array = np.asarray(value).astype(dtype.numpy())
        key = ("const", dtype, array.shape, array.tobytes()) if array.size <= 16 else None
        if key is not None and key in self._known:
            return self._known[key]
        number = self.add("const", (), array.shape, dtype, array, label)
        if key is not None:
            self._known[key] = number
        return number

    def elementwise(self, op: str, *sources: int, dtype: DType, label: str = "") -> int:
        """An operation on elements of operands that broadcast.

        Parameters
        ----------
        op : str
            Name of a kernel IR op.
        *sources : int
            Numbers of operands whose shapes broadcast.
        dtype : DType
            Of the result.
        label : str, optional
            Name for messages.
        """
        shape = np.broadcast_shapes(*(self.nodes[s].shape for s in sources))
        return self.add(op, sources, shape, dtype, label=label)

    def cast(self, source: int, dtype: DType) -> int:
        """The same numbers in another type; the node itself where it has the type.

        Parameters
        ----------
        source : int
            Number of a node.
        dtype : DType
            Of the result.
        """
        node = self.nodes[source]
        return source if node.dtype == dtype else self.add("cast", (source,), node.shape, dtype)

    def spread(self, number: int, shape: tuple[int, ...]) -> int:
        """A node in the shape that it broadcasts against.

        Parameters
        ----------
        number : int
            Of a node whose shape broadcasts to `shape`.
        shape : tuple of int
        """
        node = self.nodes[number]
        return number if node.shape == shape else self.add("expand", (number,), shape, node.dtype)

    def move(self, node: TensorNode, source: int) -> int:
        """The movement of `node` on another operand.

        Parameters
        ----------
        node : TensorNode
            A movement; its shape and argument are kept.
        source : int
            Number of the new operand.
        """
        return self.add(node.op, (source,), node.shape, self.nodes[source].dtype, node.arg, node.label)

    def reduce(self, op: str, source: int, axes: tuple[int, ...], dtype: DType, label: str = "") -> int:
        """A reduction over axes, which are removed.

        Parameters
        ----------
        op : str
            ``add`` or ``max``.
        source : int
            Number of a node.
        axes : tuple of int
            Dimensions, from 0.
        dtype : DType
            Of the result.
        label : str, optional
            For messages.
        """
        shape = tuple(s for n, s in enumerate(self.nodes[source].shape) if n not in axes)
        return self.add(op, (source,), shape, dtype, axes, label)
