"""Programs of several kernels on shared memories, in Amaranth's simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.back import rtlil

from tg2hdl_ir import (
    BufferMeta,
    InputError,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramIR,
)
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.plan.operations import Product
from tg2hdl_top import CompileOptions, TopModule, compile_program
from tg2hdl_top.testing import I8, I32, SIZE, X, buffer, check, elementwise, gemv, golden, layer, simulate


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
    text = rtlil.convert(TopModule(compiled))
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
    compiled = check(
        program, {"x": x}, CompileOptions(multipliers=4, share_multipliers=share, share_kernels=False)
    )
    assert rtlil.convert(TopModule(compiled)).count("cell $mul ") == multipliers


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
def test_many_multipliers_take_operands_that_idle_kernels_hold_at_zero(
    kernels, latencies, choices, monkeypatch
):
    """Fewer multipliers would take fewer cycles here: a product of many has a longer latency."""
    monkeypatch.setattr("tg2hdl_top.search.budgets.smaller_budgets", lambda budget: [])
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
    options = CompileOptions(share_kernels=False, **latencies)
    compiled = check(ProgramIR("many", buffers, calls, outputs), {"x": x}, options)
    text = rtlil.convert(TopModule(compiled))
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
    assert "chosen" not in rtlil.convert(TopModule(compiled))


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
    text = rtlil.convert(TopModule(compiled))
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
        'bad input: weights=\'flash\' is unknown\n  hint: choose "rom", "loadable" or "external"'
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
