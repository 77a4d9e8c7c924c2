"""Programs of several kernels on shared memories, in Amaranth's simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.golden import evaluate
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
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.plan.operations import Product
from tg2hdl_top import CompileOptions, TopModule, compile_program

I32, I8 = DType.INT32, DType.INT8
SIZE = 6


def elementwise(op, sources, size=SIZE, name="elementwise"):
    """``out[i] = op(in1[i], in2[i])``; slot 0 is the output."""
    i = IRCounter(size, 0, 0)
    loads = [IRBufLoad(n, i, I32) for n in range(1, sources + 1)]
    operands = (*loads, IRConst(3, I32)) if sources == 1 else tuple(loads)
    store = IRBufStore(0, i, IROp(op, I32, operands), I32)
    root = LoopIR.from_items((LoopIR.from_items((*loads, store), counter=i),))
    return KernelIR(tuple(BufferMeta(n, size, I32, n == 0) for n in range(sources + 1)), root, name=name)


def gemv(rows, depth):
    """``out[i] = sum_k w[i, k] * x[k]`` of bytes; slots out, w, x."""
    i, k = IRCounter(rows, 0, 0), IRCounter(depth, 1, 1)
    place = IROp("add", I32, (IROp("mul", I32, (i, IRConst(depth, I32))), k))
    w, x = IRBufLoad(1, place, I8), IRBufLoad(2, k, I8)
    before, after = IRRegLoad(I32), IRRegLoad(I32)
    product = IROp("mul", I32, tuple(IROp("cast", I32, (v,)) for v in (w, x)))
    update = IRRegStore(IROp("add", I32, (before, product)))
    inner = LoopIR.from_items((w, x, before, update), counter=k, axis_type="reduce")
    items = (IRRegStore(IRConst(0, I32)), inner, after, IRBufStore(0, i, after, I32))
    root = LoopIR.from_items((LoopIR.from_items(items, counter=i),))
    buffers = (
        BufferMeta(0, rows, I32, True),
        BufferMeta(1, rows * depth, I8, False),
        BufferMeta(2, depth, I8, False),
    )
    return KernelIR(buffers, root, (RegisterMeta(0, I32),), name="gemv")


def buffer(name, role, initial=None, size=SIZE, dtype=I32):
    return ProgramBuffer(name, dtype, (size,), role, initial)


def golden(program, inputs):
    contents = {}
    for n, b in enumerate(program.buffers):
        array = inputs.get(b.name, b.initial)
        contents[n] = np.zeros(b.depth, b.dtype.numpy()) if array is None else array
    for call in program.calls:
        slots = {meta.idx: n for meta, n in zip(call.kernel.buffers, call.buffers, strict=True)}
        result = evaluate(call.kernel, {idx: contents[n] for idx, n in slots.items()})
        contents.update({slots[idx]: array for idx, array in result.items()})
    return [contents[n] for n in program.outputs]


def words(packed, width):
    return [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]


def simulate(compiled, inputs):
    """Outputs, and cycles from start to done."""
    top, outputs, count = compiled.emit(), [], 0

    async def bench(ctx):
        nonlocal count
        for number, packed in compiled.loads(inputs).items():
            memory = compiled.memory(number)
            port = top.ext_write_ports[memory.slots[0]]
            ctx.set(port["wen"], 1)
            for address, word in enumerate(words(packed, memory.dtype.bit_width)):
                ctx.set(port["waddr"], address)
                ctx.set(port["wdata"], word)
                await ctx.tick()
            ctx.set(port["wen"], 0)
        ctx.set(top.start, 1)
        await ctx.tick()
        ctx.set(top.start, 0)
        count = 1
        while not ctx.get(top.done):
            assert count < 2000, "the program does not end"
            await ctx.tick()
            count += 1
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


def check(program, inputs, options=None):
    compiled = compile_program(program, options)
    outputs, cycles = simulate(compiled, inputs)
    for actual, expected in zip(outputs, golden(program, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert cycles == compiled.predicted_cycles()
    return compiled


X = np.array([1, -2, 30000, 4, -5, 6], np.int32)


def test_chain():
    buffers = (buffer("x", "input"), buffer("t", "temporary"), buffer("y", "output"))
    calls = (KernelCall(elementwise("mul", 1), (1, 0)), KernelCall(elementwise("add", 1), (2, 1)))
    compiled = check(ProgramIR("chain", buffers, calls, (2,)), {"x": X})
    assert [m.name for m in compiled.buffers if m.role.host_writes] == ["x"]
    assert compiled.load_cycles() == SIZE


def test_fan_out_and_several_outputs():
    buffers = (
        buffer("x", "input"),
        buffer("t", "temporary"),
        buffer("double", "output"),
        buffer("square", "output"),
    )
    calls = (
        KernelCall(elementwise("add", 1), (1, 0)),
        KernelCall(elementwise("add", 2), (2, 1, 1)),
        KernelCall(elementwise("mul", 2), (3, 1, 1)),
    )
    check(ProgramIR("fan_out", buffers, calls, (2, 3)), {"x": X})


def test_skip_connection():
    buffers = (buffer("x", "input"), buffer("t", "temporary"), buffer("y", "output"))
    calls = (KernelCall(elementwise("mul", 1), (1, 0)), KernelCall(elementwise("add", 2), (2, 1, 0)))
    check(ProgramIR("skip", buffers, calls, (2,)), {"x": X})


def layer():
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


@pytest.mark.parametrize("weights", ["rom", "loadable"])
@pytest.mark.parametrize("multipliers", [1, 4, 7, 96])
def test_weights_and_lanes(weights, multipliers):
    program, w, x = layer()
    compiled = check(program, {"x": x}, CompileOptions(multipliers=multipliers, weights=weights))
    external = {m.name for m in compiled.buffers if m.role.host_writes}
    assert external == ({"x", "w"} if weights == "loadable" else {"x"})
    assert compiled.kernels[0].multipliers <= multipliers
    if weights == "loadable":
        other = {"x": x, "w": w[::-1].copy()}
        outputs, _ = simulate(compiled, other)
        np.testing.assert_array_equal(outputs[0], golden(program, other)[0])


@pytest.mark.parametrize("read", [1, 2, 3, 4])
@pytest.mark.parametrize("product", [1, 2, 3, 5])
def test_latencies_of_memories_and_products(read, product):
    program, _, x = layer()
    check(program, {"x": x}, CompileOptions(multipliers=3, read_latency=read, product_latency=product))


@pytest.mark.parametrize("read", [1, 2, 3])
@pytest.mark.parametrize("weights", ["rom", "loadable"])
@pytest.mark.parametrize("unroll", [SIZE, 2])
def test_memories_of_one_word(read, weights, unroll):
    """With all lanes at once each buffer is a word; one is written again after it was read."""
    buffers = (
        buffer("x", "input"),
        buffer("w", "weight", np.array([3, 1, -4, 1, 5, -9], np.int32)),
        buffer("t", "temporary"),
        buffer("s", "temporary"),
        buffer("y", "output"),
    )
    x, w, t, s, y = range(5)
    add, scale = elementwise("add", 2), elementwise("mul", 1)
    calls = tuple(
        KernelCall(kernel, used)
        for kernel, used in (
            (add, (t, x, w)),
            (scale, (s, t)),
            (add, (t, s, x)),
            (add, (s, t, w)),
            (add, (y, t, s)),
        )
    )
    options = CompileOptions(unroll_factor=unroll, read_latency=read, weights=weights)
    compiled = check(ProgramIR("words", buffers, calls, (y,)), {"x": X}, options)
    text = rtlil.convert(compiled.emit())
    # The output keeps the registers that the host's reads go through.
    assert re.findall(r"wire width 192 \\([xwts])_r0_", text) == []
    assert len(re.findall(r"wire width 192 \\y_r0_", text)) == (read - 1 if unroll == SIZE else 0)


@pytest.mark.parametrize(("share", "multipliers"), [(True, 4), (False, 8)])
def test_kernels_use_the_same_multipliers(share, multipliers):
    rng = np.random.default_rng(4)
    w1, w2 = (rng.integers(-128, 128, 20 * SIZE).astype(np.int8) for _ in range(2))
    buffers = (
        buffer("x", "input", size=20, dtype=I8),
        buffer("w1", "weight", w1, 20 * SIZE, I8),
        buffer("w2", "weight", w2, 20 * SIZE, I8),
        buffer("y1", "output"),
        buffer("y2", "output"),
    )
    calls = (KernelCall(gemv(SIZE, 20), (3, 1, 0)), KernelCall(gemv(SIZE, 20), (4, 2, 0)))
    program = ProgramIR("two", buffers, calls, (3, 4))
    x = rng.integers(-128, 128, 20).astype(np.int8)
    compiled = check(program, {"x": x}, CompileOptions(multipliers=4, share_multipliers=share))
    assert rtlil.convert(compiled.emit()).count("cell $mul ") == multipliers


@pytest.mark.parametrize(
    ("kernels", "latencies", "choices"),
    [
        (3, {"multipliers": 48}, 0),
        (1, {"multipliers": 96}, 0),
        (2, {"multipliers": 96}, 0),
        (3, {"multipliers": 96}, 3),
        (4, {"multipliers": 96}, 4),
        (3, {"multipliers": 96, "share_multipliers": False}, 0),
        (2, {"multipliers": 4, "product_latency": 5}, 0),
        (3, {"multipliers": 4, "read_latency": 1, "product_latency": 5}, 3),
    ],
)
def test_many_multipliers_take_operands_that_idle_kernels_hold_at_zero(kernels, latencies, choices):
    rng = np.random.default_rng(4)
    weights = [rng.integers(-128, 128, 16 * SIZE).astype(np.int8) for _ in range(kernels)]
    buffers = (
        buffer("x", "input", size=16, dtype=I8),
        *(buffer(f"w{n}", "weight", w, 16 * SIZE, I8) for n, w in enumerate(weights)),
        *(buffer(f"y{n}", "output") for n in range(kernels)),
    )
    outputs = tuple(range(kernels + 1, 2 * kernels + 1))
    calls = tuple(KernelCall(gemv(SIZE, 16), (outputs[n], n + 1, 0)) for n in range(kernels))
    x = rng.integers(-128, 128, 16).astype(np.int8)
    options = CompileOptions(**latencies)
    compiled = check(ProgramIR("many", buffers, calls, outputs), {"x": x}, options)
    text = rtlil.convert(compiled.emit())
    assert text.count("cell $mul ") == options.multipliers * (1 if options.share_multipliers else kernels)
    assert len(set(re.findall(r"wire width 1 \\(chosen\d+)$", text, re.MULTILINE))) == choices


def test_operands_of_the_first_cycle_are_not_held():
    i = IRCounter(16, 0, 0)
    root = LoopIR.from_items(
        (LoopIR.from_items((IRBufStore(0, i, IROp("mul", I32, (i, i)), I32),), counter=i),)
    )
    kernel = KernelIR((BufferMeta(0, 16, I32, True),), root, name="squares")
    buffers = tuple(buffer(f"y{n}", "output", size=16) for n in range(3))
    calls = tuple(KernelCall(kernel, (n,)) for n in range(3))
    compiled = check(ProgramIR("early", buffers, calls, (0, 1, 2)), {}, CompileOptions(product_latency=5))
    issues = {p.placement(n.number).issue for p in compiled.kernels for n in p.all(Product)}
    assert issues == {0}
    assert "chosen" not in rtlil.convert(compiled.emit())


def test_memories_deeper_than_a_block_are_banks():
    depth, stride = 40_000, 2_659
    i = IRCounter(16, 0, 0)
    place = IROp("mul", I32, (i, IRConst(stride, I32)))
    load = IRBufLoad(1, place, I8)
    store = IRBufStore(0, i, load, I8)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    kernel = KernelIR((BufferMeta(0, 16, I8, True), BufferMeta(1, depth, I8, False)), root, name="table")
    table = np.random.default_rng(8).integers(-128, 128, depth).astype(np.int8)
    buffers = (buffer("y", "output", size=16, dtype=I8), buffer("w", "weight", table, depth, I8))
    compiled = check(ProgramIR("deep", buffers, (KernelCall(kernel, (0, 1)),), (0,)), {})
    text = rtlil.convert(compiled.emit())
    assert text.count("memory width 8 size 16384 ") == 2
    assert text.count("memory width 8 size 7232 ") == 1


def test_state_keeps_its_value_between_kernels():
    state = np.arange(SIZE, dtype=np.int32)
    buffers = (buffer("x", "input"), buffer("state", "temporary", state))
    calls = (KernelCall(elementwise("add", 2), (1, 1, 0)), KernelCall(elementwise("mul", 2), (1, 1, 0)))
    check(ProgramIR("state", buffers, calls, (1,)), {"x": X})


def text_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def chain():
    buffers = (buffer("x", "input"), buffer("y", "output"))
    return compile_program(ProgramIR("p", buffers, (KernelCall(elementwise("add", 1), (1, 0)),), (1,)))


def test_inputs_are_checked():
    compiled = chain()
    assert text_of(lambda: compiled.loads({})) == (
        "bad input: input 'x' is missing\n  hint: give an array of shape (6,)"
    )
    assert text_of(lambda: compiled.loads({"x": X[:5]})) == (
        "bad input: input 'x' has shape (5,), expected (6,)\n"
        "  hint: reshape it, or compile the model for this shape"
    )
    assert text_of(lambda: compiled.loads({"x": X.astype(np.float32)})) == (
        "bad input: input 'x' has dtype float32, expected int32\n  hint: convert it with .astype('int32')"
    )


def test_program_without_kernels():
    assert text_of(lambda: compile_program(ProgramIR("p", (), (), ()))) == (
        "bad input: program 'p' has no kernels: its result does not depend on a computation\n"
        "  hint: return a computed tensor, not an input or a constant"
    )


def test_sharing_is_yes_or_no():
    assert text_of(lambda: CompileOptions(share_units="yes")) == (
        "bad input: share_units='yes' is unknown\n  hint: choose True or False"
    )


def test_unknown_kind_of_weights():
    assert text_of(lambda: CompileOptions(weights="flash")) == (
        'bad input: weights=\'flash\' is unknown\n  hint: choose "rom" or "loadable"'
    )


def test_connections_are_checked():
    plan = plan_kernel(elementwise("add", 1))
    assert text_of(lambda: TopModule([])) == (
        "bad input: a design needs at least one kernel\n  hint: give at least one compiled kernel"
    )
    assert text_of(lambda: TopModule([plan, plan], [(0, 5, 1, 1)])) == (
        "bad input: connection names buffer 5 of kernel 0, which does not exist\n"
        "  hint: buffers: [(0, 0), (0, 1), (1, 0), (1, 1)]"
    )
    assert text_of(lambda: TopModule([plan], buf_depths={(0, 1): 7})) == (
        "bad input: buffer 1 of kernel 0 has 6 elements, not 7\n"
        "  hint: leave buf_depths out: the kernels know their buffers"
    )
    longer = plan_kernel(elementwise("add", 1, size=7))
    assert text_of(lambda: TopModule([plan, longer], [(0, 0, 1, 1)])) == (
        "bad input: connected buffers differ: int32[6] 6 of kernel 0 and int32[7] 7 of kernel 1\n"
        "  hint: plan both kernels with the same layout for the buffer"
    )
    packed = plan_kernel(elementwise("add", 1), layouts={1: Layout.linear(6, 2)})
    assert text_of(lambda: TopModule([plan, packed], [(0, 0, 1, 1)])) == (
        "bad input: connected buffers differ: int32[6] 6 of kernel 0 and int32[6] 6/2 of kernel 1\n"
        "  hint: plan both kernels with the same layout for the buffer"
    )
