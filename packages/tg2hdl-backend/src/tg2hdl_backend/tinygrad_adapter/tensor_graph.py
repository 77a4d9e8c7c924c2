"""The graph of a model's tensors, before tinygrad cuts it into kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Device, Tensor
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.capture import describe_outputs
from tg2hdl_backend.tinygrad_adapter.contents import single_buffer
from tg2hdl_backend.tinygrad_adapter.dialect import scalar_dtype
from tg2hdl_backend.tinygrad_adapter.model_inputs import (
    model_name,
    numpy_of,
    spec_of,
    tinygrad_dtype,
)
from tg2hdl_backend.tinygrad_adapter.origins import noting
from tg2hdl_backend.tinygrad_adapter.quantizers import declaration_of, with_finite_numbers
from tg2hdl_backend.tinygrad_adapter.trace import called_function, reachable_tensors, result_graph
from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.errors import model_place
from tg2hdl_ir.tensors import ELEMENTWISE, MOVEMENT, GraphBuilder, TensorGraph
from tg2hdl_ir.turns import compiles

__all__ = ["stateful_graph", "tensor_graph"]

_REDUCTIONS = {Ops.ADD: "sum", Ops.MAX: "max", Ops.MUL: "prod"}
_SAME = {"DETACH", "CONTIGUOUS", "CONTIGUOUS_BACKWARD", "COPY"}
_NAMES = {"IDIV": "CDIV", "MOD": "CMOD", "CAST": "cast"}


@compiles
def tensor_graph(model: Callable[..., Any], *example_inputs: Any) -> TensorGraph:
    """Graph of a model's tensors for inputs of the shapes and dtypes of the examples.

    Weights are constants of the graph, under the names that the model knows them by.

    Raises
    ------
    InputError
        For an example that is missing or that the model refuses, or a model that looks at data.
    UnsupportedError
        For an operation that a graph of tensors cannot express, or a model with state.
    """
    graph, first = stateful_graph(model, *example_inputs)
    if first:
        raise UnsupportedError(
            f"the model updates {', '.join(first)} in place",
            where=model_place(model_name(model)),
            hint="quantize it with sequences=True, which carries its state from sample to sample",
        )
    return graph


@compiles
def stateful_graph(
    model: Callable[..., Any], *example_inputs: Any
) -> tuple[TensorGraph, dict[str, npt.NDArray[Any]]]:
    """As `tensor_graph`, also for a model that updates its own tensors: they are further inputs and outputs.

    Returns
    -------
    graph : TensorGraph
        Its last inputs are the state before a run, under the names of the tensors, its last outputs the state after it.
    first : dict of str to ndarray
        First contents of the state, in this order.
    """
    function, names = called_function(model, example_inputs)
    names = getattr(function, "input_names", names)
    specs = [spec_of(n, e) for n, e in zip(names, example_inputs, strict=True)]
    arguments = [Tensor.empty(*s.shape, dtype=tinygrad_dtype(s.dtype)) for s in specs]
    held = reachable_tensors(model)
    with with_finite_numbers(), noting(lines=False):
        result, outputs, updated = result_graph(model, arguments)
        # An expression that the model updates needs a buffer of its own; reading its value stores it.
        expressions = [name for name in updated if not _is_stored(held[name].uop)]
        first = {name: numpy_of(held[name]) for name in updated}
        kept = {name: held[name] for name in updated}
        kept |= {name: Tensor(first[name], device=Device.DEFAULT).realize() for name in expressions}
        moved = {name: kept[name].uop for name in expressions}
        if moved:
            result, outputs, updated = result_graph(model, arguments, moved)
    weights = {t.uop.base: (name, t) for name, t in held.items() if name not in updated}
    reader = _Reader(model_place(model_name(model)), weights)
    inputs = [
        reader.add_input(argument, n, spec.name)
        for n, (argument, spec) in enumerate(zip(arguments, specs, strict=True))
    ]
    states = [reader.add_input(kept[name], len(specs) + n, name) for n, name in enumerate(updated)]
    structure, _ = describe_outputs(result, outputs)
    numbers = [reader.read(t.uop) for t in outputs]
    numbers += [reader.read(uop) for uop in updated.values()]
    graph = TensorGraph(
        model_name(function),
        tuple(reader.builder.nodes),
        (*inputs, *states),
        tuple(numbers),
        (*(s.name for s in specs), *updated),
        structure,
    )
    return graph, first


class _Reader:
    """Turns UOps into nodes."""

    def __init__(self, where: str, weights: dict[UOp, tuple[str, Tensor]]) -> None:
        self.builder = GraphBuilder()
        self._known: dict[UOp, int] = {}
        self._where = where
        self._weights = weights

    def add_input(self, tensor: Tensor, number: int, name: str) -> int:
        dtype, shape = DType.from_tinygrad(tensor.dtype), tuple(int(s) for s in tensor.shape)
        node = self.builder.add("input", (), shape, dtype, number, name)
        self._known[tensor.uop] = node
        self._known[tensor.uop.base] = self._reshape(node, tuple(int(s) for s in tensor.uop.base.shape))
        return node

    def read(self, result: UOp) -> int:
        stack = [result]
        while stack:
            uop = stack[-1]
            waiting = [s for s in self._operands(uop) if s not in self._known]
            if uop in self._known or not waiting:
                stack.pop()
            if uop not in self._known:
                if waiting:
                    stack.extend(waiting)
                else:
                    self._known[uop] = self._node(uop)
        return self._known[result]

    def _operands(self, uop: UOp) -> tuple[UOp, ...]:
        """Sources that are tensors, without shapes, devices and unique numbers."""
        if uop in self._weights or uop.op in (Ops.CONST, Ops.BUFFER):
            return ()
        declared = declaration_of(uop)
        if declared is not None:
            return (declared.source,)
        filled = _first_contents(uop)
        if filled is not None:
            return (filled,)
        if uop.op is Ops.AFTER:
            place, window, value = self._update(uop)
            return (value,) if window is None else (place, value)
        one = uop.op.name.lower() in MOVEMENT or uop.op.name in _SAME or uop.op is Ops.REDUCE
        return tuple(uop.src[:1] if one else uop.src)

    def _reshape(self, source: int, shape: tuple[int, ...]) -> int:
        node = self.builder.nodes[source]
        return source if node.shape == shape else self.builder.add("reshape", (source,), shape, node.dtype)

    def _node(self, uop: UOp) -> int:
        if uop in self._weights:
            name, tensor = self._weights[uop]
            values = numpy_of(tensor).reshape(tuple(int(s) for s in uop.shape))
            return self.builder.const(values, _dtype(uop), name)
        if uop.op is Ops.CONST:
            return self.builder.const(np.array(uop.arg + 0 if _is_float(uop) else uop.arg), _dtype(uop))
        if uop.op is Ops.BUFFER:
            return self._stored(uop)
        label = uop.metadata[0].name if uop.metadata else ""
        shape = tuple(int(s) for s in uop.shape)
        declared = declaration_of(uop)
        if declared is not None:
            source = self._known[declared.source]
            return self.builder.add(
                declared.op, (source,), shape, _dtype(uop), declared.quantizer, declared.label
            )
        sources = tuple(self._known[s] for s in self._operands(uop))
        if _first_contents(uop) is not None:
            return self._reshape(self.builder.cast(sources[0], _dtype(uop)), shape)
        if uop.op is Ops.AFTER:
            return self._updated(uop)
        name = uop.op.name
        if name in _SAME:
            return sources[0]
        if name.lower() in MOVEMENT:
            dtype = self.builder.nodes[sources[0]].dtype
            return self.builder.add(name.lower(), sources, shape, dtype, _movement_arg(uop, shape), label)
        if uop.op is Ops.REDUCE:
            return self._reduction(uop, sources[0], shape, label)
        if uop.op is Ops.STACK:
            return self._stack(sources, shape)
        if name in ("FLOORMOD", "FLOORDIV"):
            return self._floored(name, sources[0], sources[1], _dtype(uop), label)
        name = _NAMES.get(name, name)
        if name == "BITCAST" and self._keeps_bits(uop, sources[0]):
            name = "cast"
        if name not in ELEMENTWISE:
            raise UnsupportedError(
                f"{name} of {_dtype(uop)}" + (f", made by {label}" if label else ""),
                where=self._where,
                hint="take the operation out of the model, or compile the float model",
            )
        return self.builder.elementwise(name, *self._typed(uop, sources), dtype=_dtype(uop), label=label)

    def _update(self, uop: UOp) -> tuple[UOp, UOp | None, UOp]:
        """The tensor that an update writes, the part of it that is written (None for all of it), and the new values."""
        place, *effects = uop.src
        effect = effects[0] if len(effects) == 1 else None
        if effect is not None and effect.op is Ops.STORE and effect.src[0] is place:
            return place, None, effect.src[1]
        if effect is not None and effect.op is Ops.AFTER and len(effect.src) == 2:
            window, store = effect.src
            shrinks = window.op is Ops.SHRINK and window.src[0] is place
            if shrinks and store.op is Ops.STORE and store.src[0] is window:
                return place, window, store.src[1]
        raise UnsupportedError(
            "an update in place of a part of a tensor that is not a slice",
            where=self._where,
            hint="assign to the whole tensor, or to a slice with constant bounds and step 1",
        )

    def _updated(self, uop: UOp) -> int:
        """A tensor after an update in place."""
        place, window, value = self._update(uop)
        made = self.builder.cast(self._known[value], _dtype(uop))
        shape = tuple(int(s) for s in uop.shape)
        if window is None:
            return self._reshape(made, shape)
        bounds = _movement_arg(window, tuple(int(s) for s in window.shape))
        inside = np.zeros(shape, np.bool_)
        inside[tuple(slice(low, high) for low, high in bounds)] = True
        around = tuple((low, size - high) for (low, high), size in zip(bounds, shape, strict=True))
        dtype = _dtype(uop)
        spread = self.builder.add("pad", (made,), shape, dtype, around)
        mask = self.builder.const(inside, DType.BOOL)
        return self.builder.elementwise("WHERE", mask, spread, self._known[place], dtype=dtype)

    def _typed(self, uop: UOp, sources: tuple[int, ...]) -> list[int]:
        """Operands, literals without a width in the type of the others."""
        weak = ["weak" in str(scalar_dtype(s)) for s in uop.src]
        first = 1 if uop.op is Ops.WHERE else 0
        types = [
            self.builder.nodes[s].dtype for s, w in zip(sources[first:], weak[first:], strict=True) if not w
        ]
        return [
            self.builder.cast(s, types[0]) if w and types and n >= first else s
            for n, (s, w) in enumerate(zip(sources, weak, strict=True))
        ]

    def _keeps_bits(self, uop: UOp, source: int) -> bool:
        """Whether a reinterpretation is a conversion: between integers of one width."""
        old, new = self.builder.nodes[source].dtype, _dtype(uop)
        return old.is_int and new.is_int and old.bit_width == new.bit_width

    def _stack(self, sources: tuple[int, ...], shape: tuple[int, ...]) -> int:
        """Tensors stacked on a new first axis: each padded with zeros, then all are added."""
        total = None
        for place, source in enumerate(sources):
            dtype = self.builder.nodes[source].dtype
            one = self._reshape(source, (1, *shape[1:]))
            around = ((place, len(sources) - place - 1), *((0, 0) for _ in shape[1:]))
            part = self.builder.add("pad", (one,), shape, dtype, around)
            total = part if total is None else self.builder.elementwise("ADD", total, part, dtype=dtype)
        assert total is not None
        return total

    def _floored(self, name: str, a: int, b: int, dtype: DType, label: str) -> int:
        """Division toward minus infinity by that toward zero."""

        def op(kind: str, *operands: int) -> int:
            return self.builder.elementwise(kind, *operands, dtype=dtype, label=label)

        rest = op("CMOD", op("ADD", op("CMOD", a, b), b), b)
        return rest if name == "FLOORMOD" else op("CDIV", op("SUB", a, rest), b)

    def _stored(self, uop: UOp) -> int:
        if not uop.buffer.is_allocated():
            raise UnsupportedError(
                "a tensor without contents",
                where=self._where,
                hint="give each tensor of the model its contents: Tensor.empty has none",
            )
        values = numpy_of(Tensor(uop, device=single_buffer(uop).device)).reshape(-1)
        return self.builder.const(values, _dtype(uop))

    def _reduction(self, uop: UOp, source: int, shape: tuple[int, ...], label: str) -> int:
        kind, axes = uop.arg[0], uop.arg[1]
        assert kind in _REDUCTIONS, kind
        # tinygrad 0.14 counts leading axes and removes them; 0.13 names axes and keeps them with size 1.
        removed = tuple(range(axes)) if isinstance(axes, int) else tuple(int(a) for a in axes)
        return self._reshape(
            self.builder.reduce(_REDUCTIONS[kind], source, removed, _dtype(uop), label), shape
        )


def _is_stored(uop: UOp) -> bool:
    """Whether a tensor is a buffer with contents."""
    base = uop.base
    return base.op is Ops.BUFFER and bool(single_buffer(base).base.is_allocated())


def _first_contents(uop: UOp) -> UOp | None:
    """The fill value of a tensor that the model creates, such as ``Tensor.zeros``; None for another node."""
    if uop.op is not Ops.AFTER or len(uop.src) != 2 or uop.src[1].op is not Ops.STORE:
        return None
    place, store = uop.src
    below = place.src[0] if place.op is Ops.RESHAPE else place
    fresh = store.src[0] is place and below.op is Ops.BUFFER and not below.buffer.is_allocated()
    return store.src[1] if fresh else None


def _is_float(uop: UOp) -> bool:
    return _dtype(uop).is_float


def _dtype(uop: UOp) -> DType:
    """Type of the elements; a literal without a width has that of tinygrad's default."""
    scalar = scalar_dtype(uop)
    name = str(scalar)
    if "weak" in name:
        return DType.FP32 if "float" in name else DType.INT32
    return DType.from_tinygrad(scalar)


def _integers(uop: UOp, count: int) -> tuple[int, ...]:
    """Numbers of a shape; tinygrad 0.13 writes equal ones as one constant."""
    return (int(uop.arg),) * count if uop.op is Ops.CONST else tuple(int(s.arg) for s in uop.src)


def _movement_arg(uop: UOp, shape: tuple[int, ...]) -> Any:
    if uop.op is Ops.PERMUTE:
        return tuple(uop.arg)
    if uop.op is Ops.FLIP:
        return tuple(n for n, turned in enumerate(uop.arg) if turned)
    if uop.op not in (Ops.PAD, Ops.SHRINK):
        return None
    start = _integers(uop.src[1], len(shape))
    if uop.op is Ops.SHRINK:
        return tuple((s, s + size) for s, size in zip(start, shape, strict=True))
    old = tuple(int(s) for s in uop.src[0].shape)
    return tuple((s, new - s - size) for s, size, new in zip(start, old, shape, strict=True))
