"""Products on multipliers outside of the kernel."""

import numpy as np
import pytest

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
)
from tg2hdl_lower import LowerOptions, plan_kernel
from tg2hdl_lower.plan.operations import Operation, UnitOp
from tg2hdl_lower.plan.resources import WideMultiplier

I32, I8 = DType.INT32, DType.INT8


def number(value: int) -> IRConst:
    return IRConst(value, I32)


def wide(value):
    return IROp("cast", I32, (value,))


def pairs(size: int) -> KernelIR:
    """``out[i] = a[4i] * a[4i+1] + a[4i+2] * a[4i+3]`` of bytes."""
    i = IRCounter(size, 0, 0)
    base = IROp("mul", I32, (i, number(4)))
    loads = [IRBufLoad(1, IROp("add", I32, (base, number(n))), I8) for n in range(4)]
    a, b, c, d = map(wide, loads)
    value = IROp("add", I32, (IROp("mul", I32, (a, b)), IROp("mul", I32, (c, d))))
    root = LoopIR.from_items((LoopIR.from_items((*loads, IRBufStore(0, i, value, I32)), counter=i),))
    return KernelIR((BufferMeta(0, size, I32, True), BufferMeta(1, 4 * size, I8, False)), root, name="pairs")


def running_product(size: int) -> KernelIR:
    """``out[0] = product of a[i]``, modulo 2^32."""
    i = IRCounter(size, 0, 0)
    load, before, after = IRBufLoad(1, i, I8), IRRegLoad(I32), IRRegLoad(I32)
    update = IRRegStore(IROp("mul", I32, (before, wide(load))))
    items = (
        IRRegStore(number(1)),
        LoopIR.from_items((load, before, update), counter=i, axis_type="reduce"),
        after,
        IRBufStore(0, number(0), after, I32),
    )
    buffers = (BufferMeta(0, 1, I32, True), BufferMeta(1, size, I8, False))
    return KernelIR(buffers, LoopIR.from_items(items), (RegisterMeta(0, I32),), name="running_product")


def bytes_of(size: int) -> np.ndarray:
    return np.random.default_rng(2).integers(-128, 128, size).astype(np.int8)


@pytest.mark.parametrize(("size", "ii", "multipliers"), [(16, 1, 2), (640, 2, 1)])
def test_products_of_different_cycles_take_turns(
    same_as_golden, size: int, ii: int, multipliers: int
) -> None:
    # 2,560 bytes are more than one block RAM: two ports for four reads.
    kernel = pairs(size)
    plan = plan_kernel(kernel, LowerOptions())
    assert (plan.ii, plan.multipliers, len(plan.products)) == (ii, multipliers, multipliers)
    assert plan.products[0].widths == (8, 8)
    assert ("4 reads of buffer 1, which has 2 ports" in plan.format()) == (ii > 1)
    same_as_golden(kernel, plan, {1: bytes_of(4 * size)})


def test_a_product_that_waits_for_the_one_before_has_no_registers(same_as_golden) -> None:
    kernel = running_product(9)
    plan = plan_kernel(kernel)
    assert plan.products == ()
    same_as_golden(kernel, plan, {1: bytes_of(9)})


@pytest.mark.parametrize(("multipliers", "waits"), [(95, 0), (96, 1)])
def test_logic_is_not_on_the_way_to_one_of_many_multipliers(
    same_as_golden, multipliers: int, waits: int
) -> None:
    i = IRCounter(9, 0, 0)
    a, b = IRBufLoad(1, i, I8), IRBufLoad(2, i, I8)
    factor = IROp("xor", I32, (IROp("and", I32, (wide(a), number(107))), number(85)))
    store = IRBufStore(0, i, IROp("mul", I32, (factor, wide(b))), I32)
    root = LoopIR.from_items((LoopIR.from_items((a, b, store), counter=i),))
    buffers = (BufferMeta(0, 9, I32, True), BufferMeta(1, 9, I8, False), BufferMeta(2, 9, I8, False))
    kernel = KernelIR(buffers, root, name="masked")
    plan = plan_kernel(kernel, LowerOptions(multipliers=multipliers, target="ecp5"))
    product, logic = (
        plan.placement(n.number) for op in ("mul", "xor") for n in plan.all(Operation) if n.op == op
    )
    assert (logic.level, product.issue - logic.stage) == (1, waits)
    same_as_golden(kernel, plan, {1: bytes_of(9), 2: bytes_of(9)[::-1].copy()})


def wide_pairs(size: int, widths: tuple[int, int], signed: tuple[bool, bool], count: int = 2) -> KernelIR:
    """Products of elements of two buffers in int64, `count` of them added up for each output."""
    i, total, i64 = IRCounter(size, 0, 0), None, DType.INT64
    types = [DType.from_width(w, s) for w, s in zip(widths, signed, strict=True)]
    loads = []
    for n in range(count):
        place = IROp("add", I32, (IROp("mul", I32, (i, number(count))), number(n)))
        pair = [IRBufLoad(1 + k, place, t) for k, t in enumerate(types)]
        loads += pair
        product = IROp("mul", i64, tuple(IROp("cast", i64, (load,)) for load in pair))
        total = product if total is None else IROp("add", i64, (total, product))
    root = LoopIR.from_items((LoopIR.from_items((*loads, IRBufStore(0, i, total, i64)), counter=i),))
    inputs = (BufferMeta(1 + k, count * size, t, False) for k, t in enumerate(types))
    return KernelIR((BufferMeta(0, size, i64, True), *inputs), root, name="wide_pairs")


def integers(dtype: DType, size: int, seed: int) -> np.ndarray:
    """Random integers of a type, a third of them its extremes."""
    rng = np.random.default_rng(seed)
    found = rng.integers(dtype.min_value, dtype.max_value, size, endpoint=True)
    edges = rng.choice([dtype.min_value, dtype.max_value, 0, 1], size)
    return np.where(rng.random(size) < 1 / 3, edges, found).astype(dtype.numpy())


@pytest.mark.parametrize(
    ("widths", "signed", "blocks", "latency"),
    [
        ((21, 24), (True, False), 4, 3),
        ((9, 19), (True, True), 2, 2),
        ((18, 35), (True, True), 2, 2),
        ((18, 35), (False, True), 4, 3),
        ((32, 32), (True, True), 4, 3),
        ((36, 20), (True, False), 6, 4),
    ],
)
def test_a_product_has_the_width_of_its_ranges(same_as_golden, widths, signed, blocks, latency) -> None:
    kernel = wide_pairs(40, widths, signed)
    plan = plan_kernel(kernel, LowerOptions())
    assert [(p.limbs[0] * p.limbs[1], p.latency) for p in plan.products] == [(blocks, latency)] * 2
    assert f"on {blocks} multipliers, {latency} cycles" in plan.format()
    types = [b.dtype for b in kernel.buffers[1:]]
    same_as_golden(kernel, plan, {1 + k: integers(t, 80, k) for k, t in enumerate(types)})


def test_wide_products_take_turns(same_as_golden) -> None:
    kernel = wide_pairs(24, (21, 24), (True, False), count=3)
    plan = plan_kernel(kernel, LowerOptions(multipliers=1))
    assert (plan.ii, len(plan.products)) == (3, 1)
    types = [b.dtype for b in kernel.buffers[1:]]
    same_as_golden(kernel, plan, {1 + k: integers(t, 72, k) for k, t in enumerate(types)})


def test_products_that_need_all_bits_or_a_named_unit_keep_the_unit_of_their_type(same_as_golden) -> None:
    kernel = wide_pairs(9, (60, 60), (True, True))
    plan = plan_kernel(kernel, LowerOptions())
    assert not plan.products
    types = [b.dtype for b in kernel.buffers[1:]]
    same_as_golden(kernel, plan, {1 + k: integers(t, 18, k) for k, t in enumerate(types)})
    named = plan_kernel(wide_pairs(9, (21, 24), (True, False)), LowerOptions(units={"mul": "int.mul.int64"}))
    assert [n.unit.name for n in named.all(UnitOp)] == ["int.mul.int64"] * 2


def test_wide_multipliers_serve_slots_with_as_many_pieces() -> None:
    first, second = WideMultiplier((2, 2), (21, 25), 45), WideMultiplier((2, 2), (24, 19), 40)
    assert first.key == second.key != WideMultiplier((1, 2), (18, 25), 40).key
    assert first.merged(second) == WideMultiplier((2, 2), (24, 25), 45)
