"""Every integer and bool op on every type: its hardware against the golden evaluation, on corner values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tg2hdl_ir import BufferMeta, DType, IRBufLoad, IRBufStore, IRConst, IRCounter, IROp, KernelIR, LoopIR
from tg2hdl_ir.ops import BUILTIN_OPS, result_types
from tg2hdl_lower import plan_kernel
from tg2hdl_lower.ops.arithmetic import signed_digits
from tg2hdl_lower.plan.operations import Operation

INTEGERS = [t for t in DType.named() if t.is_int]
PATTERNS = [DType.FP16, DType.FP32, DType.FP64]
TYPES = [DType.BOOL, *INTEGERS]
SKIPPED = {"exp2", "log2", "sin", "sqrt", "reciprocal", "trunc"}


def corners(dtype):
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        return [0.0, -0.0, 1.0, -2.5, float("inf"), float("nan")]
    low, high = dtype.min_value, dtype.max_value
    near = (low, low + 1, high, dtype.wrap(0x5A5A5A5A5A5A5A5A), dtype.wrap(0xA5A5A5A5A5A5A5A5))
    return sorted({dtype.wrap(v) for v in (*near, 0, 1, 3, 8, 31, 32, dtype.bit_width, -1, -7)})


def elementwise(ops, types, size, constants=()):
    """``out_n[i] = op_n(in0[i], in1[i], ...)`` for all (op, result); operands in `constants` are a fixed number."""
    counter = IRCounter(size, 0, 0)
    items, operands = [], []
    buffers = [BufferMeta(n, size, result, True) for n, (_, result) in enumerate(ops)]
    for number, dtype in enumerate(types):
        if number in dict(constants):
            operands.append(IRConst(dict(constants)[number], dtype))
            continue
        buffers.append(BufferMeta(len(buffers), size, dtype, False))
        load = IRBufLoad(buffers[-1].idx, counter, dtype)
        items.append(load)
        operands.append(load)
    for n, (op, result) in enumerate(ops):
        items.append(IRBufStore(n, counter, IROp(op, result, tuple(operands)), result))
    root = LoopIR.from_items((LoopIR.from_items(tuple(items), counter=counter),))
    return KernelIR(tuple(buffers), root, name="_".join(map(str, types)))


def combinations(types):
    rows = list(itertools.product(*(corners(t) for t in types)))
    rows = rows if len(types) < 3 else rows[:: max(1, len(rows) // 60)]
    return [
        np.array(column, dtype=t.numpy()) for column, t in zip(zip(*rows, strict=True), types, strict=True)
    ]


def signatures(op):
    if op.arity == 1:
        kinds = [*TYPES, *PATTERNS] if op.name == "bitcast" else TYPES
        return [(t,) for t in kinds]
    if op.name == "where":
        return [(DType.BOOL, t, t) for t in TYPES]
    if op.name in ("shl", "shr"):
        return [(t, u) for t in INTEGERS for u in (t, DType.UINT8, DType.INT32)]
    return [(t,) * op.arity for t in TYPES]


def cases():
    """Ops with their result, on integers and bool, by operand types."""
    grouped = {}
    for op in (op for op in BUILTIN_OPS if op.name not in SKIPPED):
        for types in dict.fromkeys(signatures(op)):
            allowed = [t for t in DType.named() if t in result_types(op, types)]
            numeric = [t for t in allowed if op.name == "bitcast" or not t.is_float]
            grouped.setdefault(types, []).extend((op.name, result) for result in numeric)
    return {types: ops for types, ops in grouped.items() if ops}


@pytest.mark.parametrize("types", cases(), ids=lambda types: "-".join(map(str, types)))
def test_all_ops_on(types, same_as_golden):
    ops = cases()[types]
    operands = combinations(types)
    kernel = elementwise(ops, types, operands[0].size)
    same_as_golden(kernel, plan_kernel(kernel), dict(enumerate(operands, start=len(ops))))


def test_every_op_has_a_case():
    assert {op for ops in cases().values() for op, _ in ops} == {op.name for op in BUILTIN_OPS} - SKIPPED


DIVISORS = (1, 2, 3, 5, 7, 8, 10, 60, 127, -1, -2, -3, -7, -128)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT32, DType.UINT32, DType.INT64], ids=str)
def test_division_by_constants(dtype, same_as_golden):
    low, high = dtype.min_value, dtype.max_value
    rng = np.random.default_rng(1)
    values = np.array([*corners(dtype), *rng.integers(low, high, 8, dtype.numpy())], dtype.numpy())
    counter = IRCounter(values.size, 0, 0)
    load = IRBufLoad(0, counter, dtype)
    items, buffers = [load], [BufferMeta(0, values.size, dtype, False)]
    for divisor in (*(d for d in DIVISORS if low <= d), 0, high, low):
        for op in ("div", "mod"):
            value = IROp(op, dtype, (load, IRConst(divisor, dtype)))
            items.append(IRBufStore(len(buffers), counter, value, dtype))
            buffers.append(BufferMeta(len(buffers), values.size, dtype, True))
    kernel = KernelIR(tuple(buffers), LoopIR.from_items((LoopIR.from_items(tuple(items), counter=counter),)))
    plan = plan_kernel(kernel)
    same_as_golden(kernel, plan, {0: values})
    if dtype.bit_width <= 32:
        assert not [n for n in plan.all(Operation) if n.op in ("div", "mod")]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=str)
@pytest.mark.parametrize("position", [0, 1])
def test_comparisons_with_constants(dtype, position, same_as_golden):
    """Numbers next to powers of two have hardware of their own; each with all of them and one between any two."""
    near = sorted({dtype.wrap(sign * 2**n + d) for n in range(8) for sign in (1, -1) for d in (-1, 0, 1)})
    values = np.array(sorted({*near, *((a + b) // 2 for a, b in itertools.pairwise(near))}), dtype.numpy())
    counter = IRCounter(values.size, 0, 0)
    load = IRBufLoad(0, counter, dtype)
    items, buffers = [load], [BufferMeta(0, values.size, dtype, False)]
    for constant in near:
        pair = (IRConst(constant, dtype), load) if position == 0 else (load, IRConst(constant, dtype))
        for op, result in (("lt", DType.BOOL), ("min", dtype), ("max", dtype)):
            items.append(IRBufStore(len(buffers), counter, IROp(op, result, pair), result))
            buffers.append(BufferMeta(len(buffers), values.size, result, True))
    kernel = KernelIR(tuple(buffers), LoopIR.from_items((LoopIR.from_items(tuple(items), counter=counter),)))
    same_as_golden(kernel, plan_kernel(kernel), {0: values})


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("factor", [0, 1, -1, 2, -8, 7, 77, -77, 1234567, -0x55555555, 2**62 - 5])
def test_products_by_a_constant_are_additions(dtype, factor, same_as_golden):
    constant = dtype.wrap(factor)
    values = np.array(corners(dtype), dtype.numpy())
    kernel = elementwise([("mul", dtype)], (dtype, dtype), len(values), ((1, constant),))
    plan = plan_kernel(kernel)
    assert plan.multipliers == 0
    same_as_golden(kernel, plan, {1: values})


def test_a_constant_has_few_signed_digits():
    for value in (*range(-300, 300), 0x55555555, -(2**63), 2**64 - 1):
        digits = signed_digits(value)
        assert sum(sign << place for sign, place in digits) == value
        assert len(digits) <= (abs(value).bit_length() + 2) // 2
        places = [place for _, place in digits]
        assert all(b - a > 1 for a, b in itertools.pairwise(places))
