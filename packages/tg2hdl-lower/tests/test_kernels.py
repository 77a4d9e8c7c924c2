"""Kernels of all shapes: bits, cycles, printed plans and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.back import rtlil

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
    IRVariable,
    KernelIR,
    LoopIR,
    RegisterMeta,
    UnsupportedError,
    evaluate,
    parse_kernel,
)
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_lower import CompiledKernel, Layout, LowerOptions, plan_kernel
from tg2hdl_lower.emit.control import run_time_bound
from tg2hdl_lower.lanes.candidates import explicit_lanes
from tg2hdl_lower.plan.accesses import FixedLane, Load
from tg2hdl_lower.plan.graph import bound_value
from tg2hdl_lower.plan.operations import Op, Operation

I32, I8, BOOL = DType.INT32, DType.INT8, DType.BOOL


def number(value, dtype=I32):
    return IRConst(value, dtype)


def linear(*terms, const=0):
    value = number(const)
    for counter, stride in terms:
        value = IROp("add", I32, (value, IROp("mul", I32, (counter, number(stride)))))
    return value


def random_contents(kernel, seed=0):
    rng = np.random.default_rng(seed)
    return {
        b.idx: rng.integers(b.dtype.min_value, b.dtype.max_value, b.depth, b.dtype.numpy(), endpoint=True)
        for b in kernel.buffers
    }


def scalar():
    """``out[0] = in[0] + in[1]``, without a loop."""
    a, b = IRBufLoad(0, number(0), I32), IRBufLoad(0, number(1), I32)
    store = IRBufStore(1, number(0), IROp("add", I32, (a, b)), I32)
    buffers = (BufferMeta(0, 2, I32, False), BufferMeta(1, 1, I32, True))
    return KernelIR(buffers, LoopIR.from_items((a, b, store)), name="scalar")


def gemv(rows=4, depth=6, weights=I8):
    """``out[i] = bias[i] + sum_k w[i, k] * x[k]``."""
    i, k = IRCounter(rows, 0, 0), IRCounter(depth, 1, 1)
    bias = IRBufLoad(2, i, I32)
    w, x = IRBufLoad(0, linear((i, depth), (k, 1)), weights), IRBufLoad(1, k, weights)
    before, after = IRRegLoad(I32), IRRegLoad(I32)
    product = IROp("mul", I32, tuple(IROp("cast", I32, (v,)) for v in (w, x)))
    update = IRRegStore(IROp("add", I32, (before, product)))
    inner = LoopIR.from_items((w, x, before, update), counter=k, axis_type="reduce")
    outer = LoopIR.from_items((bias, IRRegStore(bias), inner, after, IRBufStore(3, i, after, I32)), counter=i)
    buffers = (
        BufferMeta(0, rows * depth, weights, False),
        BufferMeta(1, depth, weights, False),
        BufferMeta(2, rows, I32, False),
        BufferMeta(3, rows, I32, True),
    )
    return KernelIR(buffers, LoopIR.from_items((outer,)), (RegisterMeta(0, I32),), name="gemv")


def full_reduction():
    """Sum and maximum of all elements, stored at the root after the loop."""
    i = IRCounter(10, 0, 0)
    load = IRBufLoad(0, i, I32)
    reads = [IRRegLoad(I32, n) for n in (0, 1)]
    updates = [
        IRRegStore(IROp(op, I32, (r, load)), n)
        for n, (op, r) in enumerate(zip(("add", "max"), reads, strict=True))
    ]
    loop = LoopIR.from_items((load, *reads, *updates), counter=i, axis_type="reduce")
    starts = (IRRegStore(number(0), 0), IRRegStore(number(I32.min_value), 1))
    ends = [IRRegLoad(I32, n) for n in (0, 1)]
    stores = [IRBufStore(1, number(n), r, I32) for n, r in enumerate(ends)]
    buffers = (BufferMeta(0, 10, I32, False), BufferMeta(1, 2, I32, True))
    registers = (RegisterMeta(0, I32), RegisterMeta(1, I32))
    return KernelIR(
        buffers, LoopIR.from_items((*starts, loop, *ends, *stores)), registers, name="sum_and_max"
    )


def siblings():
    """Normalize by the largest element: two loops, the second uses what the first found."""
    i, j = IRCounter(5, 0, 0), IRCounter(5, 0, 1)
    first, before = IRBufLoad(0, i, I32), IRRegLoad(I32)
    find = LoopIR.from_items((first, before, IRRegStore(IROp("max", I32, (before, first)))), counter=i)
    largest, second = IRRegLoad(I32), IRBufLoad(0, j, I32)
    value = IROp("sub", I32, (second, largest))
    write = LoopIR.from_items((largest, second, IRBufStore(1, j, value, I32)), counter=j)
    buffers = (BufferMeta(0, 5, I32, False), BufferMeta(1, 5, I32, True))
    root = LoopIR.from_items((IRRegStore(number(I32.min_value)), find, write))
    return KernelIR(buffers, root, (RegisterMeta(0, I32),), name="siblings")


def in_place():
    """``b[i + 1] = b[i + 1] + b[i]``: each step needs what the one before wrote."""
    i = IRCounter(6, 0, 0)
    a, b = IRBufLoad(0, i, I32), IRBufLoad(0, linear((i, 1), const=1), I32)
    store = IRBufStore(0, linear((i, 1), const=1), IROp("add", I32, (a, b)), I32)
    root = LoopIR.from_items((LoopIR.from_items((a, b, store), counter=i),))
    return KernelIR((BufferMeta(0, 7, I32, True),), root, name="prefix_sum")


def gather():
    """``out[i] = table[index[i]]``, zero and no store where the index is negative."""
    i = IRCounter(8, 0, 0)
    index = IRBufLoad(0, i, I8)
    wide = IROp("cast", I32, (index,))
    inside = IROp("and", BOOL, (IROp("lt", BOOL, (number(-1), wide)), IROp("lt", BOOL, (wide, number(5)))))
    load = IRBufLoad(1, wide, I32, inside, number(-7))
    store = IRBufStore(2, i, load, I32, IROp("ne", BOOL, (index, number(0, I8))))
    root = LoopIR.from_items((LoopIR.from_items((index, load, store), counter=i),))
    buffers = (BufferMeta(0, 8, I8, False), BufferMeta(1, 5, I32, False), BufferMeta(2, 8, I32, True))
    return KernelIR(buffers, root, name="gather")


def padded():
    """Sliding window of 3 with a border of zeros; the address leaves the buffer where the gate is false."""
    i, k = IRCounter(7, 0, 0), IRCounter(3, 1, 1)
    place = linear((i, 1), (k, 1), const=-1)
    inside = IROp("and", BOOL, (IROp("lt", BOOL, (number(-1), place)), IROp("lt", BOOL, (place, number(7)))))
    load, before, after = IRBufLoad(0, place, I32, inside, number(0)), IRRegLoad(I32), IRRegLoad(I32)
    update = IRRegStore(IROp("add", I32, (before, load)))
    inner = LoopIR.from_items((load, before, update), counter=k, axis_type="reduce")
    outer = LoopIR.from_items((IRRegStore(number(0)), inner, after, IRBufStore(1, i, after, I32)), counter=i)
    buffers = (BufferMeta(0, 7, I32, False), BufferMeta(1, 7, I32, True))
    return KernelIR(buffers, LoopIR.from_items((outer,)), (RegisterMeta(0, I32),), name="window")


def windows(channels=4, columns=8, taps=3):
    """``out[i] = sum over c, k of in[c, i + k]``."""
    i, c, k = IRCounter(columns - taps + 1, 0, 0), IRCounter(channels, 1, 1), IRCounter(taps, 2, 2)
    load, before, after = (
        IRBufLoad(0, linear((c, columns), (i, 1), (k, 1)), I32),
        IRRegLoad(I32),
        IRRegLoad(I32),
    )
    update = IRRegStore(IROp("add", I32, (before, load)))
    inner = LoopIR.from_items((load, before, update), counter=k, axis_type="reduce")
    middle = LoopIR.from_items((inner,), counter=c, axis_type="reduce")
    outer = LoopIR.from_items((IRRegStore(number(0)), middle, after, IRBufStore(1, i, after, I32)), counter=i)
    buffers = (BufferMeta(0, channels * columns, I32, False), BufferMeta(1, i.bound, I32, True))
    return KernelIR(buffers, LoopIR.from_items((outer,)), (RegisterMeta(0, I32),), name="windows")


KERNELS = [scalar, gemv, full_reduction, siblings, in_place, gather, padded]


@pytest.mark.parametrize("build", KERNELS)
def test_one_lane(build, same_as_golden):
    kernel = build()
    buffers = random_contents(kernel)
    if build is gather:
        buffers[0] = np.array([0, 1, 4, -1, 5, 100, 3, -128], np.int8)
    same_as_golden(kernel, plan_kernel(kernel), buffers, runs=2)


@pytest.mark.parametrize("target", ["generic", "ecp5"])
@pytest.mark.parametrize("cycles", [3, 8, 11, 14])
def test_a_reset_ends_a_run(target, cycles, same_as_golden):
    kernel = padded()
    plan = plan_kernel(kernel, LowerOptions(target=target))
    same_as_golden(kernel, plan, random_contents(kernel), reset_after=cycles)


@pytest.mark.parametrize("lanes", [{0: 2}, {0: 3}, {1: 2}, {1: 4}, {0: 4, 1: 6}, {0: 3, 1: 4}])
@pytest.mark.parametrize("pack", [1, 3, 4])
def test_lanes_of_a_matrix_product(lanes, pack, same_as_golden):
    kernel = gemv()
    plan = plan_kernel(kernel, lanes=lanes, layouts={0: Layout.linear(24, pack), 3: Layout.linear(4, pack)})
    same_as_golden(kernel, plan, random_contents(kernel))
    steps = -(-4 // lanes.get(0, 1)) * -(-6 // lanes.get(1, 1))
    assert plan.steps() == steps


IN_PLACE = """kernel in_place
  b0 x: int32[6] output
  b1 w: int32[3]
  b2 y: int32[6] output
RANGE i0 < 6 loop
%0 = LOAD int32 b0[i0]
RANGE i1 < 3 loop
%1 = LOAD int32 b1[i1]
%2 = add int32 %0, %1
STORE int32 b0[i0] = %2
END i1
%3 = LOAD int32 b0[i0]
%4 = sub int32 %3, %0
STORE int32 b2[i0] = %4
END i0
"""
IN_A_REGISTER = """kernel in_a_register
  b0 x: int32[6]
  b1 w: int32[3]
  b2 y: int32[6] output
  r0: int32
RANGE i0 < 6 loop
%0 = LOAD int32 b0[i0]
SET r0 = %0
%1 = GET int32 r0
RANGE i1 < 3 loop
%2 = LOAD int32 b1[i1]
%3 = GET int32 r0
%4 = mul int32 %3, %1
%5 = add int32 %4, %2
SET r0 = %5
END i1
%6 = GET int32 r0
%7 = sub int32 %6, %1
STORE int32 b2[i0] = %7
END i0
"""


@pytest.mark.parametrize("text", [IN_PLACE, IN_A_REGISTER], ids=["element", "register"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_values_are_held_where_their_place_is_overwritten(text, lanes, same_as_golden):
    """In the inner loop and after it; each lane has its own copy."""
    kernel = parse_kernel(text)
    same_as_golden(kernel, plan_kernel(kernel, lanes={0: lanes}), random_contents(kernel))


@pytest.mark.parametrize("split", [(2, 4), (4, 2), (4, 8), (2, 8)])
@pytest.mark.parametrize("lanes", [2, 3, 6])
def test_windows_over_words_of_several_channels_share_words(split, lanes, same_as_golden):
    """The lane moves along both dimensions: in all elements alike along one, as a window along the other."""
    kernel = windows()
    plan = plan_kernel(kernel, lanes={0: lanes}, layouts={0: Layout((4, 8), split)})
    same_as_golden(kernel, plan, random_contents(kernel))
    loads = [n for n in plan.all(Load) if n.buffer == 0]
    assert len(loads) <= -(-(lanes - 1) // split[1]) + 1


def test_a_word_of_many_block_rams_has_a_register_at_its_address(same_as_golden):
    kernel = gemv(2, 1280)
    wide = {0: Layout.linear(2560, 128), 1: Layout.linear(1280, 64)}
    plan = plan_kernel(kernel, lanes={1: 128}, layouts=wide)
    assert plan.port_registers.reads == {0}
    same_as_golden(kernel, plan, random_contents(kernel))


def test_the_only_word_of_a_buffer_waits_in_no_registers(same_as_golden):
    """Such as a bias with all lanes at once, which is added to the last sum many cycles after it is read."""
    kernel = gemv()
    plan = plan_kernel(kernel, LowerOptions(target="ecp5"), lanes={0: 4}, layouts={2: Layout.linear(4, 4)})
    same_as_golden(kernel, plan, random_contents(kernel), runs=2)
    constant = {n.number for n in plan.all(Load) if n.buffer == 2}
    constant |= {n.number for n in plan.all(FixedLane) if n.word in constant}
    assert len(constant) == 5
    assert constant == {n for n in plan.run_constant if not plan.nodes[n].is_fixed}
    users = [(n.number, source) for n in plan.all(Op) for source in n.sources if source in constant]
    assert any(plan.placement(user).stage > plan.placement(source).stage for user, source in users)
    text = rtlil.convert(CompiledKernel(plan))
    assert not [n for n in constant if f"\\v{n}_s" in text]


@pytest.mark.parametrize("build", [scalar, gemv, padded, gather])
def test_printed_plan(build, expect):
    kernel = build()
    expect(f"{kernel.name}.plan", plan_kernel(kernel).format())


def test_reductions_take_a_step_each():
    plan = plan_kernel(gemv(rows=16, depth=32))
    assert plan.ii == 1
    assert plan.cycles() - 16 * 32 < 16


@pytest.mark.parametrize("n", [0, 1, 5])
def test_run_time_bound(n, same_as_golden):
    variable = IRVariable("n", 0, 5)
    i = IRCounter(variable, 0, 0)
    load = IRBufLoad(0, i, I32)
    store = IRBufStore(1, i, IROp("add", I32, (load, variable)), I32)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    buffers = (BufferMeta(0, 5, I32, False), BufferMeta(1, 5, I32, True))
    kernel = KernelIR(buffers, root, variables=(variable,), name="first_n")
    same_as_golden(kernel, plan_kernel(kernel), random_contents(kernel), {"n": n}, runs=2)


def test_register_that_is_read_first_starts_at_zero_in_every_run(same_as_golden):
    kernel = parse_kernel("""
kernel sum
  b0 out: int32[1] output
  b1 x: int32[3]
  r0: int32
 0  RANGE i0 < 3 reduce
 1    %0 = LOAD int32 b1[i0]
 2    %1 = GET int32 r0
 3    %2 = add int32 %0, %1
 4    SET r0 = %2
 5  END i0
 6  %3 = GET int32 r0
 7  STORE int32 b0[0:int32] = %3
""")
    same_as_golden(kernel, plan_kernel(kernel), random_contents(kernel), runs=2)


def test_an_array_that_data_fills_starts_at_zero_in_every_run(same_as_golden):
    # A store at an index of data does not set the element that is read after it.
    kernel = canonicalize(
        parse_kernel(
            "kernel array\n  b0: int32[6] output\n  b1: uint8[6]\n  b2: uint8[6]\n  r0: int32[4]\n"
            "RANGE i0 < 6 loop\n%0 = LOAD uint8 b1[i0]\n%1 = LOAD uint8 b2[i0]\n%2 = and uint8 %0, 3:uint8\n"
            "%3 = and uint8 %1, 3:uint8\n%4 = add int32 i0, 11:int32\nSET r0[%2] = %4\n%5 = GET int32 r0[%3]\n"
            "STORE int32 b0[i0] = %5\nEND i0\n"
        )
    )
    contents = {1: np.array([0, 1, 2, 3, 0, 1], np.uint8), 2: np.array([3, 3, 3, 3, 1, 1], np.uint8)}
    assert evaluate(kernel, contents)[0].tolist() == [0, 0, 0, 14, 12, 16]
    same_as_golden(kernel, plan_kernel(kernel), contents, runs=2)


def test_divided_counter_needs_neither_multiplier_nor_divider():
    i = IRCounter(24, 0, 0)
    place = IROp(
        "add",
        I32,
        (
            IROp("mul", I32, (IROp("mod", I32, (i, number(4))), number(6))),
            IROp("div", I32, (i, number(4))),
        ),
    )
    load = IRBufLoad(0, place, I32)
    root = LoopIR.from_items((LoopIR.from_items((load, IRBufStore(1, i, load, I32)), counter=i),))
    kernel = KernelIR((BufferMeta(0, 24, I32, False), BufferMeta(1, 24, I32, True)), root, name="transpose")
    plan = plan_kernel(kernel)
    assert not plan.all(Operation)
    assert (plan.ii, plan.steps()) == (1, 24)


@pytest.mark.parametrize(("limit", "levels"), [(0, 1), (5, 4)])
def test_a_maximum_with_zero_is_one_logic_level(limit, levels):
    i = IRCounter(4, 0, 0)
    load = IRBufLoad(0, i, I32)
    store = IRBufStore(1, i, IROp("max", I32, (load, number(limit))), I32)
    loop = LoopIR.from_items((load, store), counter=i)
    plan = plan_kernel(
        KernelIR((BufferMeta(0, 4, I32, False), BufferMeta(1, 4, I32, True)), LoopIR.from_items((loop,)))
    )
    (node,) = plan.all(Op)
    assert node.levels == levels


def text_of(call):
    with pytest.raises((InputError, UnsupportedError)) as caught:
        call()
    # Notes name the installed plugins that are broken.
    return "\n".join(line for line in str(caught.value).splitlines() if not line.startswith("  note: plugin"))


def test_float_op_without_unit():
    i = IRCounter(4, 0, 0)
    fp8 = DType.FP8_E4M3
    load = IRBufLoad(0, i, fp8)
    store = IRBufStore(1, i, IROp("sin", fp8, (load,)), fp8)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    kernel = KernelIR((BufferMeta(0, 4, fp8, False), BufferMeta(1, 4, fp8, True)), root, name="sine")
    assert text_of(lambda: plan_kernel(kernel)) == (
        "unsupported: no hardware computes sin(fp8_e4m3) -> fp8_e4m3\n"
        "  at: kernel sine\n"
        "  hint: cast to a supported type, or install a plugin with a unit for it; "
        "`tg2hdl plugins list` shows all"
    )


def test_no_interval_is_small_enough():
    assert text_of(lambda: plan_kernel(in_place(), LowerOptions(max_ii=1))) == (
        "unsupported: no initiation interval up to 1 cycles works\n"
        "  at: kernel prefix_sum\n"
        "  hint: raise max_ii, or split the computation with .contiguous()"
    )


def test_lanes_without_an_axis():
    from tg2hdl_ir.analysis.axes import analyze_axes

    kernel = scalar()
    assert text_of(lambda: explicit_lanes(kernel, analyze_axes(kernel), 4, 1)) == (
        "bad input: unroll_factor=4 needs an independent loop, and there is none\n"
        "  at: kernel scalar\n"
        "  hint: leave unroll_factor at 1 for this kernel, or give multipliers=N for the whole model"
    )
    assert text_of(lambda: explicit_lanes(kernel, analyze_axes(kernel), 1, 2)) == (
        "bad input: reduce_unroll_factor=2 needs an integer reduction loop, and there is none\n"
        "  at: kernel scalar\n"
        "  hint: leave reduce_unroll_factor at 1 for this kernel, or give multipliers=N for the whole model; "
        'float_order="relaxed" lets lanes add floats'
    )


def test_options_are_checked():
    assert text_of(lambda: LowerOptions(unroll_factor=0)) == (
        "bad input: unroll_factor=0 is not a positive integer\n  hint: give unroll_factor=1 or more"
    )
    assert text_of(lambda: LowerOptions(multipliers=0)) == (
        "bad input: multipliers=0 is not a positive integer\n"
        "  hint: give the number of hardware multipliers, 1 or more"
    )


def test_unknown_family():
    text = text_of(lambda: plan_kernel(scalar(), LowerOptions(target="ecp5-45k")))
    assert text.startswith("bad input: target='ecp5-45k' is unknown\n  hint: choose a family: ecp5, generic")


def test_bounds_need_their_variables():
    variable = IRVariable("n", 1, 9)
    assert bound_value(IROp("max", I32, (variable, number(1))), {"n": 0}) == 1
    assert text_of(lambda: bound_value(variable, {})) == (
        "bad input: variable 'n' has no value\n  hint: give a value from 1 to 9"
    )


def test_run_time_bound_beyond_addition_and_multiplication():
    from amaranth import Signal

    variable = IRVariable("n", 1, 9)
    bound = IROp("div", I32, (variable, number(2)))
    assert text_of(lambda: run_time_bound(bound, {"n": Signal(4)})) == (
        "unsupported: a run-time loop bound is computed with an operation that control does not have\n"
        "  at: op div\n"
        "  hint: bind the variable to a number"
    )
