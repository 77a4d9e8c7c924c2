"""Families of operators that the random graphs are made of: each takes a builder and a float tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from graphs import Builder, Rejected, Value

__all__ = ["FAMILIES"]

Family = Callable[[Builder, Value], list[Value]]
FAMILIES: dict[str, Family] = {}
FLOAT, INT64, INT32 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.INT32
_UNARY = [
    "Relu",
    "Elu",
    "Selu",
    "Celu",
    "Sigmoid",
    "Tanh",
    "HardSigmoid",
    "HardSwish",
    "Softplus",
    "Softsign",
    "Erf",
    "Abs",
    "Neg",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Asinh",
    "Sinh",
    "Cosh",
    "Exp",
    "ThresholdedRelu",
    "LeakyRelu",
    "Gelu",
    "Mish",
    "Identity",
    "Dropout",
]
_REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


def family(function: Family) -> Family:
    FAMILIES[function.__name__.strip("_")] = function
    return function


def _needs(condition: bool, text: str) -> None:
    if not condition:
        raise Rejected(text)


def _axis(b: Builder, x: Value) -> int:
    _needs(x.ndim > 0, "it needs an axis")
    axis = b.integer(0, x.ndim - 1)
    return axis - x.ndim if b.chance(0.3) else axis


def _ints(b: Builder, *numbers: int) -> Value:
    """A shape, axes or counts."""
    array = np.array(numbers, np.int64)
    return b.constant(array) if b.chance(0.2) else b.initializer(array)


def _broadcast(b: Builder, x: Value) -> Value:
    """A constant that fits `x`: of rank 0, one element, a row, channels, or the whole shape."""
    shapes: list[tuple[int, ...]] = [(), (1,), x.shape, x.shape[-1:]]
    shapes += [tuple(s if n == 1 else 1 for n, s in enumerate(x.shape))] if x.ndim > 1 else []
    return b.constant(b.floats(*b.pick(shapes)))


def _other(b: Builder, x: Value) -> Value:
    """An earlier value that fits `x`, or a constant."""
    fitting = [v for v in b.values if v is not x and v.shape == x.shape]
    return b.pick(fitting) if fitting and b.chance(0.6) else _broadcast(b, x)


@family
def unary(b: Builder, x: Value) -> list[Value]:
    return [b.one(b.pick(_UNARY), x)]


@family
def guarded(b: Builder, x: Value) -> list[Value]:
    """Functions of positive numbers."""
    positive = b.one("Add", b.one("Abs", x), b.constant(np.float32(0.25)))
    return [b.one(b.pick(("Sqrt", "Log", "Reciprocal")), positive)]


@family
def clip(b: Builder, x: Value) -> list[Value]:
    low, high = b.initializer(np.float32(-0.75)), b.constant(np.float32(1.5))
    return [b.one("Clip", x, *b.pick(((low, high), (low,), (None, high))))]


@family
def arithmetic(b: Builder, x: Value) -> list[Value]:
    pair = [x, _other(b, x)]
    if b.chance(0.4):
        pair.reverse()
    return [b.one(b.pick(("Add", "Sub", "Mul")), *pair)]


@family
def divide(b: Builder, x: Value) -> list[Value]:
    return [
        b.one("Div", x, b.constant(b.pick((np.float32(3), np.abs(b.floats(*x.shape)) + np.float32(0.5)))))
    ]


@family
def power(b: Builder, x: Value) -> list[Value]:
    return [b.one("Pow", x, b.constant(np.float32(b.pick((0, 1, 2, 3)))))]


@family
def modulo(b: Builder, x: Value) -> list[Value]:
    return [b.one("Mod", x, b.constant(np.float32(b.pick((0.7, 1.5, -2)))), fmod=1)]


@family
def variadic(b: Builder, x: Value) -> list[Value]:
    rest = [_other(b, x) for _ in range(b.integer(0, 2))]
    return [b.all(b.pick(("Sum", "Mean", "Max", "Min")), [x, *rest])[0]]


@family
def prelu(b: Builder, x: Value) -> list[Value]:
    return [b.one("PRelu", x, _broadcast(b, x))]


@family
def compare(b: Builder, x: Value) -> list[Value]:
    mask = b.one(b.pick(("Less", "Greater", "LessOrEqual", "GreaterOrEqual")), x, _other(b, x))
    if b.chance(0.4):
        more = b.one("Greater", x, b.constant(np.float32(0.1)))
        mask = b.one(b.pick(("And", "Or", "Xor")), mask, more)
    if b.chance(0.3):
        mask = b.one("Not", mask)
    return [mask] if b.chance(0.3) else [b.one("Where", mask, x, _other(b, x))]


@family
def cast(b: Builder, x: Value) -> list[Value]:
    to = b.pick((INT32, INT64, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT8))
    other = b.one("Cast", x, to=to)
    return [other] if b.chance(0.2) else [b.one("Cast", other, to=FLOAT)]


@family
def matmul(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 0, "MatMul needs an axis")
    columns = b.pick((1, 2, 3, 5))
    weights = b.constant(b.floats(x.shape[-1], columns) * np.float32(0.5))
    if b.chance(0.2) and x.ndim > 1:
        return [b.one("MatMul", b.constant(b.floats(columns, x.shape[-2])), x)]
    return [b.one("MatMul", x, weights)]


@family
def gemm(b: Builder, x: Value) -> list[Value]:
    if x.ndim != 2:
        x = b.one("Flatten", x, axis=min(1, x.ndim))
    by_rows, columns = b.integer(0, 1), b.pick((1, 2, 3, 5))
    weights = b.floats(columns, x.shape[1]) if by_rows else b.floats(x.shape[1], columns)
    bias = [b.constant(b.floats(*b.pick(((columns,), (), (1,), (1, columns)))))] if b.chance(0.7) else []
    alpha = b.pick((1.0, 1.0, 0.5))
    return [
        b.one("Gemm", x, b.constant(weights), *bias, transB=by_rows, alpha=alpha, beta=b.pick((1.0, 2.0)))
    ]


@family
def einsum(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim == 2, "matrices only")
    return [
        b.one("Einsum", x, b.constant(b.floats(3, x.shape[1])), equation=b.pick(("ij,kj->ik", "ij,kj->ki")))
    ]


def _images(b: Builder, x: Value) -> Value:
    """`x` with a batch axis, channels, and one or two axes of pixels."""
    if x.ndim in (3, 4):
        return x
    size = x.array.size
    pixels = b.pick([n for n in (1, 2, 3, 4, 5, 7) if size % n == 0])
    return b.one("Reshape", x, _ints(b, 1, -1, pixels) if b.chance(0.5) else _ints(b, 1, 1, -1, pixels))


def _window(b: Builder, x: Value) -> tuple[list[int], dict[str, Any]]:
    kernel = [b.integer(1, min(3, s)) for s in x.shape[2:]]
    more: dict[str, Any] = {"strides": [b.integer(1, 2) for _ in kernel]}
    if b.chance(0.3):
        more["auto_pad"] = b.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif b.chance(0.5):
        more["pads"] = [b.integer(0, k - 1) for k in kernel * 2]
    return kernel, more


@family
def conv(b: Builder, x: Value) -> list[Value]:
    x = _images(b, x)
    kernel, more = _window(b, x)
    channels = x.shape[1]
    groups = channels if b.chance(0.3) else 1
    made = channels * b.integer(1, 2) if groups > 1 else b.pick((1, 2, 3, 4))
    weights = b.constant(b.floats(made, channels // groups, *kernel))
    bias = [b.constant(b.floats(made))] if b.chance(0.6) else []
    if b.chance(0.2):
        more["dilations"] = [b.integer(1, 2) for _ in kernel]
    return [b.one("Conv", x, weights, *bias, kernel_shape=kernel, group=groups, **more)]


@family
def conv_transpose(b: Builder, x: Value) -> list[Value]:
    x = _images(b, x)
    kernel = [b.integer(1, 3) for _ in x.shape[2:]]
    strides = [b.integer(1, 2) for _ in kernel]
    more: dict[str, Any] = {"strides": strides}
    if b.chance(0.3):
        more["auto_pad"] = b.pick(("SAME_UPPER", "SAME_LOWER"))
    elif b.chance(0.4):
        more["pads"] = [b.integer(0, k - 1) for k in kernel * 2]
    if b.chance(0.3):
        more["output_padding"] = [b.integer(0, s - 1) for s in strides]
    weights = b.constant(b.floats(x.shape[1], b.pick((1, 2, 3)), *kernel))
    return [b.one("ConvTranspose", x, weights, kernel_shape=kernel, **more)]


@family
def pool(b: Builder, x: Value) -> list[Value]:
    x = _images(b, x)
    kernel, more = _window(b, x)
    op = b.pick(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    if op == "AveragePool":
        more["count_include_pad"] = b.integer(0, 1)
    if op != "LpPool" and b.chance(0.3) and "auto_pad" not in more:
        more["ceil_mode"] = 1
    return [b.one(op, x, kernel_shape=kernel, **more)]


@family
def global_pool(b: Builder, x: Value) -> list[Value]:
    return [b.one(b.pick(("GlobalAveragePool", "GlobalMaxPool")), _images(b, x))]


@family
def batch_norm(b: Builder, x: Value) -> list[Value]:
    x = _images(b, x)
    channels = x.shape[1]
    scale, bias, mean = (b.constant(b.floats(channels)) for _ in range(3))
    return [
        b.one("BatchNormalization", x, scale, bias, mean, b.initializer(np.abs(b.floats(channels)) + 0.5))
    ]


@family
def normalize(b: Builder, x: Value) -> list[Value]:
    op = b.pick(
        ("InstanceNormalization", "LayerNormalization", "GroupNormalization", "LpNormalization", "LRN")
    )
    _needs(x.ndim > 1 and x.array.size > 1 and float(np.ptp(x.array)) > 0.1, "nothing to normalize")
    if op == "LpNormalization":
        return [b.one(op, x, axis=b.integer(0, x.ndim - 1), p=b.integer(1, 2))]
    if op == "LayerNormalization":
        axis = b.integer(1, x.ndim - 1)
        shape = x.shape[axis:]
        _needs(float(np.min(np.std(x.array, tuple(range(axis, x.ndim))))) > 0.05, "nearly constant")
        return [b.one(op, x, b.constant(b.floats(*shape)), b.constant(b.floats(*shape)), axis=axis)]
    x = _images(b, x)
    if op == "LRN":
        return [b.one(op, x, size=b.pick((1, 3)), alpha=0.1, bias=1.5)]
    _needs(float(np.min(np.std(x.array, tuple(range(2, x.ndim))))) > 0.05, "nearly constant")
    channels = b.constant(b.floats(x.shape[1])), b.constant(b.floats(x.shape[1]))
    return [b.one(op, x, *channels, **({"num_groups": 1} if op == "GroupNormalization" else {}))]


@family
def softmax(b: Builder, x: Value) -> list[Value]:
    return [b.one(b.pick(("Softmax", "Softmax", "LogSoftmax", "Hardmax")), x, axis=_axis(b, x))]


@family
def reduce(b: Builder, x: Value) -> list[Value]:
    kind = b.pick(_REDUCTIONS)
    if kind == "LogSum":
        x = b.one("Add", b.one("Abs", x), b.constant(np.float32(0.25)))
    axes = [_axis(b, x)] if b.chance(0.8) else []
    keep = {"keepdims": b.integer(0, 1)}
    if kind != "Sum" and b.opset < 18:
        return [b.one("Reduce" + kind, x, **keep, **({"axes": axes} if axes else {}))]
    return [b.one("Reduce" + kind, x, *([_ints(b, *axes)] if axes else []), **keep)]


@family
def arg(b: Builder, x: Value) -> list[Value]:
    found = b.one(
        b.pick(("ArgMax", "ArgMin")),
        x,
        axis=_axis(b, x),
        keepdims=b.integer(0, 1),
        select_last_index=b.integer(0, 1),
    )
    return [b.one("Cast", found, to=FLOAT)] if b.chance(0.5) else [found]


@family
def cumsum(b: Builder, x: Value) -> list[Value]:
    axis = b.initializer(np.array(_axis(b, x), np.int64))
    return [b.one("CumSum", x, axis, exclusive=b.integer(0, 1), reverse=b.integer(0, 1))]


@family
def transpose(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 0, "it needs an axis")
    return [b.one("Transpose", x, perm=[int(n) for n in b.rng.permutation(x.ndim)])]


@family
def reshape(b: Builder, x: Value) -> list[Value]:
    divisor = b.pick([n for n in (1, 2, 3, 4, 5, 7) if x.array.size % n == 0])
    shapes = [(-1,), (divisor, -1), (1, -1, divisor), (-1, 1, divisor), (1, divisor, -1, 1)]
    return [b.one("Reshape", x, _ints(b, *b.pick(shapes)))]


@family
def axes(b: Builder, x: Value) -> list[Value]:
    op = b.pick(("Flatten", "Squeeze", "Unsqueeze"))
    if op == "Flatten":
        return [b.one(op, x, axis=b.integer(0, x.ndim))]
    if op == "Unsqueeze":
        return [b.one(op, x, _ints(b, b.integer(0, x.ndim)))]
    ones = [n for n, s in enumerate(x.shape) if s == 1]
    _needs(bool(ones), "no axis of size 1")
    return [b.one(op, x, _ints(b, b.pick(ones)))]


@family
def slice_(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    size = x.shape[axis]
    start, end, step = b.integer(0, size - 1), size, b.integer(1, 2)
    if b.chance(0.3):
        start, end, step = size - 1, -size - 1, -1
    return [b.one("Slice", x, _ints(b, start), _ints(b, end), _ints(b, axis), _ints(b, step))]


@family
def concat(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    fixed = [s for n, s in enumerate(x.shape) if n != axis % x.ndim]
    fitting = [
        v
        for v in b.values
        if v.ndim == x.ndim and [s for n, s in enumerate(v.shape) if n != axis % x.ndim] == fixed
    ]
    other = b.pick(fitting) if b.chance(0.5) else b.constant(b.floats(*x.shape))
    return [b.all("Concat", [x, other] if b.chance(0.5) else [other, x], axis=axis)[0]]


@family
def split(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    _needs(x.shape[axis] > 1, "nothing to split")
    cut = b.integer(1, x.shape[axis] - 1)
    parts = b.all("Split", [x, _ints(b, cut, x.shape[axis] - cut)], outputs=2, axis=axis)
    return parts if b.chance(0.5) else [b.pick(parts)]


@family
def pad(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 0, "it needs an axis")
    mode = b.pick(("constant", "constant", "constant", "reflect", "edge", "wrap"))
    most = 2 if mode in ("constant", "edge") else max(0, min(x.shape, default=1) - 1)
    pads = [b.integer(-1 if mode == "constant" and b.chance(0.1) else 0, most) for _ in range(2 * x.ndim)]
    value = [b.constant(np.float32(b.pick((0.0, 1.5, -2.0))))] if mode == "constant" and b.chance(0.5) else []
    return [b.one("Pad", x, _ints(b, *pads), *value, mode=mode)]


@family
def tile(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 0, "it needs an axis")
    return [b.one("Tile", x, _ints(b, *(b.integer(1, 2) for _ in x.shape)))]


@family
def expand(b: Builder, x: Value) -> list[Value]:
    return [b.one("Expand", x, _ints(b, *([b.pick((1, 2))] if b.chance(0.5) else []), *x.shape))]


@family
def gather(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    shape = b.pick(((), (1,), (2,), (3,), (2, 2)))
    return [b.one("Gather", x, b.indices(shape, x.shape[axis]), axis=axis)]


@family
def embedding(b: Builder, x: Value) -> list[Value]:
    """Rows of a table, by indices from the host or computed from data."""
    rows = b.pick((2, 3, 5))
    table = b.constant(b.floats(rows, b.pick((1, 3, 4))))
    if b.chance(0.4):
        index = b.one("ArgMax", x, axis=_axis(b, x), keepdims=0)
        index = b.one("Mod", index, b.initializer(np.array(rows, np.int64)))
        return [b.one("Gather", table, index)]
    return [b.one("Gather", table, b.indices(b.pick((1, 2, 3)), rows))]


@family
def gather_elements(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    return [b.one("GatherElements", x, b.indices(x.shape, x.shape[axis], host=b.chance(0.3)), axis=axis)]


@family
def gather_nd(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 1, "rows of rows")
    index = np.stack([b.rng.integers(0, s, 3) for s in x.shape[:2]], 1).astype(np.int64)
    return [b.one("GatherND", x, b.constant(index))]


@family
def scatter(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    if b.chance(0.5) and x.ndim:
        rows = b.initializer(b.rng.permutation(x.shape[0])[:2].astype(np.int64)[:, None])
        return [b.one("ScatterND", x, rows, b.constant(b.floats(rows.shape[0], *x.shape[1:])))]
    row = np.take(x.array, [0], axis)
    where = b.initializer(np.full(row.shape, b.integer(0, x.shape[axis] - 1), np.int64))
    reduction = {"reduction": b.pick(("none", "add", "mul"))} if b.opset >= 16 else {}
    return [b.one("ScatterElements", x, where, b.constant(b.floats(*row.shape)), axis=axis, **reduction)]


@family
def resize(b: Builder, x: Value) -> list[Value]:
    x = _images(b, x)
    mode = b.pick(("nearest", "nearest", "linear", "cubic"))
    how: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": b.pick(
            ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        ),
    }
    if mode == "nearest":
        how["nearest_mode"] = b.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if b.chance(0.5):
        sizes = _ints(b, *x.shape[:2], *(b.pick((1, 2, 3, 5, 6)) for _ in x.shape[2:]))
        return [b.one("Resize", x, None, None, sizes, **how)]
    scales = np.array([1, 1, *(b.pick((0.5, 1, 1.5, 2)) for _ in x.shape[2:])], np.float32)
    return [b.one("Resize", x, None, b.initializer(scales), **how)]


@family
def depth(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim == 4, "four axes")
    if x.shape[1] % 4 == 0:
        return [b.one("DepthToSpace", x, blocksize=2, mode=b.pick(("DCR", "CRD")))]
    _needs(x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0, "even sides")
    return [b.one("SpaceToDepth", x, blocksize=2)]


@family
def topk(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    count = _ints(b, b.integer(1, x.shape[axis]))
    found = b.all("TopK", [x, count], outputs=2, axis=axis, largest=b.integer(0, 1))
    return found if b.chance(0.3) else found[:1]


@family
def one_hot(b: Builder, x: Value) -> list[Value]:
    classes = b.pick((3, 5))
    index = b.indices(b.pick((1, 2, 3)), classes)
    pair = b.constant(np.array([0, 1], np.float32))
    return [b.one("OneHot", index, b.initializer(np.array(classes, np.int64)), pair, axis=b.pick((-1, 0)))]


@family
def trilu(b: Builder, x: Value) -> list[Value]:
    _needs(x.ndim > 1, "matrices")
    return [b.one("Trilu", x, b.initializer(np.array(b.integer(-1, 1), np.int64)), upper=b.integer(0, 1))]


@family
def compress(b: Builder, x: Value) -> list[Value]:
    axis = _axis(b, x)
    mask = b.rng.random(x.shape[axis]) < 0.6
    _needs(bool(mask.any()), "nothing left")
    return [b.one("Compress", x, b.constant(mask), axis=axis)]


@family
def recurrent(b: Builder, x: Value) -> list[Value]:
    if x.ndim != 3:
        divisor = b.pick([n for n in (1, 2, 3, 5) if x.array.size % n == 0])
        x = b.one("Reshape", x, _ints(b, -1, 1, divisor))
    op, gates = b.pick((("RNN", 1), ("GRU", 3), ("LSTM", 4)))
    size = b.integer(1, 3)
    weights = b.constant(b.floats(1, gates * size, x.shape[2])), b.constant(b.floats(1, gates * size, size))
    return [b.one(op, x, *weights, hidden_size=size)]


@family
def shape_of(b: Builder, x: Value) -> list[Value]:
    """Arithmetic of a shape that a compiler can do in advance."""
    size = b.one("Cast", b.one("Shape", x), to=FLOAT)
    last = b.one("Gather", size, b.initializer(np.array(-1, np.int64)))
    return [b.one("Div", x, last)]
