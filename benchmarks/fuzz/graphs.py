"""A builder of random ONNX graphs: each value is computed as it is added, and constants are made in many ways."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tg2hdl_backend.onnx_runtime import runtime_session

__all__ = ["CONSTANTS", "OPSETS", "Builder", "Rejected", "TimeLimit", "Value", "run", "time_limit"]

Array = npt.NDArray[Any]
OPSETS = (13, 17, 19, 21)
_ODD_NAMES = (
    "1",
    "a b",
    "x.y/z:0",
    "class",
    "größe",
    "module$reset",
    "A",
    "a",
    "_",
    "0x",
    "end",
    "wire[3]",
    "日",
)
_LARGEST = 1e4
_MOST_ELEMENTS = 400


class TimeLimit(BaseException):
    """A computation took more CPU seconds than it may."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TimeLimit` inside the context after this CPU time."""

    def stop(*_: object) -> None:
        raise TimeLimit(f"more than {seconds} CPU seconds")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Rejected(Exception):
    """An operator that ONNX Runtime does not take here, or whose result is of no use; another one is tried."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph with its contents for the sample; constants do not depend on an input."""

    name: str
    array: Array
    is_constant: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


def run(
    model: onnx.ModelProto,
    feeds: dict[str, Array],
    outputs: list[str] | None = None,
    *,
    is_optimized: bool = False,
) -> list[Array]:
    """Results of ONNX Runtime, without its optimizations unless asked for: these bring integer kernels."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    if is_optimized:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    else:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime_session(model.SerializeToString(), options)
    return [np.asarray(a) for a in session.run(outputs, feeds)]


class Builder:
    """A graph that grows by operators whose results are computed at once.

    Parameters
    ----------
    seed : int
        The same number gives the same graph.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.odd = self.rng.random() < 0.2
        self.inputs: list[Value] = []
        self.limits: dict[str, int] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, Array] = {}
        self.values: list[Value] = []
        self.used: set[str] = set()
        self.families: list[str] = []

    # Choices

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape: int) -> Array:
        """Normal numbers among which there are zeros, ones and powers of two."""
        found = self.rng.standard_normal(shape) * self.pick((0.3, 1.0, 1.0, 3.0))
        corner = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0])[self.rng.integers(0, 6, shape)]
        return np.where(self.rng.random(shape) < 0.1, corner, found).astype(np.float32)

    def name(self, stem: str) -> str:
        name = f"{stem}{len(self.used)}"
        if self.odd and self.chance(0.5):
            odd = self.pick(_ODD_NAMES)
            name = odd if odd not in self.used else f"{odd}_{len(self.used)}"
        self.used.add(name)
        return name

    # Growth

    def input(self, array: Array, limit: int = 0) -> Value:
        """An input of the graph; `limit`: it holds indices from 0 to one below."""
        value = Value(self.name("x"), array)
        self.inputs.append(value)
        if limit:
            self.limits[value.name] = limit
        return value

    def initializer(self, array: Any) -> Value:
        value = Value(self.name("w"), np.asarray(array), True)
        self.initializers[value.name] = value.array
        return value

    def all(self, op: str, values: list[Value | None], outputs: int = 1, **attributes: Any) -> list[Value]:
        """Add a node and return its results."""
        names = [v.name if v is not None else "" for v in values]
        made = [self.name("v") for _ in range(outputs)]
        node = helper.make_node(op, names, made, name=self.name("n"), **attributes)
        arrays = self._computed(node, [v for v in values if v is not None])
        for array in arrays:
            if not 0 < array.size <= _MOST_ELEMENTS or array.ndim > 5:
                raise Rejected(f"{op} gives {array.shape}")
            if array.dtype.kind == "f" and not np.all(np.abs(array) < _LARGEST):
                raise Rejected(f"{op} gives large numbers")
        self.nodes.append(node)
        constant = all(v is None or v.is_constant for v in values)
        return [Value(n, a, constant) for n, a in zip(made, arrays, strict=True)]

    def one(self, op: str, *values: Value | None, **attributes: Any) -> Value:
        return self.all(op, list(values), **attributes)[0]

    def _computed(self, node: onnx.NodeProto, values: list[Value]) -> list[Array]:
        unique = {v.name: v for v in values}
        infos = [_info(v.name, v.array) for v in unique.values() if not v.is_constant]
        constants = [numpy_helper.from_array(v.array, v.name) for v in unique.values() if v.is_constant]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "node", infos, outputs, constants)
        try:
            return run(
                _model(graph, self.opset), {n: v.array for n, v in unique.items() if not v.is_constant}
            )
        except Exception as error:  # ONNX Runtime has its own exceptions for each kind of refusal.
            raise Rejected(f"{node.op_type}: {error}") from error

    def constant(self, array: Any) -> Value:
        """A constant of this shape and type, made in one of `CONSTANTS`; some of them change numbers."""
        array = np.asarray(array)
        state = len(self.nodes)
        if self.chance(0.45):
            return self.initializer(array)
        try:
            return self.pick(list(CONSTANTS.values()))(self, array)
        except Rejected:
            del self.nodes[state:]
            return self.initializer(array)

    def indices(self, count: int | tuple[int, ...], size: int, host: bool = True) -> Value:
        """Indices from 0 to `size` - 1: constants, negative ones, of rank 0, computed, or an input of the graph."""
        shape = (count,) if isinstance(count, int) else count
        chosen = self.rng.integers(0, size, shape).astype(np.int64)
        way = self.integer(0, 6)
        if way == 0 and host:
            return self.input(chosen, size)
        if way == 1:
            return self.initializer(np.where(self.rng.random(shape) < 0.5, chosen, chosen - size))
        if way == 2:
            return self.one("Add", self.initializer(chosen - 1), self.initializer(np.array(1, np.int64)))
        if way == 3:
            return self.one("Cast", self.initializer(chosen.astype(np.float32)), to=onnx.TensorProto.INT64)
        if way == 4:
            return self.constant(chosen)
        return self.initializer(chosen.astype(self.pick((np.int32, np.int64))))

    # The file

    def model(self, outputs: list[Value], **metadata: str) -> onnx.ModelProto:
        """The graph as a model; nodes that no output needs are left out."""
        needed, nodes = {v.name for v in outputs}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.insert(0, node)
        graph = helper.make_graph(
            nodes,
            "fuzz",
            [_info(v.name, v.array) for v in self.inputs if v.name in needed],
            [_info(v.name, v.array) for v in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.initializers.items() if n in needed],
        )
        model = _model(graph, self.opset)
        known = {f"limit:{n}": str(v) for n, v in self.limits.items()}
        helper.set_model_props(model, known | metadata)
        return model


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


# Ways to make a constant


def _by_attribute(b: Builder, array: Array) -> Value:
    return b.one("Constant", value=numpy_helper.from_array(array))


def _by_gather(b: Builder, array: Array) -> Value:
    """Rows of a shuffled table, in an order that may be gathered itself."""
    if not array.ndim:
        raise Rejected("a scalar has no rows")
    axis = b.integer(0, array.ndim - 1)
    order = b.rng.permutation(array.shape[axis])
    table = b.initializer(np.take(array, np.argsort(order), axis))
    index = b.initializer(order.astype(np.int64))
    if b.chance(0.5):
        again = b.rng.permutation(len(order))
        index = b.one(
            "Gather",
            b.initializer(order[np.argsort(again)].astype(np.int64)),
            b.initializer(again.astype(np.int64)),
        )
    return b.one("Gather", table, index, axis=axis)


def _by_product(b: Builder, array: Array) -> Value:
    factor = np.asarray(b.pick((2, 3, -1)), array.dtype)
    return b.one(b.pick(("Mul", "Add", "Sub")), b.initializer(array), b.initializer(factor))


def _by_transpose(b: Builder, array: Array) -> Value:
    if not array.ndim:
        raise Rejected("a scalar has no axis")
    order = [int(n) for n in b.rng.permutation(array.ndim)]
    return b.one("Transpose", b.initializer(np.transpose(array, np.argsort(order))), perm=order)


def _by_reshape(b: Builder, array: Array) -> Value:
    shape = b.initializer(np.array(array.shape, np.int64))
    return b.one("Reshape", b.initializer(array.reshape(-1)), shape)


def _by_slice(b: Builder, array: Array) -> Value:
    if not array.ndim:
        raise Rejected("a scalar has no axis")
    axis = b.integer(0, array.ndim - 1)
    more = np.take(array, [0], axis)
    start, size = np.array([1], np.int64), np.array([1 + array.shape[axis]], np.int64)
    larger = b.initializer(np.concatenate([more, array, more], axis))
    return b.one(
        "Slice",
        larger,
        b.initializer(start),
        b.initializer(size),
        b.initializer(np.array([axis], np.int64)),
    )


def _by_concat(b: Builder, array: Array) -> Value:
    if not array.ndim or max(array.shape) < 2:
        raise Rejected("nothing to cut")
    axis = int(np.argmax(array.shape))
    cut = b.integer(1, array.shape[axis] - 1)
    return b.all("Concat", [b.initializer(p) for p in np.split(array, [cut], axis)], axis=axis)[0]


def _by_expand(b: Builder, array: Array) -> Value:
    if not array.ndim:
        raise Rejected("a scalar has no axis")
    axis = b.integer(0, array.ndim - 1)
    row = b.initializer(np.take(array, [0], axis))
    return b.one("Expand", row, b.initializer(np.array(array.shape, np.int64)))


def _by_where(b: Builder, array: Array) -> Value:
    mask = b.initializer(b.rng.random(array.shape) < 0.5)
    return b.one("Where", mask, b.initializer(array), b.initializer(array[..., :1] if array.ndim else array))


def _by_cast(b: Builder, array: Array) -> Value:
    other = b.pick((np.float16, np.float64, np.int8)) if array.dtype.kind == "f" else np.int32
    to = helper.np_dtype_to_tensor_dtype(array.dtype)
    return b.one("Cast", b.initializer(array.astype(other)), to=to)


def _by_dequantize(b: Builder, array: Array) -> Value:
    if array.dtype != np.float32:
        raise Rejected("only floats are dequantized")
    scale = np.float32(max(float(np.abs(array).max()), 1e-3) / 127)
    kind, zero = b.pick(((np.int8, 0), (np.uint8, 128)))
    codes = np.clip(np.rint(array / scale) + zero, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
    return b.one(
        "DequantizeLinear",
        b.initializer(codes),
        b.initializer(np.array(scale)),
        b.initializer(np.array(zero, kind)),
    )


def _by_scatter(b: Builder, array: Array) -> Value:
    if not array.ndim:
        raise Rejected("a scalar has no axis")
    axis = b.integer(0, array.ndim - 1)
    row = np.take(array, [0], axis)
    where = np.full(row.shape, array.shape[axis] - 1, np.int64)
    return b.one("ScatterElements", b.initializer(array), b.initializer(where), b.initializer(row), axis=axis)


def _by_tile(b: Builder, array: Array) -> Value:
    if not array.ndim:
        raise Rejected("a scalar has no axis")
    repeats = np.ones(array.ndim, np.int64)
    repeats[0] = array.shape[0]
    return b.one("Tile", b.initializer(array[:1]), b.initializer(repeats))


def _by_squeeze(b: Builder, array: Array) -> Value:
    axis = b.initializer(np.array([0], np.int64))
    return b.one("Squeeze", b.initializer(array[None]), axis)


def _by_pad(b: Builder, array: Array) -> Value:
    if not array.ndim or array.shape[-1] < 2:
        raise Rejected("nothing to pad")
    pads = np.zeros(2 * array.ndim, np.int64)
    pads[-1] = 1
    return b.one("Pad", b.initializer(array[..., :-1]), b.initializer(pads))


CONSTANTS = {
    "Constant": _by_attribute,
    "Gather": _by_gather,
    "Mul": _by_product,
    "Transpose": _by_transpose,
    "Reshape": _by_reshape,
    "Slice": _by_slice,
    "Concat": _by_concat,
    "Expand": _by_expand,
    "Where": _by_where,
    "Cast": _by_cast,
    "DequantizeLinear": _by_dequantize,
    "ScatterElements": _by_scatter,
    "Tile": _by_tile,
    "Squeeze": _by_squeeze,
    "Pad": _by_pad,
}
