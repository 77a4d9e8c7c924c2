"""Float kernels on simulated hardware with the units of tg2hdl-fp32: golden bits, predicted cycles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tg2hdl_backend import simulate_kernel
from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    KernelIR,
    LoopIR,
    RegisterMeta,
    evaluate,
)
from tg2hdl_lower import CompiledKernel, plan_kernel
from tg2hdl_lower.plan.operations import UnitOp

FP32, I32 = DType.FP32, DType.INT32
CORNERS = [0.0, -0.0, 1.0, -1.5, 3.7, 1e-40, -2e38, 3e38, np.inf, -np.inf, np.nan]
UNARY = ["exp2", "log2", "sin", "sqrt", "reciprocal", "trunc", "neg"]
BINARY = ["add", "sub", "mul", "div", "max", "min", "lt", "eq", "ne"]


def check(kernel, buffers):
    plan = plan_kernel(kernel)
    output, cycles, _ = simulate_kernel(CompiledKernel(plan), buffers, engine="amaranth")
    ((slot, expected),) = evaluate(kernel, buffers).items()
    dtype = kernel.buffer(slot).dtype
    np.testing.assert_array_equal(dtype.array_to_bits(output), dtype.array_to_bits(expected))
    assert cycles == plan.cycles()
    return plan


def elementwise(op, types, result, size):
    i = IRCounter(size, 0, 0)
    loads = [IRBufLoad(n, i, dtype) for n, dtype in enumerate(types, start=1)]
    store = IRBufStore(0, i, IROp(op, result, tuple(loads)), result)
    root = LoopIR.from_items((LoopIR.from_items((*loads, store), counter=i),))
    inputs = (BufferMeta(n, size, dtype, False) for n, dtype in enumerate(types, start=1))
    return KernelIR((BufferMeta(0, size, result, True), *inputs), root, name=op)


@pytest.mark.parametrize("op", UNARY)
def test_unary(op):
    values = np.array(CORNERS, np.float32)
    plan = check(elementwise(op, (FP32,), FP32, values.size), {1: values})
    assert plan.ii == 1


@pytest.mark.parametrize("op", BINARY)
def test_binary(op):
    a, b = np.array(list(itertools.product(CORNERS, repeat=2)), np.float32).T.copy()
    result = DType.BOOL if op in ("lt", "eq", "ne") else FP32
    plan = check(elementwise(op, (FP32, FP32), result, a.size), {1: a, 2: b})
    assert plan.ii == 1


@pytest.mark.parametrize("other", [I32, DType.UINT8, DType.FP16, DType.BF16, DType.BOOL], ids=str)
def test_casts(other):
    values = np.array(CORNERS, np.float32)
    kernel = elementwise("cast", (FP32,), other, values.size)
    check(kernel, {1: values})
    back = elementwise("cast", (other,), FP32, values.size)
    check(back, {1: evaluate(kernel, {1: values})[0]})


def gemv(rows, depth, dtype=FP32):
    i, k = IRCounter(rows, 0, 0), IRCounter(depth, 1, 1)
    place = IROp("add", I32, (IROp("mul", I32, (i, IRConst(depth, I32))), k))
    w, x = IRBufLoad(1, place, dtype), IRBufLoad(2, k, dtype)
    before, after = IRRegLoad(dtype), IRRegLoad(dtype)
    update = IRRegStore(IROp("add", dtype, (before, IROp("mul", dtype, (w, x)))))
    inner = LoopIR.from_items((w, x, before, update), counter=k, axis_type="reduce")
    items = (IRRegStore(IRConst(0.0, dtype)), inner, after, IRBufStore(0, i, after, dtype))
    root = LoopIR.from_items((LoopIR.from_items(items, counter=i),))
    buffers = (BufferMeta(0, rows, dtype, True), BufferMeta(1, rows * depth, dtype, False))
    return KernelIR(
        (*buffers, BufferMeta(2, depth, dtype, False)), root, (RegisterMeta(0, dtype),), name="gemv"
    )


def contents(rows, depth, dtype):
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(size).astype(dtype.numpy()) for n, size in ((1, rows * depth), (2, depth))}


@pytest.mark.parametrize("dtype", [FP32, DType.FP16, DType.BF16], ids=str)
@pytest.mark.parametrize("rows", [13, 16])
def test_outputs_take_turns_in_the_adder(rows, dtype):
    plan = check(gemv(rows, 9, dtype), contents(rows, 9, dtype))
    assert plan.ii == 1
    assert plan.cycles() < 1.6 * rows * 9 + 60


@pytest.mark.parametrize("rows", [2, 8, 9, 10, 12, 13, 14, 16, 24])
def test_sums_go_round_in_a_delay_line(rows):
    """A wire, a few registers or a memory, depending on the slots left after the adder; idle slots do no harm."""
    plan = check(gemv(rows, 5), contents(rows, 5, FP32))
    assert plan.ii == 1
    (line,) = plan.accumulators.values()
    turns = line.steps
    (add,) = (n for n in plan.all(UnitOp) if n.op == "add")
    assert turns >= add.latency + (rows not in (2, 8))
    assert plan.steps() == turns * 5 * -(-rows // turns)


def test_few_outputs_take_turns_at_the_interval_of_the_ports():
    """Four lanes write four words, one in a cycle: four outputs that take turns then hide the latency of the adder."""
    kernel = gemv(16, 6, DType.FP16)
    data = contents(16, 6, DType.FP16)
    plan = plan_kernel(kernel, lanes={0: 4})
    output, cycles, _ = simulate_kernel(CompiledKernel(plan), data, engine="amaranth")
    ((_, expected),) = evaluate(kernel, data).items()
    np.testing.assert_array_equal(output.view(np.uint16), expected.view(np.uint16))
    assert cycles == plan.cycles()
    assert (plan.ii, plan.steps()) == (4, 4 * 6)


def test_single_output_adds_in_order():
    """One sum cannot be interleaved: its II is the latency of the adder, its bits are those of the serial sum."""
    plan = check(gemv(1, 12), contents(1, 12, FP32))
    (add,) = (n for n in plan.all(UnitOp) if n.op == "add")
    assert plan.ii == add.latency
    assert "interleaved outputs" not in plan.format()
