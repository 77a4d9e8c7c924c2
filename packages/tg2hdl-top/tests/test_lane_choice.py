"""The choice of lanes and layouts."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tg2hdl_ir import (
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    KernelIR,
    LoopIR,
    MemoryKindDef,
    hookimpl,
    parse_kernel,
    registry,
)
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.memory.lut import LutRam
from tg2hdl_top import CompileOptions
from tg2hdl_top.lane_choice import BufferLayout, LaneChooser

I32 = DType.INT32


def distant_sums(size: int) -> KernelIR:
    """``out[i] = a[i] + a[i + size] + a[i + 2 * size]``."""
    i = IRCounter(size, 0, 0)
    at = [IROp("add", i.dtype, (i, IRConst(n * size, i.dtype))) for n in range(3)]
    loads = [IRBufLoad(1, address, I32) for address in at]
    total = IROp("add", I32, (IROp("add", I32, (loads[0], loads[1])), loads[2]))
    root = LoopIR.from_items((LoopIR.from_items((*loads, IRBufStore(0, i, total, I32)), counter=i),))
    buffers = (BufferMeta(0, size, I32, True), BufferMeta(1, 3 * size, I32, False))
    return KernelIR(buffers, root, name="distant_sums")


def rows(height: int, width: int) -> KernelIR:
    """``out[i, j] = a[i, j] + a[i, j + 1]`` for rows of `width`, the last of which ends a column earlier."""
    i, j = IRCounter(height, 0, 0), IRCounter(width - 1, 1, 1)

    def at(stride: int, const: int) -> IROp:
        row = IROp("mul", i.dtype, (i, IRConst(stride, i.dtype)))
        return IROp("add", i.dtype, (IROp("add", i.dtype, (row, j)), IRConst(const, i.dtype)))

    loads = [IRBufLoad(1, at(width, n), I32) for n in range(2)]
    store = IRBufStore(0, at(width - 1, 0), IROp("add", I32, tuple(loads)), I32)
    inner = LoopIR.from_items((*loads, store), counter=j)
    root = LoopIR.from_items((LoopIR.from_items((inner,), counter=i),))
    buffers = (
        BufferMeta(0, height * (width - 1), I32, True),
        BufferMeta(1, height * width, I32, False),
    )
    return KernelIR(buffers, root, name="rows")


def test_a_kernel_sees_the_layout_of_another_along_its_own_rows():
    """Pairs of pairs are words of four: a window goes across the ends of pairs."""
    kernel = canonicalize(rows(4, 16))
    given = Layout((32, 2), (2, 2))
    storage = {b.idx: b.dtype for b in kernel.buffers}
    options = CompileOptions(multipliers=15)
    choice = LaneChooser(kernel, {1: BufferLayout(given)}, storage, {}, options, sparing=False).choose()
    assert choice.layouts[1] == Layout((4, 16), (1, 4))
    assert choice.interval == 1


class OnePort(LutRam):
    """A kind whose memories have one read port, whatever the family says."""

    def read_ports(self, use, family):
        return 1


@hookimpl
def tg2hdl_memory_kinds():
    return [MemoryKindDef("one-port", "a single read port", OnePort, priority=99)]


PLUGIN = SimpleNamespace(__name__="one-port", tg2hdl_memory_kinds=tg2hdl_memory_kinds)


@pytest.mark.parametrize(("plugin", "interval"), [(SimpleNamespace(__name__="none"), 1), (PLUGIN, 3)])
def test_the_kind_of_a_memory_says_how_many_ports_a_step_has(plugin, interval):
    kernel = distant_sums(20)
    storage = {b.idx: b.dtype for b in kernel.buffers}
    with registry().extended(plugin):
        choice = LaneChooser(kernel, {}, storage, {}, CompileOptions(), sparing=False).choose()
        plan = plan_kernel(choice.kernel, lanes=choice.lanes, layouts=choice.layouts)
    assert choice.interval == plan.ii == interval


@pytest.mark.parametrize(("rows", "outputs"), [(2048, 1), (64, 16)])
def test_lanes_of_a_long_run_sum_instead_of_having_results_of_their_own(rows, outputs):
    """Each sum goes to a lane of a word; the cycles that a tree of adders takes more count in a short run alone."""
    kernel = canonicalize(
        parse_kernel(
            f"kernel product\n  b0: int32[{rows * 32}] output\n  b1: int8[{rows * 16}]\n  b2: int8[512]\n  r0: int32\n"
            f"RANGE i0 < {rows} loop\nRANGE i1 < 32 loop\nSET r0 = 0:int32\nRANGE i2 < 16 reduce\n"
            "%0 = mul int32 i0, 16:int32\n%1 = add int32 %0, i2\n%2 = LOAD int8 b1[%1]\n%3 = mul int32 i1, 16:int32\n"
            "%4 = add int32 %3, i2\n%5 = LOAD int8 b2[%4]\n%6 = cast int32 %2\n%7 = cast int32 %5\n"
            "%8 = mul int32 %6, %7\n%9 = GET int32 r0\n%10 = add int32 %9, %8\nSET r0 = %10\nEND i2\n"
            "%11 = GET int32 r0\n%12 = mul int32 i0, 32:int32\n%13 = add int32 %12, i1\n"
            "STORE int32 b0[%13] = %11\nEND i1\nEND i0\n"
        )
    )
    storage = {b.idx: b.dtype for b in kernel.buffers}
    known = {0: BufferLayout(Layout((rows, 32), (1, 16)))}
    choice = LaneChooser(kernel, known, storage, {}, CompileOptions(multipliers=16), sparing=True).choose()
    assert math.prod(choice.lanes.values()) == 16
    assert math.prod(n for axis, n in choice.lanes.items() if axis != 2) == outputs
