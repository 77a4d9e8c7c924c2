"""Ops against tinygrad's interpreter, where it is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tg2hdl_ir import DType, registry, resolve

pytest.importorskip("tinygrad")
from tinygrad.dtype import dtypes, truncate
from tinygrad.uop.ops import Ops, exec_alu

NAMES = {
    "bool": "bool",
    **{f"{sign}int{n}": f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8_e4m3": "fp8e4m3",
    "fp8_e5m2": "fp8e5m2",
}
TYPES = {DType.from_name(ours): getattr(dtypes, theirs) for ours, theirs in NAMES.items()}
BINARY = {
    "add": "ADD",
    "mul": "MUL",
    "sub": "SUB",
    "max": "MAX",
    "xor": "XOR",
    "and": "AND",
    "or": "OR",
    "lt": "CMPLT",
    "ne": "CMPNE",
    "eq": "CMPEQ",
    "div": "CDIV",
    "mod": "CMOD",
}
UNARY = {
    "neg": "NEG",
    "sqrt": "SQRT",
    "reciprocal": "RECIPROCAL",
    "exp2": "EXP2",
    "log2": "LOG2",
    "sin": "SIN",
}


def evaluation_of(op: str):
    """Evaluation of the op itself, whatever units are installed."""
    return resolve(registry().op(op).evaluate)


def samples(dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(7)
    random = dtype.bits_to_array(rng.integers(0, 1 << dtype.bit_width, 60, dtype=np.uint64, endpoint=False))
    if not dtype.is_float:
        edges = [dtype.min_value, dtype.max_value, 0, 1, max(dtype.min_value, -1)]
        return np.concatenate([np.array(edges, dtype.numpy()), random])
    plain = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -7.0, *rng.normal(0, 4, 20)])
    random = random[np.isfinite(random)] if dtype.name == "fp8_e4m3" else random
    extra = [math.inf, -math.inf, math.nan] if dtype.name != "fp8_e4m3" else [math.nan]
    return np.concatenate([plain.astype(dtype.numpy()), np.array(extra).astype(dtype.numpy()), random])


def python(dtype: DType, value: object) -> object:
    return float(value) if dtype.is_float else bool(value) if dtype.is_bool else int(value)


def same(dtype: DType, got: object, wanted: object) -> bool:
    if not dtype.is_float:
        return int(got) == int(wanted)
    a, b = float(got), float(wanted)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, dtype):
    rule = registry().op(op).result_type
    result = rule((dtype, dtype))
    if result is None or (dtype.is_float and op == "div"):
        pytest.skip("tinygrad has no such op")
    values = samples(dtype)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    got = evaluation_of(op)((a, b), (dtype, dtype), result)
    ops = getattr(Ops, BINARY[op])
    for x, y, z in zip(a, b, got, strict=True):
        wanted = exec_alu(ops, TYPES[result], (python(dtype, x), python(dtype, y)))
        assert same(result, z, wanted), (x, y, z, wanted)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, dtype):
    if registry().op(op).result_type((dtype,)) is None:
        pytest.skip("not an op on this type")
    values = samples(dtype)
    got = evaluation_of(op)((values,), (dtype,), dtype)
    exact = op == "neg" or op in ("sqrt", "reciprocal")
    for x, y in zip(values, got, strict=True):
        wanted = exec_alu(getattr(Ops, UNARY[op]), TYPES[dtype], (python(dtype, x),))
        if exact or dtype.bit_width < 64 or not math.isfinite(float(wanted)):
            assert same(dtype, y, wanted), (x, y, wanted)
        else:
            assert math.isclose(float(y), float(wanted), rel_tol=2**-51), (x, y, wanted)


@pytest.mark.parametrize("dtype", [t for t in TYPES if t.is_int], ids=str)
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts(op, dtype):
    values = samples(dtype)
    amounts = np.array([0, 1, 3, 7, 8, 31, 32, 63, 64, 100], dtype.numpy())
    a, b = np.repeat(values, amounts.size), np.tile(amounts, values.size)
    got = evaluation_of(op)((a, b), (dtype, dtype), dtype)
    ops = {"shl": Ops.SHL, "shr": Ops.SHR}[op]
    for x, y, z in zip(a, b, got, strict=True):
        assert int(z) == exec_alu(ops, TYPES[dtype], (int(x), int(y))), (x, y, z)


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("result", TYPES, ids=str)
def test_casts(source, result):
    values = samples(source)
    if source.is_float and result.is_int:
        values = values[np.isfinite(values)]  # tinygrad raises on the others
    got = evaluation_of("cast")((values,), (source,), result)
    target = TYPES[result]
    twice = result.is_float and source.bit_width > 24 and not (source.is_float and source.bit_width == 32)
    for x, y in zip(values, got, strict=True):
        wanted = truncate[target](target.const(python(source, x)))
        if twice and result.bit_width in (16, 32) and not same(result, y, wanted):
            # tinygrad rounds to fp64 or fp32 first; at most the last bit differs.
            pattern, other = (int(result.array_to_bits(np.array(v, result.numpy()))) for v in (y, wanted))
            assert abs(pattern - other) == 1, (x, y, wanted)
        else:
            assert same(result, y, wanted), (x, y, wanted)
