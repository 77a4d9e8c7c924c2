"""Products on multipliers outside of the kernel."""

import numpy as np
import pytest

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    BufferMeta,
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
from tg2hdl_lower.plan.operations import Operation

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
