"""Rows of a stream as runs: bits with any pauses of the host, cycles without pauses, and no spare word in a ring."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from several_kernels import inputs_of
from tg2hdl_ir import (
    BufferMeta,
    CapacityError,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    KernelCall,
    KernelIR,
    LoopIR,
    PluginError,
    ProgramIR,
    RegisterMeta,
    UnsupportedError,
    parse_kernel,
)
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.packet_streaming import stream_packets
from tg2hdl_top.sequencer.ledgers import HOST, Ledger, known_accesses
from tg2hdl_top.sequencer.row_times import row_times
from tg2hdl_top.sequencer.rows import RowSequencer
from tg2hdl_top.testing import I8, I32, buffer, elementwise, golden

ROWS = CompileOptions(schedule="rows", ports=("axi-stream",))


def op(name, *sources):
    return IROp(name, I32, tuple(IRConst(s, I32) if isinstance(s, int) else s for s in sources))


def window(rows, width, taps=3, stride=1, padding=1, *, columns=False):
    """Sums of `taps` pixels, one above the other, of every `stride`-th row; pixels outside are 0."""
    made = (rows + 2 * padding - taps) // stride + 1
    r, x, t = IRCounter(made, 0, 0), IRCounter(width, 1, 1), IRCounter(taps, 2, 2)
    row = op("add", op("mul", r, stride), t)
    inside = IROp(
        "and",
        DType.BOOL,
        (
            IROp("lt", DType.BOOL, (IRConst(padding - 1, I32), row)),
            IROp("lt", DType.BOOL, (row, IRConst(rows + padding, I32))),
        ),
    )
    place = op("add", op("add", op("mul", row, width), x), -padding * width)
    load = IRBufLoad(1, place, I8, inside, IRConst(0, I8))
    before, after = IRRegLoad(I32), IRRegLoad(I32)
    update = IRRegStore(op("add", before, IROp("cast", I32, (load,))))
    inner = LoopIR.from_items((load, before, update), counter=t, axis_type="reduce")
    target = op("add", op("mul", x, made), r) if columns else op("add", op("mul", r, width), x)
    items = (IRRegStore(IRConst(0, I32)), inner, after, IRBufStore(0, target, after, I32))
    column = LoopIR.from_items(items, counter=x)
    root = LoopIR.from_items((LoopIR.from_items((column,), counter=r),))
    buffers = BufferMeta(0, made * width, I32, True), BufferMeta(1, rows * width, I8, False)
    kernel = KernelIR(buffers, root, (RegisterMeta(0, I32),), name="window")
    given = buffer("x", "input", size=rows * width, dtype=I8), buffer("y", "output", size=made * width)
    return ProgramIR("window", given, (KernelCall(kernel, (1, 0)),), (1,))


def frames(program, count=4):
    return [inputs_of(program, seed) for seed in range(count)]


def same(program, inputs, found):
    """Whether all results are right."""
    return all(
        np.array_equal(outputs[0], golden(program, given)[0])
        for outputs, given in zip(found.outputs, inputs, strict=True)
    )


@pytest.mark.parametrize(
    ("shape", "lanes"),
    [
        ((8, 8), 1),
        ((7, 6), 2),
        ((9, 8, 3, 2), 1),
        ((6, 12, 2, 2, 0), 2),
        ((8, 5, 1, 1, 0), 1),
        ((6, 8, 5, 1, 2), 4),
    ],
    ids=str,
)
def test_rows_have_the_right_bits_and_the_predicted_cycles(shape, lanes):
    program = window(*shape)
    design = compile_program(program, replace(ROWS, unroll_factor=lanes))
    inputs = frames(program)
    found = stream_packets(design, inputs)
    assert same(program, inputs, found)
    assert set(np.diff(found.sent)) == {design.timeline().interval}
    image = next(m for m in design.buffers if m.name == "x")
    assert image.ring < image.layout.words


@pytest.mark.parametrize("seed", range(4))
def test_pauses_of_the_host_change_no_bit(seed):
    rng = np.random.default_rng(seed)
    program = window(8, 8) if seed % 2 else window(9, 6, 3, 2)
    design = compile_program(program, replace(ROWS, unroll_factor=1 + seed % 2))
    offers, takes = rng.choice([0.1, 0.5, 0.9], 2)
    inputs = frames(program)
    found = stream_packets(design, inputs, lambda c: rng.random() < offers, lambda c: rng.random() < takes)
    assert same(program, inputs, found)


@pytest.mark.parametrize("taker", [HOST, 0])
@pytest.mark.parametrize("name", ["x", "y"])
def test_one_more_element_in_a_ring_is_wrong(name, taker):
    """Each count is as large as it may be: for the elements that are there, and for those that there is room for."""
    program = window(8, 8)
    design = compile_program(program, ROWS)
    plan = design.sequencer
    changed = [
        replace(each, initial=each.initial + (1 if name == "x" and taker == HOST else 8))
        if (each.buffer, each.taker) == (name, taker)
        else each
        for each in plan.ledgers
    ]
    wrong = replace(design, sequencer=replace(plan, ledgers=tuple(changed)))
    inputs = frames(program)
    if (name, taker) == ("x", 0):
        late = (lambda cycle: cycle % 5 == 0), (lambda cycle: True)
    else:
        late = (lambda cycle: True), (lambda cycle: cycle % 400 > 250)
    assert same(program, inputs, stream_packets(design, inputs, *late))
    assert not same(program, inputs, stream_packets(wrong, inputs, *late))


def test_half_a_ring_is_refused():
    program = window(8, 8)
    design = compile_program(program, ROWS)
    for name in ("x", "y"):
        halved = [replace(m, ring=m.ring // 2) if m.name == name else m for m in design.buffers]
        with pytest.raises(PluginError, match="sequencer 'rows' has other ledgers than its plans need"):
            Design.from_json(replace(design, buffers=tuple(halved)).to_json())


def test_packets_of_another_length_leave_the_next_ones_right():
    program = window(6, 4)
    design = compile_program(program, ROWS)
    inputs = frames(program, 4)
    short = {"x": inputs[1]["x"][:10]}
    long = {"x": np.concatenate([inputs[2]["x"], inputs[0]["x"]])}
    found = stream_packets(design, [inputs[0], short, long, inputs[3]])
    assert np.array_equal(found.outputs[0][0], golden(program, inputs[0])[0])
    assert np.array_equal(found.outputs[2][0], golden(program, inputs[2])[0])
    assert np.array_equal(found.outputs[3][0], golden(program, inputs[3])[0])


def test_a_saved_design_keeps_its_ledgers():
    design = compile_program(window(6, 4), ROWS)
    again = Design.from_json(design.to_json())
    assert again.sequencer == design.sequencer
    assert again.predicted_cycles() == design.predicted_cycles()


@pytest.mark.parametrize(
    ("program", "options", "reason"),
    [
        (window(6, 4), replace(ROWS, ports=("native",)), "through the port axi-stream only"),
        (window(6, 4), replace(ROWS, weights="external", on_chip_bits=1000), "cannot be combined with rows"),
        (window(6, 4, columns=True), ROWS, "the rows of 'y' are not written in the order of its elements"),
        (
            ProgramIR(
                "two",
                (buffer("a", "input"), buffer("b", "input"), buffer("y", "output")),
                (KernelCall(elementwise("add", 2), (2, 0, 1)),),
                (2,),
            ),
            ROWS,
            "2 inputs and 1 outputs",
        ),
        (
            ProgramIR(
                "twice",
                (buffer("x", "input"), buffer("t", "temporary"), buffer("y", "output")),
                tuple(KernelCall(elementwise("add", 1), slots) for slots in ((1, 0), (1, 0), (2, 1))),
                (2,),
            ),
            ROWS,
            "several kernels write 't'",
        ),
    ],
)
def test_what_has_no_rows_is_refused(program, options, reason):
    with pytest.raises(UnsupportedError, match=reason):
        compile_program(program, options)


EMPTY = ((), ())
GATHER = """kernel gather
  b0 out: int32[4] output
  b1 places: int32[4]
  b2 x: int32[8]
RANGE i0 < 4 loop
  %0 = LOAD int32 b1[i0]
  %1 = and int32 %0, 7:int32
  %2 = LOAD int32 b2[%1]
  STORE int32 b0[i0] = %2
END i0
"""


@pytest.mark.parametrize(
    ("refused", "kind", "message", "hint"),
    [
        (
            lambda: known_accesses(parse_kernel(GATHER), 2, "x", writes=False),
            UnsupportedError,
            "data decides which elements of 'x' a row needs",
            'choose another schedule, such as schedule="dataflow"',
        ),
        (
            lambda: row_times([2], [5], [Ledger("x", 0, 0, -1, EMPTY, EMPTY)]),
            CapacityError,
            "all rows wait for each other: a buffer has no room for the elements that its reader needs",
            'choose another schedule, such as schedule="dataflow"',
        ),
        (
            lambda: RowSequencer().arrange("rows", [SimpleNamespace(rows=0)], [], None),
            UnsupportedError,
            "a kernel does not run row by row",
            "compile the program with compile_program",
        ),
    ],
)
def test_errors_of_rows(refused, kind, message, hint):
    with pytest.raises(kind) as error:
        refused()
    assert (error.value.message, error.value.hint) == (message, hint)
