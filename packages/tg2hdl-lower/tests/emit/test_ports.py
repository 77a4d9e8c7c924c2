"""Ports of a kernel without its memories."""

import gc
import warnings

from amaranth.hdl import Fragment, UnusedElaboratable
from amaranth.lib.wiring import Flow

from tg2hdl_ir import BufferMeta, DType, IRBufLoad, IRBufStore, IRCounter, IROp, KernelIR, LoopIR
from tg2hdl_lower import KernelCore, Layout, LowerOptions, plan_kernel

I32, I8 = DType.INT32, DType.INT8


def squares(size: int) -> KernelIR:
    """``out[i] = a[i] * a[i]`` of bytes."""
    i = IRCounter(size, 0, 0)
    load = IRBufLoad(1, i, I8)
    wide = IROp("cast", I32, (load,))
    store = IRBufStore(0, i, IROp("mul", I32, (wide, wide)), I32)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    return KernelIR((BufferMeta(0, size, I32, True), BufferMeta(1, size, I8, False)), root, name="squares")


def core() -> KernelCore:
    layouts = {0: Layout.linear(20, 4), 1: Layout.linear(20, 4)}
    return KernelCore(plan_kernel(squares(20), LowerOptions(), lanes={0: 4}, layouts=layouts))


def test_ports_have_the_widths_of_their_words():
    found = core()
    (read,), (write,) = found.reads.values(), found.writes.values()
    assert (list(found.reads), list(found.writes)) == ([(1, 0)], [(0, 0)])
    assert (len(read.addr), len(read.en), len(read.data)) == (3, 1, 32)
    assert (len(write.addr), len(write.en), len(write.data)) == (3, 4, 128)
    assert read.signature.members["data"].flow is Flow.In
    assert write.signature.members["data"].flow is Flow.Out


def test_products_have_a_port_for_each_slot():
    found = core()
    assert len(found.products) == len(found.plan.products) == 4
    assert [len(p.operand("a")) for p in found.products] == [8] * 4
    assert [len(p.result) for p in found.products] == [16] * 4
    assert not found.units


def test_a_core_may_be_inspected_without_being_built():
    Fragment.get(core(), None)  # Amaranth warns only after it has built something
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UnusedElaboratable)
        assert core().plan.kernel.name == "squares"
        gc.collect()
    assert not found
