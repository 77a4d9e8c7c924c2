"""Buffers that are not needed at the same time share a memory, with the same bits and cycles."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from several_kernels import chain, inputs_of, moving
from tg2hdl_ir import KernelCall, ProgramIR
from tg2hdl_lower import Layout
from tg2hdl_top import CompileOptions, compile_program, region_places, shared_memories
from tg2hdl_top.lifetimes import ALWAYS, Span, lifetimes
from tg2hdl_top.memory_blocks import memory_blocks
from tg2hdl_top.region_places import RegionPlaces
from tg2hdl_top.testing import I8, I32, buffer, gemv, golden, simulate

SIZE = 600
FORWARD, BACKWARD = (SIZE, 1, 0), (SIZE, -1, SIZE - 1)
SERIAL = CompileOptions(schedule="serial", share_kernels=False)


def backward_chain(kernels: int = 4) -> ProgramIR:
    """Each kernel reads last what the one before wrote first, so that a region shared too early is overwritten."""
    return chain(
        *(moving(SIZE, [BACKWARD], FORWARD, op) for op in ("add", "sub", "max", "add")[:kernels]), size=SIZE
    )


def same_without(program: ProgramIR, options: CompileOptions, inputs):
    """The design, whose bits are right, and whose cycles are those of one with a memory for each buffer."""
    design = compile_program(program, options)
    apart = compile_program(program, replace(options, share_memories=False))
    found, cycles = simulate(design, inputs)
    for one, other in zip(found, golden(design.program, inputs), strict=True):
        np.testing.assert_array_equal(one, other)
    assert cycles == design.predicted_cycles() == apart.predicted_cycles()
    return design, sum(memory_blocks(apart).values()), sum(memory_blocks(design).values())


def test_temporaries_take_each_others_place():
    program = backward_chain()
    design, before, after = same_without(program, SERIAL, inputs_of(program))
    # Two blocks each; x stays, t0 and t2 have one place, and t1 that of y before there is a result.
    assert (before, after) == (10, 6)
    places = {name: a.region(name) for a in design.arrays for name in a.members}
    assert places["t0"] == places["t2"]
    (decision,) = (d for d in design.decisions if d.rewrite == "share-memories")
    assert decision.alternatives[0].cost.block_rams == 10
    assert decision.chosen.cost.block_rams == 6


@pytest.mark.parametrize("early", [0, 1])
def test_a_region_that_is_shared_too_early_gives_wrong_bits(monkeypatch, early):
    def shorter(design):
        spans = lifetimes(design)
        return {
            name: found if found == ALWAYS else tuple(Span(s.first, s.end - early) for s in found)
            for name, found in spans.items()
        }

    monkeypatch.setattr(region_places, "lifetimes", shorter)
    program = backward_chain()
    design, inputs = compile_program(program, SERIAL), inputs_of(program)
    (found,), _ = simulate(design, inputs)
    assert np.array_equal(found, golden(program, inputs)[0]) == (not early)


def elementwise_chain() -> ProgramIR:
    """Each kernel writes an element after it has read that of the one before, in the same iteration."""
    return chain(*(moving(SIZE, [FORWARD], FORWARD, op) for op in ("add", "sub", "max", "add")), size=SIZE)


def test_a_result_takes_the_place_of_what_it_replaces():
    program = elementwise_chain()
    _, before, after = same_without(program, SERIAL, inputs_of(program))
    # x stays, and all others have one place.
    assert (before, after) == (10, 4)


@pytest.mark.parametrize(
    "second",
    [
        moving(SIZE, [FORWARD], BACKWARD),
        moving(SIZE, [FORWARD, BACKWARD], FORWARD),
        moving(SIZE, [(SIZE, 1, 0)], (2 * SIZE, 1, 0)),
    ],
    ids=["other-order", "two-orders", "other-size"],
)
def test_what_is_written_before_it_has_been_read_keeps_its_place(second):
    first = moving(SIZE, [FORWARD], FORWARD)
    sources, size = len(second.buffers) - 1, second.buffers[0].depth
    buffers = (
        buffer("x", "input", size=SIZE),
        buffer("t", "temporary", size=SIZE),
        buffer("y", "output", size=size),
    )
    program = ProgramIR(
        "kept", buffers, (KernelCall(first, (1, 0)), KernelCall(second, (2, *[1] * sources))), (2,)
    )
    places = RegionPlaces(compile_program(program, replace(SERIAL, share_memories=False)))
    t, y = (next(m for m in places.design.buffers if m.name == name) for name in "ty")
    assert places.first_words([t, y], aligned=True) != (0, 0)


@pytest.mark.parametrize(("later", "meets"), [(17, False), (18, True), (27, True), (36, False)])
def test_a_word_is_not_read_while_some_of_its_lanes_are_written(monkeypatch, later, meets):
    """Steps of nine cycles for each of four lanes; that of two steps before is written after 18 cycles."""

    class Steps:
        steps = np.arange(32)

        def of(self, _):
            return self.steps // 4

    monkeypatch.setattr(region_places, "steps_of", lambda *_: [Steps()])
    plan = SimpleNamespace(
        ii=9,
        layouts={0: Layout((32,), (4,))},
        placement=lambda number: SimpleNamespace(issue=number),
        port_registers=SimpleNamespace(delay=lambda _: 0),
    )
    load, store = (SimpleNamespace(number=cycle, address=0, buffer=0) for cycle in (0, later))
    assert region_places._meet(plan, None, [load], [store]) == meets


def test_a_place_that_is_taken_too_early_gives_wrong_bits(monkeypatch):
    monkeypatch.setattr(region_places, "_same_elements", lambda *_: True)
    monkeypatch.setattr(region_places, "_meet", lambda *_: False)
    program = backward_chain()
    inputs = inputs_of(program)
    (found,), _ = simulate(compile_program(program, SERIAL), inputs)
    assert not np.array_equal(found, golden(program, inputs)[0])


def test_an_input_keeps_its_words():
    """A run may follow in which the host does not write it."""
    design = compile_program(backward_chain(), SERIAL)
    assert lifetimes(design)["x"] == ALWAYS
    assert [array.members for array in design.arrays] == [("t0", "t2"), ("t1", "y")]


def test_lives():
    even, odd = (2 * SIZE, 2, 0), (2 * SIZE, 2, 1)
    names = [("x", "input", SIZE), ("halves", "temporary", 2 * SIZE), ("t", "temporary", SIZE)]
    buffers = (*(buffer(n, role, size=size) for n, role, size in names), buffer("y", "output", size=SIZE))
    calls = (
        KernelCall(moving(SIZE, [FORWARD], even), (1, 0)),
        KernelCall(moving(SIZE, [FORWARD], odd), (1, 0)),
        KernelCall(moving(SIZE, [odd], FORWARD), (2, 1)),
        KernelCall(moving(SIZE, [FORWARD], FORWARD), (3, 2)),
        KernelCall(moving(SIZE, [FORWARD], FORWARD), (2, 0)),
        KernelCall(moving(SIZE, [FORWARD, FORWARD], FORWARD), (3, 2, 3)),
    )
    program = ProgramIR("lives", buffers, calls, (3,))
    design, _, _ = same_without(program, replace(SERIAL, cut_kernels=False), inputs_of(program))
    lives = lifetimes(design)
    # No kernel writes all of `halves`: what it had before might be read.
    assert lives["x"] == lives["halves"] == ALWAYS
    assert lives["t"] == (Span(2, 4), Span(4, 6))
    assert [span.first for span in lives["y"]] == [3]
    assert lives["y"][-1].end > 6


def dense(kinds: list[tuple[int, int, object]], bits: int = 0) -> tuple[ProgramIR, dict]:
    """Layers without activations: matrices of bytes, or fewer bits, which no two kernels read together."""
    rng, buffers, calls = np.random.default_rng(3), [buffer("x", "input", size=kinds[0][1], dtype=I8)], []
    for n, (rows, depth, vector) in enumerate(kinds):
        low = -(1 << (bits - 1 if bits else n + 2))  # weights of 3, 4, 5 bits unless given
        weights = rng.integers(low, -low, rows * depth).astype(np.int8)
        last = n == len(kinds) - 1
        buffers += [
            buffer(f"w{n}", "weight", weights, rows * depth, I8),
            buffer(f"y{n}", "output" if last else "temporary", size=rows),
        ]
        calls.append(KernelCall(gemv(rows, depth, vector), (2 * n + 2, 2 * n + 1, max(0, 2 * n))))
    program = ProgramIR("dense", tuple(buffers), tuple(calls), (len(buffers) - 1,))
    return program, {"x": rng.integers(-9, 9, kinds[0][1]).astype(np.int8)}


def test_rom_of_other_widths_are_stacked():
    program, inputs = dense([(96, 20, I8), (20, 96, I32), (90, 20, I32)])
    options = CompileOptions(schedule="serial", multipliers=20, share_kernels=False)
    design, before, after = same_without(program, options, inputs)
    (rom,) = (a for a in design.arrays if a.memory.role.is_rom)
    widths = {m.word_width for m in design.buffers if m.name in rom.members}
    assert len(widths) > 1
    assert rom.memory.word_width == max(widths)
    assert after < before


def test_three_share_a_memory_where_two_of_them_would_spare_nothing():
    program, inputs = dense([(306, 18, I8), (18, 306, I32), (306, 18, I32)], bits=8)
    options = CompileOptions(schedule="serial", multipliers=18, share_kernels=False)
    design, _, _ = same_without(program, options, inputs)
    (rom,) = (a for a in design.arrays if a.memory.role.is_rom)
    apart = compile_program(program, replace(options, share_memories=False))
    assert [memory_blocks(apart)[name] for name in rom.members] == [4, 4, 4]
    assert memory_blocks(design)[rom.memory.name] == 8  # as 612 words would


def test_places_belong_to_buffers_in_any_order(monkeypatch):
    groups = shared_memories._PairSearch.groups
    monkeypatch.setattr(
        shared_memories._PairSearch, "groups", lambda *args: [group[::-1] for group in groups(*args)]
    )
    program, inputs = dense([(200, 20, I8), (20, 200, I32), (120, 20, I32)])
    options = CompileOptions(schedule="serial", multipliers=20, share_kernels=False)
    design, _, _ = same_without(program, options, inputs)
    (rom,) = (a for a in design.arrays if a.memory.role.is_rom)
    assert len(rom.members) == 3


def test_roms_of_few_words_are_made_of_luts(monkeypatch):
    program, inputs = dense([(64, 16, I8)])
    options = CompileOptions(schedule="serial", multipliers=16)
    assert compile_program(program, options).memory(1).kind == "block"
    monkeypatch.setattr(shared_memories, "BLOCKS_TO_SPARE", 0)
    design, before, after = same_without(program, options, inputs)
    assert design.memory(1).kind == "lut"
    assert design.memory(1).style.ram_style == "logic"
    assert (before, after) == (3, 0)
    (decision,) = (d for d in design.decisions if d.rewrite == "share-memories")
    assert decision.chosen.name == "memories that buffers share, and 1 ROM in LUTs"
    assert (decision.chosen.cost.block_rams, decision.chosen.note) == (after, "about 192 LUTs more")


def test_loadable_weights_have_memories_of_their_own():
    """The words of `t` would fit beside them in a block, as those of `y` beside `x`."""
    size = 200
    forward, backward = (size, 1, 0), (size, -1, size - 1)
    buffers = (
        buffer("x", "input", size=size),
        buffer("w", "weight", np.arange(size, dtype=np.int32), size),
        buffer("t", "temporary", size=size),
        buffer("y", "output", size=size),
    )
    calls = (
        KernelCall(moving(size, [forward, forward], forward), (2, 0, 1)),
        KernelCall(moving(size, [backward], forward), (3, 2)),
    )
    program = ProgramIR("weights", buffers, calls, (3,))
    design = compile_program(program, replace(SERIAL, weights="loadable"))
    assert design.memory(1).kind == design.memory(2).kind == "block"
    assert [array.members for array in design.arrays] == [("x", "y")]


def test_runs_that_overlap_share_nothing():
    program = backward_chain()
    assert compile_program(program, SERIAL).arrays
    design = compile_program(program, CompileOptions(schedule="dataflow"))
    assert design.sequencer.interval
    assert not design.arrays


OVERLAP = CompileOptions(schedule="overlap")


def test_buffers_of_kernels_that_run_at_the_same_time_are_apart():
    program = chain(
        *(moving(SIZE, [FORWARD], FORWARD, op) for op in ("add", "sub", "max", "add") * 2), size=SIZE
    )
    design, _, _ = same_without(program, OVERLAP, inputs_of(program))
    assert not design.arrays
    program = backward_chain()
    design, before, after = same_without(program, OVERLAP, inputs_of(program))
    assert (before, after) == (10, 8)


def test_windows_have_the_name_of_the_memory():
    """Two of three kernels that read `t` wait for each other; it takes the place of `y`."""
    names = ["x", "t", "a", "b", "c", "d", "y"]
    roles = ["input", *["temporary"] * 5, "output"]
    buffers = tuple(buffer(name, role, size=SIZE) for name, role in zip(names, roles, strict=True))
    calls = (
        KernelCall(moving(SIZE, [FORWARD], FORWARD), (1, 0)),
        *(
            KernelCall(moving(SIZE, [BACKWARD], FORWARD, op), (n, 1))
            for n, op in ((2, "add"), (3, "max"), (4, "sub"))
        ),
        KernelCall(moving(SIZE, [BACKWARD, BACKWARD], FORWARD, "max"), (5, 2, 3)),
        KernelCall(moving(SIZE, [BACKWARD, BACKWARD], FORWARD, "sub"), (6, 5, 4)),
    )
    program = ProgramIR("readers", buffers, calls, (6,))
    design, _, _ = same_without(program, OVERLAP, inputs_of(program))
    assert [array.members for array in design.arrays] == [("t", "y")]
    assert [(w.kernel, w.use) for w in design.sequencer.windows] == [(1, "shared0.r0"), (3, "shared0.r0")]
