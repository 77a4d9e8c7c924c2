"""Transforms of the loop tree on random kernels: results stay, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir import (
    BufferMeta,
    DType,
    InputError,
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
    parse_kernel,
    verify,
)
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.clearing import clear_with_last
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.initial import choose_initial_late
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.partial_sums import find_sum, split_sum
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.testing.strategies import kernels

COMMON = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def same_results(before, after, buffers, variables=None):
    expected = evaluate(before, buffers, variables)
    actual = evaluate(after, buffers, variables)
    for idx, array in expected.items():
        dtype = before.buffer(idx).dtype
        found = actual[idx] if idx in actual else buffers[idx]
        assert np.array_equal(dtype.array_to_bits(found), dtype.array_to_bits(array)), after.format()


def counters(kernel):
    return {loop.counter.axis: loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None}


@COMMON
@given(case=kernels())
def test_flatten_forward_balance(case):
    kernel, buffers, variables = case
    kernel = canonicalize(kernel)
    flat = verify(flatten(kernel))
    assert all(
        not loop.loops or all(isinstance(i, LoopIR) for i in loop.items) for loop in flat.loop_tree.walk()
    )
    same_results(kernel, flat, buffers, variables)
    forwarded = verify(forward_registers(flat))
    same_results(kernel, forwarded, buffers, variables)
    balanced = verify(balance(forwarded))
    same_results(kernel, balanced, buffers, variables)
    same_results(kernel, verify(choose_initial_late(balanced)), buffers, variables)
    same_results(kernel, verify(clear_with_last(balanced)), buffers, variables)


@COMMON
@given(case=kernels(), data=st.data())
def test_lanes(case, data):
    kernel, buffers, variables = case
    kernel = canonicalize(kernel)
    info = analyze_axes(kernel)
    legal = [
        c
        for c in counters(kernel).values()
        if c.axis in info.independent | info.reducible | info.scanned
        and isinstance(c.bound, int)
        and c.bound > 1
    ]
    assume(legal)
    lanes = {c.axis: data.draw(st.integers(1, c.bound), f"lanes of i{c.axis}") for c in legal}
    unrolled = unroll(flatten(kernel), info, lanes)
    same_results(kernel, unrolled, buffers, variables)
    same_results(kernel, balance(forward_registers(unrolled)), buffers, variables)


@COMMON
@given(case=kernels(), data=st.data())
def test_turns(case, data):
    kernel, buffers, variables = case
    kernel = canonicalize(kernel)
    info = analyze_axes(kernel)
    legal = [c for c in counters(kernel).values() if c.axis in info.independent and isinstance(c.bound, int)]
    assume(legal)
    counter = data.draw(st.sampled_from(legal))
    tile = data.draw(st.integers(2, counter.bound + 1))
    turned = interleave(flatten(kernel), info, counter.axis, tile)
    same_results(kernel, turned, buffers, variables)
    same_results(kernel, forward_registers(turned), buffers, variables)


@COMMON
@given(case=kernels(), data=st.data())
def test_split(case, data):
    kernel, buffers, variables = case
    kernel = canonicalize(kernel)
    legal = [c for c in counters(kernel).values() if isinstance(c.bound, int)]
    assume(legal)
    counter = data.draw(st.sampled_from(legal))
    inner = data.draw(st.sampled_from([n for n in range(1, counter.bound + 1) if counter.bound % n == 0]))
    same_results(kernel, verify(split_axis(kernel, counter.axis, inner)), buffers, variables)


def matmul(dtype, rows, columns, depth):
    """``out[i, j] = bias[j] + sum_k a[i, k] * b[k, j]``."""
    i, j, k = (IRCounter(n, at, at) for at, n in enumerate((rows, columns, depth)))

    def linear(*terms):
        value = IRConst(0, DType.INT32)
        for counter, stride in terms:
            step = IROp("mul", DType.INT32, (counter, IRConst(stride, DType.INT32)))
            value = IROp("add", DType.INT32, (value, step))
        return value

    bias = IRBufLoad(3, j, dtype)
    a, b = IRBufLoad(0, linear((i, depth), (k, 1)), dtype), IRBufLoad(1, linear((k, columns), (j, 1)), dtype)
    before, result = IRRegLoad(dtype), IRRegLoad(dtype)
    total = IROp("add", dtype, (before, IROp("mul", dtype, (a, b))))
    inner = LoopIR.from_items((a, b, before, IRRegStore(total)), counter=k, axis_type="reduce")
    store = IRBufStore(2, linear((i, columns), (j, 1)), result, dtype)
    middle = LoopIR.from_items((bias, IRRegStore(bias), inner, result, store), counter=j)
    root = LoopIR.from_items((LoopIR.from_items((middle,), counter=i),))
    sizes = (rows * depth, depth * columns, rows * columns, columns)
    buffers = tuple(BufferMeta(n, size, dtype, n == 2) for n, size in enumerate(sizes))
    return KernelIR(buffers, root, (RegisterMeta(0, dtype),), name="matmul")


def contents(kernel):
    rng = np.random.default_rng(0)
    return {
        b.idx: (rng.standard_normal(b.depth) * 50).astype(b.dtype.numpy())
        for b in kernel.buffers
        if not b.is_output
    }


@pytest.mark.parametrize("lanes", [{0: 2}, {1: 3}, {2: 4}, {0: 3, 1: 2}, {0: 2, 1: 5, 2: 7}, {1: 4, 2: 3}])
def test_lanes_of_an_integer_matmul(lanes):
    kernel = matmul(DType.INT16, 3, 5, 7)
    info = analyze_axes(kernel)
    assert (info.independent, info.reducible) == ({0, 1}, {2})
    unrolled = unroll(flatten(kernel), info, lanes)
    same_results(kernel, balance(forward_registers(unrolled)), contents(kernel))
    steps = {axis: -(-bound // lanes.get(axis, 1)) for axis, bound in enumerate((3, 5, 7))}
    assert {c.axis: c.bound for c in counters(unrolled).values()} == {a: n for a, n in steps.items() if n > 1}


@pytest.mark.parametrize(("axis", "tile"), [(0, 2), (0, 3), (1, 2), (1, 4), (1, 5)])
def test_turns_of_a_float_matmul_keep_the_order_of_each_sum(axis, tile):
    kernel = matmul(DType.FP32, 3, 5, 7)
    info = analyze_axes(kernel)
    assert (info.independent, info.reducible, info.floats) == ({0, 1}, frozenset(), {2})
    turned = interleave(flatten(kernel), info, axis, tile)
    assert turned.registers[0].size == tile
    same_results(kernel, forward_registers(turned), contents(kernel))


def test_float_reduction_cannot_have_lanes_over_outer_statements():
    kernel = matmul(DType.FP32, 3, 5, 7)
    info = analyze_axes(kernel)
    with pytest.raises(InputError) as caught:
        unroll(flatten(kernel), info, {9: 2})
    assert str(caught.value) == (
        "bad input: axis 9 cannot have 2 lanes\n  at: kernel matmul\n  hint: axes that can: [0, 1]"
    )


def test_reduction_cannot_take_turns():
    kernel = matmul(DType.FP32, 3, 5, 7)
    with pytest.raises(InputError) as caught:
        interleave(flatten(kernel), analyze_axes(kernel), 2, 4)
    assert str(caught.value) == (
        "bad input: axis 2 cannot be interleaved\n  at: kernel matmul\n  hint: independent axes: [0, 1]"
    )


def test_split_by_no_divisor():
    with pytest.raises(InputError) as caught:
        split_axis(matmul(DType.INT8, 3, 5, 7), 2, 4)
    assert str(caught.value) == (
        "bad input: axis 2 cannot be split by 4\n  at: kernel matmul\n"
        "  hint: give an axis with a constant trip count, and a divisor of it"
    )


@pytest.mark.parametrize(
    ("op", "initial", "neutral"), [("max", -128, True), ("min", 127, True), ("max", 5, False)]
)
def test_initial_values_are_chosen_beside_the_comparison(op, initial, neutral):
    i8, i = DType.INT8, IRCounter(7, 0, 0)
    load, before, after = IRBufLoad(1, i, i8), IRRegLoad(i8), IRRegLoad(i8)
    items = (
        IRRegStore(IRConst(initial, i8)),
        LoopIR.from_items((load, before, IRRegStore(IROp(op, i8, (before, load)))), counter=i),
        after,
        IRBufStore(0, IRConst(0, DType.INT32), after, i8),
    )
    buffers = (BufferMeta(0, 1, i8, True), BufferMeta(1, 7, i8, False))
    kernel = KernelIR(buffers, LoopIR.from_items(items), (RegisterMeta(0, i8),), name="extreme")
    forwarded = forward_registers(flatten(canonicalize(kernel)))
    late = verify(choose_initial_late(forwarded))
    for values in ([3, -9, 100, 2, -128, 127, 0], [-128] * 7, [127] * 7, [1, 2, 3, 4, 3, 2, 1]):
        same_results(kernel, late, {1: np.array(values, np.int8)})
    (update,) = [s for s in late.loop_tree.statements() if isinstance(s, IRRegStore)]
    assert isinstance(update.value, IROp)
    assert update.value.op == "where"
    _, begun, going_on = update.value.srcs
    assert isinstance(going_on, IROp)
    assert (going_on.op, {type(s) for s in going_on.srcs}) == (op, {IRRegLoad, IRBufLoad})
    assert isinstance(begun, IRBufLoad) == neutral


def test_sums_are_cleared_with_their_last_step():
    outer, inner = IRCounter(3, 0, 0), IRCounter(4, 1, 1)
    address = IROp("add", DType.INT32, (IROp("mul", DType.INT32, (outer, IRConst(4, DType.INT32))), inner))
    load, total = IRBufLoad(1, address, DType.INT32), IRRegLoad(DType.INT32, 0)
    added = LoopIR.from_items(
        (load, total, IRRegStore(IROp("add", DType.INT32, (total, load)), 0)), counter=inner
    )
    result = IRRegLoad(DType.INT32, 0)
    start, store = IRRegStore(IRConst(0, DType.INT32), 0), IRBufStore(0, outer, result, DType.INT32)
    rows = LoopIR.from_items((start, added, result, store), counter=outer)
    buffers = (BufferMeta(0, 3, DType.INT32, True), BufferMeta(1, 12, DType.INT32, False))
    kernel = KernelIR(buffers, LoopIR.from_items((rows,)), (RegisterMeta(0, DType.INT32),))
    forwarded = forward_registers(flatten(kernel))
    cleared = verify(clear_with_last(forwarded))
    assert "where (eq i1 0) 0 " not in cleared.format()
    assert cleared.format().count("where") == forwarded.format().count("where")
    same_results(kernel, cleared, {1: np.arange(12, dtype=np.int32)})


def float_sums(target):
    """``target[i] = sum_k b1[4 i + k]`` for two sums of 11 integers as floats, which any order adds exactly."""
    fp32 = DType.FP32
    outer, inner = IRCounter(2, 0, 0), IRCounter(11, 1, 1)
    address = IROp("add", DType.INT32, (IROp("mul", DType.INT32, (outer, IRConst(4, DType.INT32))), inner))
    load, total, result = IRBufLoad(1, address, fp32), IRRegLoad(fp32, 0), IRRegLoad(fp32, 0)
    added = LoopIR.from_items((load, total, IRRegStore(IROp("add", fp32, (total, load)), 0)), counter=inner)
    items = (IRRegStore(IRConst(0.0, fp32), 0), added, result, IRBufStore(target, outer, result, fp32))
    rows = LoopIR.from_items(items, counter=outer)
    buffers = (BufferMeta(0, 2, fp32, target == 0), BufferMeta(1, 15, fp32, target == 1))
    return verify(KernelIR(buffers, LoopIR.from_items((rows,)), (RegisterMeta(0, fp32),)))


@pytest.mark.parametrize("parts", [1, 3, 5, 11])
def test_partial_sums(parts):
    kernel, values = float_sums(0), np.arange(15, dtype=np.float32)
    first, second, between = split_sum(kernel, find_sum(kernel), parts)
    assert between.depth == 2 * parts
    partial = evaluate(verify(first), {1: values})[between.idx]
    found = evaluate(verify(second), {between.idx: partial})
    np.testing.assert_array_equal(found[0], [values[:11].sum(), values[4:].sum()])


def test_sums_that_change_what_others_add_are_left_alone():
    assert find_sum(float_sums(0)) is not None
    assert find_sum(float_sums(1)) is None


def test_turns_leave_registers_alone_that_live_outside_of_their_loop():
    """Flattening moves the initialization of r0 into the first step of i0, which has nothing else to do with it."""
    kernel = verify(
        parse_kernel(
            """\
kernel outside
  b0: int32[3] output
  b1: int32[8] output
  r0: int32
 0  SET r0 = 7:int32
 1  RANGE i0 < 3 loop
 2    STORE int32 b0[i0] = i0
 3  END i0
 4  RANGE i1 < 4 reduce
 5    %0 = GET int32 r0
 6    %1 = add int32 %0, i1
 7    SET r0 = %1
 8  END i1
 9  %2 = GET int32 r0
10  STORE int32 b1[0:int32] = %2
"""
        )
    )
    flat = flatten(kernel)
    turned = verify(interleave(flat, analyze_axes(kernel), 0, 2))
    buffers = {0: np.zeros(3, np.int32), 1: np.zeros(8, np.int32)}
    assert evaluate(turned, buffers)[1][0] == 7 + 6
    same_results(kernel, turned, buffers, {})


def test_a_relaxed_sum_leaves_out_its_first_zero():
    i = IRCounter(3, 0, 0)
    loads = [IRBufLoad(n, i, DType.FP32) for n in range(4)]
    total = IRConst(0.0, DType.FP32)
    for load in loads:
        total = IROp("add", DType.FP32, (total, load))
    body = LoopIR.from_items((*loads, IRBufStore(4, i, total, DType.FP32)), counter=i)
    buffers = tuple(BufferMeta(n, 3, DType.FP32, n == 4) for n in range(5))
    kernel = KernelIR(buffers, LoopIR.from_items((body,)))
    assert balance(kernel).format().count("add fp32") == 4
    text = balance(kernel, regroup_floats=True).format()
    assert text.count("add fp32") == 3
    assert "0.0" not in text
