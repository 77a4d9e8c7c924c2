"""Programs of a few kernels for tests of designs, and their simulation against the golden model."""

from __future__ import annotations

__all__ = [
    "I8",
    "I32",
    "SIZE",
    "X",
    "buffer",
    "changed_pass",
    "check",
    "elementwise",
    "gemv",
    "golden",
    "layer",
    "simulate",
]

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
from amaranth.sim import Simulator

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
    IRValue,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramBuffer,
    ProgramIR,
    RegisterMeta,
    evaluate,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.pipeline import all_rewrites, exchange
from tg2hdl_top import TopModule, compile_program
from tg2hdl_top.streaming import packed_words

I32, I8 = DType.INT32, DType.INT8
SIZE = 6


def elementwise(op: str, sources: int, size: int = SIZE, name: str = "elementwise") -> KernelIR:
    """``out[i] = op(in1[i], in2[i])``; slot 0 is the output.

    Parameters
    ----------
    op : str
        Op of one or two operands of int32.
    sources : int
        Input buffers, 1 or 2; with one the other operand is 3.
    size : int, optional
        Elements.
    name : str, default "elementwise"
    """
    i = IRCounter(size, 0, 0)
    loads = [IRBufLoad(n, i, I32) for n in range(1, sources + 1)]
    operands: tuple[IRValue, ...] = (*loads, IRConst(3, I32)) if sources == 1 else tuple(loads)
    store = IRBufStore(0, i, IROp(op, I32, operands), I32)
    root = LoopIR.from_items((LoopIR.from_items((*loads, store), counter=i),))
    return KernelIR(tuple(BufferMeta(n, size, I32, n == 0) for n in range(sources + 1)), root, name=name)


def gemv(rows: int, depth: int, vector: DType = I8) -> KernelIR:
    """``out[i] = sum_k w[i, k] * x[k]`` of a matrix of bytes; slots out, w, x.

    Parameters
    ----------
    rows, depth : int
        Elements of each axis of the matrix.
    vector : DType, optional
        Type of the vector.
    """
    i, k = IRCounter(rows, 0, 0), IRCounter(depth, 1, 1)
    place = IROp("add", I32, (IROp("mul", I32, (i, IRConst(depth, I32))), k))
    w, x = IRBufLoad(1, place, I8), IRBufLoad(2, k, vector)
    before, after = IRRegLoad(I32), IRRegLoad(I32)
    product = IROp("mul", I32, tuple(IROp("cast", I32, (v,)) for v in (w, x)))
    update = IRRegStore(IROp("add", I32, (before, product)))
    inner = LoopIR.from_items((w, x, before, update), counter=k, axis_type="reduce")
    items = (IRRegStore(IRConst(0, I32)), inner, after, IRBufStore(0, i, after, I32))
    root = LoopIR.from_items((LoopIR.from_items(items, counter=i),))
    buffers = (
        BufferMeta(0, rows, I32, True),
        BufferMeta(1, rows * depth, I8, False),
        BufferMeta(2, depth, vector, False),
    )
    return KernelIR(buffers, root, (RegisterMeta(0, I32),), name="gemv")


def buffer(name: str, role: Any, initial: Any = None, size: int = SIZE, dtype: DType = I32) -> ProgramBuffer:
    """Buffer of a program.

    Parameters
    ----------
    name : str
    role
        As of `ProgramBuffer`.
    initial : optional
        Contents.
    size : int, optional
        Elements.
    dtype : DType, optional
    """
    return ProgramBuffer(name, dtype, (size,), role, initial)


def golden(program: ProgramIR, inputs: Any) -> Any:
    """Outputs of a program by the golden model of each kernel.

    Parameters
    ----------
    program : ProgramIR
    inputs
        Flat arrays by name.
    """
    contents = {}
    for n, b in enumerate(program.buffers):
        array = inputs.get(b.name, b.initial)
        contents[n] = np.zeros(b.depth, b.dtype.numpy()) if array is None else array
    for call in program.calls:
        slots = call.slots
        result = evaluate(call.kernel, {idx: contents[n] for idx, n in slots.items()})
        contents.update({slots[idx]: array for idx, array in result.items()})
    return [contents[n] for n in program.outputs]


def simulate(compiled: Any, inputs: Any, *, insists: bool = False) -> Any:
    """Outputs, and cycles from start to done; a host that `insists` holds `start` until then.

    Parameters
    ----------
    compiled
        A `Design`.
    inputs
        Flat arrays by name.
    insists : bool, default False
    """
    top, outputs, count = TopModule(compiled, simulates_memory=True), [], 0

    async def bench(ctx: Any) -> None:
        nonlocal count
        for number, packed in compiled.loads(inputs).items():
            memory = compiled.memory(number)
            port = top.ext_write_ports[memory.slots[0]]
            ctx.set(port["wen"], 1)
            for address, word in enumerate(packed_words(packed, memory.dtype.bit_width)):
                ctx.set(port["waddr"], address)
                ctx.set(port["wdata"], word)
                await ctx.tick()
            ctx.set(port["wen"], 0)
        ctx.set(top.start, 1)
        await ctx.tick()
        ctx.set(top.start, insists)
        count = 1
        while not ctx.get(top.done):
            assert count < 2000 + 2 * compiled.longest_cycles(), "the program does not end"
            await ctx.tick()
            count += 1
        ctx.set(top.start, 0)
        await ctx.tick()
        for index in compiled.program.outputs:
            memory = compiled.memory(index)
            port, layout, width = (
                top.output_rports[memory.slots[0]],
                memory.layout,
                memory.dtype.bit_width,
            )
            packed = np.zeros((layout.words, layout.lanes), np.uint64)
            for address in range(layout.words):
                ctx.set(port["raddr"], address)
                await ctx.tick().repeat(memory.read_latency)
                word = ctx.get(port["rdata"])
                packed[address] = [(word >> (n * width)) & ((1 << width) - 1) for n in range(layout.lanes)]
            outputs.append(layout.unpack(packed, memory.dtype))

    sim = Simulator(top)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return outputs, count


def check(program: ProgramIR, inputs: Any, options: Any = None) -> Any:
    """Compile, simulate, and compare bits and cycles; returns the design.

    Parameters
    ----------
    program : ProgramIR
    inputs
        Flat arrays by name.
    options : optional
        `CompileOptions`.

    Raises
    ------
    AssertionError
        When a bit or the number of cycles differs.
    """
    compiled = compile_program(program, options)
    outputs, cycles = simulate(compiled, inputs)
    for actual, expected in zip(outputs, golden(program, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert cycles == compiled.predicted_cycles()
    return compiled


X = np.array([1, -2, 30000, 4, -5, 6], np.int32)


def layer() -> tuple[ProgramIR, Any, Any]:
    """Program of a product and a maximum, with its weights and an input."""
    rng = np.random.default_rng(3)
    w = rng.integers(-128, 128, 20 * SIZE).astype(np.int8)
    x = rng.integers(-128, 128, 20).astype(np.int8)
    buffers = (
        buffer("x", "input", size=20, dtype=I8),
        buffer("w", "weight", w, 20 * SIZE, I8),
        buffer("t", "temporary"),
        buffer("y", "output"),
    )
    calls = (KernelCall(gemv(SIZE, 20), (2, 1, 0)), KernelCall(elementwise("max", 1), (3, 2)))
    return ProgramIR("layer", buffers, calls, (3,)), w, x


@contextmanager
def changed_pass(name: str, change: Callable[[KernelIR], KernelIR]) -> Iterator[None]:
    """Change each result of a rewrite of kernels inside the context, in the table that runs.

    Parameters
    ----------
    name : str
        Of the rewrite.
    """
    entry = all_rewrites()[name]

    @wraps(entry.run)
    def changed(kernel: KernelIR, *args: Any, **options: Any) -> KernelIR:
        return change(entry.run(kernel, *args, **options))

    exchange(name, replace(entry, run=ir_pass(name)(changed)))
    try:
        yield
    finally:
        exchange(name, entry)
