"""Elementwise programs of every operation and type, and casts between all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tinygrad import Tensor, dtypes

from tg2hdl_backend.testing.registry import EXTREMES, SPECIAL, add, f32

__all__: list[str] = []

UNARY_FLOAT = {
    "relu": lambda x: x.relu(),
    "gelu": lambda x: x.gelu(),
    "silu": lambda x: x.silu(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: x.exp2(),
    "log": lambda x: x.abs().log(),
    "log1p": lambda x: (x.abs() + 1).log(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: x.abs().rsqrt(),
    "reciprocal": lambda x: x.reciprocal(),
    "pow3": lambda x: x**3,
    "pow_float": lambda x: x.abs() ** 1.7,
    "abs": lambda x: x.abs(),
    "neg": lambda x: -x,
    "clip": lambda x: x.clip(-0.5, 0.7),
    "where": lambda x: (x > 0).where(x, x * 2),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
    "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "isnan": lambda x: x.isnan(),
    "isinf": lambda x: x.isinf(),
    "sign": lambda x: x.sign(),
    "square": lambda x: x.square(),
    "elu": lambda x: x.elu(),
    "softplus": lambda x: x.softplus(),
    "mish": lambda x: x.mish(),
    "hardswish": lambda x: x.hardswish(),
    "leaky_relu": lambda x: x.leaky_relu(),
    "relu6": lambda x: x.relu6(),
    "erf": lambda x: x.erf(),
    "logit_chain": lambda x: (x.sigmoid() * 0.9 + 0.05).log(),
}
for _name, _function in UNARY_FLOAT.items():
    add(f"unary_{_name}", _function, f32(3, 5))
    if _name not in ("sin", "cos", "pow_float", "pow3", "mish", "softplus", "gelu", "erf"):
        add(f"special_{_name}", _function, SPECIAL)

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": lambda a, b: a.maximum(b),
    "minimum": lambda a, b: a.minimum(b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
}
NUMERIC = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
NUMERIC += ["float16", "bfloat16", "fp8e4m3", "fp8e5m2"]


def _operands(dtype: str) -> tuple[Tensor | np.ndarray, ...]:
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        edge = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 3, 100]
        other = [1, 2, 0, info.max, info.max, info.min, 100 % info.max, 7]
        return np.array(edge, dtype), np.array(other, dtype)
    if dtype.startswith("float"):
        return SPECIAL.astype(dtype), SPECIAL[::-1].astype(dtype)
    storage = {"bfloat16": "bfloat16", "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}[dtype]
    values = np.array([0, 1, -1.5, 2.5, -3, 0.375, 448, 100, -0.0625, 17], np.float32)
    return values.astype(getattr(ml_dtypes, storage)), values[::-1].astype(getattr(ml_dtypes, storage))


def _quiet_operands(dtype: str) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        return _operands(dtype)


for _dtype in NUMERIC:
    for _name, _binary in BINARY.items():
        add(f"binary_{_name}_{_dtype}", _binary, *_quiet_operands(_dtype))
for _dtype in NUMERIC[:8]:
    _a, _b = _quiet_operands(_dtype)
    add(f"int_and_or_xor_{_dtype}", lambda a, b: (a & b) + (a | b) + (a ^ b), _a, _b)
    add(f"int_floordiv_{_dtype}", lambda a, b: a // b, _a, np.where(_b == 0, 3, _b).astype(_dtype))
    add(f"int_mod_{_dtype}", lambda a, b: a % b, _a, np.where(_b == 0, 3, _b).astype(_dtype))
    add(
        f"int_truncdiv_{_dtype}",
        lambda a, b: a.div(b, rounding_mode="trunc"),
        _a,
        np.where(_b == 0, 3, _b).astype(_dtype),
    )
    add(f"int_div_by_const_{_dtype}", lambda a: a // 7 + a % 5, _a)
    add(f"int_shift_const_{_dtype}", lambda a: (a << 3) ^ (a >> 2), _a)
    add(f"int_sum_{_dtype}", lambda a: a.sum(), _a)
    add(f"int_prod_{_dtype}", lambda a: a.prod(), _a)
    add(f"int_max_min_{_dtype}", lambda a: a.max() - a.min(), _a)
add("int_div_zero", lambda a, b: a // b, EXTREMES, EXTREMES[::-1].copy())
add("int_mod_zero", lambda a, b: a % b, EXTREMES, EXTREMES[::-1].copy())
add(
    "uint_shift_variable",
    lambda a, b: a.lshift(b) if False else a * 2**3,
    EXTREMES.astype(np.uint32),
    EXTREMES,
)
add(
    "bool_logic",
    lambda a, b: (a & b) ^ (a | ~b),
    np.array([True, False, True, False]),
    np.array([True, True, False, False]),
)
add("bool_sum", lambda a: a.sum(), np.array([True, False, True, True]))
add("bool_any_all", lambda a: (a.any(), a.all()), np.array([[True, False], [True, True]]))

CASTS = ["bool", *NUMERIC]
for _source in CASTS:
    _values = (
        np.array([True, False])
        if _source == "bool"
        else (
            np.array([0, 1, 2, 100, 127, 3], _source) if not _source.startswith(("fl", "bf", "fp")) else None
        )
    )
    if _values is None:
        _values = np.array([0, 1, -1, 2.75, -3.5, 100.25], np.float32)

    def _cast_all(x: Tensor, source: str = _source) -> list[Tensor]:
        x = x.cast(source)
        return [x.cast(t).cast("float32" if t.startswith(("bf", "fp8")) else t) for t in CASTS if t != source]

    add(f"casts_from_{_source}", _cast_all, _values)
add(
    "cast_int_narrowing",
    lambda x: [x.cast(t) for t in ("int8", "uint8", "int16", "uint16", "bool")],
    EXTREMES,
)
add("cast_float_to_int_in_range", lambda x: [x.cast(t) for t in ("int32", "int16", "int64")], f32(9) * 100)
add("bitcast", lambda x: x.bitcast(dtypes.uint32), SPECIAL)
add("bitcast_back", lambda x: x.bitcast(dtypes.float32), EXTREMES)
