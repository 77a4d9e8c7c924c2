"""Random programs: a hypothesis strategy that composes operations, types, shapes, views and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from tinygrad import Tensor, dtypes

__all__ = ["Recipe", "recipes"]

_SIZES = st.sampled_from([1, 2, 3, 4, 5, 7])
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64", "bfloat16")
_TYPES = (*_INTEGERS, "bool", *_FLOATS)
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "lt", "eq", "ne")
_INTEGER_ONLY = ("and", "or", "xor", "floordiv", "mod", "shl", "shr")
_FLOAT_UNARY = ("relu", "sqrt", "reciprocal", "exp2", "log2", "trunc", "square", "sigmoid", "abs", "neg")
_REDUCTIONS = ("sum", "max", "min", "mean", "prod", "argmax", "cumsum", "softmax")
_VIEWS = ("flip", "permute", "pad", "shrink", "flatten", "expand", "stride", "roll", "cat")


@dataclass(frozen=True)
class Recipe:
    """A program as data, so that a failing one can be copied into a test.

    Parameters
    ----------
    inputs : tuple of (shape, dtype)
    steps : tuple of (operation, *arguments)
        Each adds a value; a number names an earlier value, counted modulo the number of values.
    seed : int
        Of the contents of the inputs.
    """

    inputs: tuple[tuple[tuple[int, ...], str], ...]
    steps: tuple[tuple[Any, ...], ...]
    seed: int = 0

    def arrays(self) -> list[npt.NDArray[Any]]:
        """Contents of the inputs: small numbers, extremes and special values."""
        rng = np.random.default_rng(self.seed)
        return [_contents(rng, shape, dtype) for shape, dtype in self.inputs]

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Build the program."""
        values = list(inputs)
        for operation, *arguments in self.steps:
            values.append(_apply(operation, values, arguments))
        return values[-1].contiguous()


@st.composite
def recipes(draw: st.DrawFn, max_steps: int = 6, types: tuple[str, ...] = _TYPES) -> Recipe:
    """Strategy of programs.

    Parameters
    ----------
    types : tuple of str
        Types of inputs and casts; in addition to those of tinygrad's interpreter everywhere, ``float16``, ``fp8e4m3``
        and ``fp8e5m2``.
    """
    shapes = st.lists(_SIZES, min_size=1, max_size=3).map(tuple)
    inputs = draw(st.lists(st.tuples(shapes, st.sampled_from(types)), min_size=1, max_size=3))
    index = st.integers(0, 9)
    floats = any(not t.startswith(("int", "uint", "bool")) for t in types)
    step = st.one_of(
        st.tuples(st.sampled_from(_BINARY), index, index),
        st.tuples(st.sampled_from(_INTEGER_ONLY), index, index),
        st.tuples(
            st.sampled_from(_REDUCTIONS if floats else _REDUCTIONS[:3] + _REDUCTIONS[5:7]), index, index
        ),
        st.tuples(st.sampled_from(_VIEWS), index, index),
        st.tuples(st.just("cast"), index, st.sampled_from(types)),
        st.tuples(st.just("where"), index, index, index),
        st.tuples(st.just("matmul"), index, index),
        st.tuples(st.just("gather"), index, index),
        st.tuples(st.just("contiguous"), index),
        *([st.tuples(st.sampled_from(_FLOAT_UNARY), index)] if floats else []),
    )
    steps = draw(st.lists(step, min_size=1, max_size=max_steps))
    return Recipe(tuple(inputs), tuple(steps), draw(st.integers(0, 99)))


def _contents(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in _INTEGERS:
        info = np.iinfo(dtype)
        small = rng.integers(0 if info.min == 0 else -9, 9, shape)
        extreme = np.array([info.min, info.max], dtype)[rng.integers(0, 2, shape)]
        return np.where(rng.random(shape) < 0.2, extreme, small.astype(dtype)).astype(dtype)
    normal = rng.standard_normal(shape) * 4
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e30])[rng.integers(0, 7, shape)]
    mixed = np.where(rng.random(shape) < 0.1, special, normal)
    name = {"fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}.get(dtype, dtype)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return mixed.astype(getattr(ml_dtypes, name))
    return mixed.astype(name)


def _apply(operation: str, values: list[Tensor], arguments: list[Any]) -> Tensor:
    x = values[arguments[0] % len(values)]
    number = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], int) else 0
    axis = number % x.ndim if x.ndim else 0
    if operation in _BINARY or operation in _INTEGER_ONLY:
        a, b = _pair(x, values[number % len(values)])
        return _binary(operation, a, b)
    if operation in _FLOAT_UNARY:
        return _unary(operation, x if dtypes.is_float(x.dtype) else x.cast(dtypes.float32))
    if operation in _REDUCTIONS:
        return _reduce(operation, x, axis)
    if operation in _VIEWS:
        return _view(operation, x, axis, number)
    if operation == "cast":
        converted: Tensor = x.cast(arguments[1])
        return converted
    if operation == "where":
        a, b = _pair(values[number % len(values)], values[arguments[2] % len(values)])
        condition = _fit(x, a.shape) > 0
        return condition.where(a, b)
    if operation == "matmul":
        return _matmul(x, values[number % len(values)])
    if operation == "gather":
        # Without a buffer between, tinygrad takes a value that was ever unsigned for positive and drops the clip.
        index = _fit(values[number % len(values)], (3,)).cast(dtypes.int32).contiguous()
        gathered: Tensor = x.flatten()[index.clip(0, x.numel() - 1)]
        return gathered
    assert operation == "contiguous", operation
    stored: Tensor = x.contiguous()
    return stored


def _pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both of one type and shape."""
    if a.dtype != b.dtype:
        b = b.cast(a.dtype)
    return a, _fit(b, a.shape)


def _fit(x: Tensor, shape: Sequence[Any]) -> Tensor:
    """Elements of `x` in another shape: repeated or cut."""
    wanted = int(np.prod(shape))
    flat: Tensor = x.flatten()
    if flat.shape[0] < wanted:
        flat = flat.repeat(-(-wanted // flat.shape[0]))
    return flat.shrink(((0, wanted),)).reshape(shape)


def _binary(operation: str, a: Tensor, b: Tensor) -> Tensor:
    if operation in _INTEGER_ONLY and dtypes.is_float(a.dtype):
        a, b = a.isnan(), b.isnan()
    elif operation in ("floordiv", "mod", "shl", "shr", "sub") and a.dtype == dtypes.bool:
        a, b = a.cast(dtypes.int32), b.cast(dtypes.int32)
    functions = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "maximum": lambda: a.maximum(b),
        "minimum": lambda: a.minimum(b),
        "lt": lambda: a < b,
        "eq": lambda: a == b,
        "ne": lambda: a != b,
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "floordiv": lambda: (
            a.cast(dtypes.int32) // 3 if a.dtype == dtypes.bool else a // (b == 0).where(1, b)
        ),
        "mod": lambda: a.cast(dtypes.int32) % 3 if a.dtype == dtypes.bool else a % (b == 0).where(1, b),
        "shl": lambda: (a if a.dtype != dtypes.bool else a.cast(dtypes.int32)) << 2,
        "shr": lambda: (a if a.dtype != dtypes.bool else a.cast(dtypes.int32)) >> 1,
    }
    return functions[operation]()


def _unary(operation: str, x: Tensor) -> Tensor:
    if operation in ("exp2", "log2", "sigmoid") and x.dtype == dtypes.float64:
        x = x.cast(dtypes.float32)
    if operation in ("sqrt", "log2"):
        x = x.abs()
    return -x if operation == "neg" else getattr(x, operation)()


def _reduce(operation: str, x: Tensor, axis: int) -> Tensor:
    if operation in ("mean", "softmax") and not dtypes.is_float(x.dtype):
        x = x.cast(dtypes.float32)
    if operation == "softmax" and x.dtype == dtypes.float64:
        x = x.cast(dtypes.float32)
    if not x.ndim:
        x = x.reshape(1)
    if operation == "prod":
        x = x.clip(-2, 2) if x.dtype != dtypes.bool else x
    reduced: Tensor = getattr(x, operation)(axis)
    return reduced


def _view(operation: str, x: Tensor, axis: int, number: int) -> Tensor:
    if not x.ndim:
        x = x.reshape(1)
    size = int(x.shape[axis])
    everything = [(0, int(s)) for s in x.shape]
    if operation == "flip":
        return x.flip(axis)
    if operation == "permute":
        return x.permute(tuple(reversed(range(x.ndim))))
    if operation == "pad":
        return x.pad(tuple((number % 2, 1) if n == axis else (0, 0) for n in range(x.ndim)))
    if operation == "shrink":
        everything[axis] = (min(number % 3, size - 1), size)
        return x.shrink(tuple(everything))
    if operation == "flatten":
        return x.flatten()
    if operation == "expand":
        return x.unsqueeze(0).expand(2, *x.shape) if x.ndim < 4 and x.numel() < 200 else x
    if operation == "stride":
        return x[tuple(slice(None, None, 2) if n == axis else slice(None) for n in range(x.ndim))]
    if operation == "roll":
        return x.roll(1 + number % 3, axis)
    return x.cat(x.flip(axis), dim=axis) if x.numel() < 200 else x


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == dtypes.bool:
        a = a.cast(dtypes.int32)
    if b.dtype != a.dtype:
        b = b.cast(a.dtype)
    rows = a.reshape(-1, a.shape[-1]) if a.ndim else a.reshape(1, 1)
    return rows @ _fit(b, (int(rows.shape[1]), 3))
