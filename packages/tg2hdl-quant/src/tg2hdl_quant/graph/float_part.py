"""The float operations of a model between its codes, each operation by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, UnsupportedError, registry
from tg2hdl_ir.tensors import MOVEMENT, GraphBuilder, Quantizer, TensorGraph
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue

__all__ = ["FloatPart"]

Array = npt.NDArray[Any]
_F32 = DType.FP32


class FloatPart:
    """Float nodes of the new graph.

    Parameters
    ----------
    codes : callable
        The integer node of a tensor of integers.
    total : callable
        A float tensor as a sum of scaled integers, or None.
    constant : callable, optional
        Elements of a tensor that is computed of constants, in the float32 arithmetic of the model; None of others.
    name : callable, optional
        Name of a node in the report; its label or its operation unless given.

    Attributes
    ----------
    names : list of str
        Operations that compute in float.
    """

    def __init__(
        self,
        graph: TensorGraph,
        builder: GraphBuilder,
        codes: Callable[[int], int],
        total: Callable[[int], IntegerSum | None],
        name: Callable[[int], str] | None = None,
        constant: Callable[[int], Array | None] | None = None,
    ) -> None:
        self._graph = graph
        self._builder = builder
        self._codes = codes
        self._total = total
        self._name = name or (lambda number: graph.nodes[number].label or graph.nodes[number].op)
        self._constant = constant or (lambda number: None)
        self._known: dict[int, int] = {}
        self.names: list[str] = []

    def node(self, number: int) -> int:
        """The float node of a float tensor, integers for as long as possible below it."""
        stack = [number]
        while stack:
            current = stack[-1]
            waiting = [] if current in self._known else self._waiting(current)
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if current not in self._known:
                self._known[current] = self._made(current)
        return self._known[number]

    def value(self, number: int) -> IntegerValue:
        """The float node, without scale."""
        return IntegerValue(self.node(number), np.ones(()), 0, 0)

    def quantized(self, source: int, q: Quantizer, dtype: DType, name: str) -> int:
        """Codes by float arithmetic: a division, a rounding, a saturation.

        Parameters
        ----------
        source : int
            Number of the node in the model's graph.
        q : Quantizer
        dtype : DType
            Of the codes.
        name : str
            Layer.

        Raises
        ------
        UnsupportedError
            For a rounding without a float form.
        """
        self._named(name)
        build = self._builder
        number = self.node(source)
        if build.nodes[number].dtype != _F32:
            number = build.cast(number, _F32)
        steps = self._op("FDIV", number, build.const(q.scale, _F32))
        rounding = registry().rounding(q.rounding)
        if rounding.floats is None:
            raise UnsupportedError(
                f"rounding {q.rounding!r} has no float form, and these codes stay in float",
                where=f"layer {name}",
                hint="give its RoundingDef `floats`",
            )
        rounded = registry().factory(rounding, "floats")
        if q.zero_first:
            limited = self._op("ADD", steps, build.const(q.zero, _F32)) if np.any(q.zero) else steps
            limited = self._clipped(limited, np.asarray(q.low), np.asarray(q.high))
            return build.cast(rounded(build, limited), dtype)
        steps = self._clipped(steps, q.low - q.zero - 1, q.high - q.zero + 1)
        coded = self._op("ADD", rounded(build, steps), build.const(q.zero, _F32))
        coded = self._clipped(coded, np.asarray(q.low), np.asarray(q.high))
        return build.cast(coded, dtype)

    def to_integers(self, number: int) -> int:
        """A comparison or conversion of float tensors."""
        node = self._graph.nodes[number]
        self._named(self._name(number))
        sources = tuple(
            self.node(s) if self._graph.nodes[s].dtype.is_float else self._codes(s) for s in node.sources
        )
        return self._builder.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)

    def _waiting(self, number: int) -> list[int]:
        if self._is_leaf(number):
            return []
        sources = self._graph.nodes[number].sources
        return [s for s in sources if self._graph.nodes[s].dtype.is_float and s not in self._known]

    def _is_leaf(self, number: int) -> bool:
        return (
            self._graph.nodes[number].op == "const"
            or self._constant(number) is not None
            or self._total(number) is not None
        )

    def _made(self, number: int) -> int:
        node = self._graph.nodes[number]
        if node.op == "const":
            return self._builder.const(node.arg, node.dtype, node.label)
        known = self._constant(number)
        if known is not None:
            return self._builder.const(known, node.dtype, node.label)
        total = self._total(number)
        if total is not None:
            made = self._converted(total, node.label)
            return made if node.dtype == _F32 else self._builder.cast(made, node.dtype)
        if node.op == "input":
            return self._builder.add("input", (), node.shape, node.dtype, node.arg, node.label)
        sources = tuple(
            self._known[s] if self._graph.nodes[s].dtype.is_float else self._codes(s) for s in node.sources
        )
        if node.op in MOVEMENT:
            return self._builder.move(node, sources[0])
        self._named(self._name(number))
        return self._builder.add(node.op, sources, node.shape, node.dtype, node.arg, node.label)

    def _converted(self, total: IntegerSum, label: str) -> int:
        """Scaled integers as float numbers."""
        made: int | None = None
        for term in total.terms:
            one = self._op("MUL", self._builder.cast(term.node, _F32), self._builder.const(term.scale, _F32))
            made = one if made is None else self._op("ADD", made, one)
        if made is None:
            made = self._builder.const(total.offset, _F32)
        elif np.any(total.offset):
            made = self._op("ADD", made, self._builder.const(total.offset, _F32))
        if len(total.terms) > 1:
            self._named(label or "sum")
        return self._builder.spread(made, total.shape)

    def _op(self, op: str, *sources: int) -> int:
        return self._builder.elementwise(op, *sources, dtype=_F32)

    def _compare(self, op: str, *sources: int) -> int:
        return self._builder.elementwise(op, *sources, dtype=DType.BOOL)

    def _clipped(self, number: int, low: np.ndarray, high: np.ndarray) -> int:
        number = self._op("MAX", number, self._builder.const(low, _F32))
        top = self._builder.const(high, _F32)
        return self._op("WHERE", self._compare("CMPLT", number, top), number, top)

    def _named(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)
