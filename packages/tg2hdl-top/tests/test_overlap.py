"""Kernels that run at the same time: starts are the smallest at which nothing is read too early, checked by traces.

The reference is not the planner: kernels are simulated one after the other, their ports are watched cycle by cycle, and
the smallest starts are found by trying them on what was seen.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from amaranth.sim import Simulator

from several_kernels import (
    PROGRAMS,
    chain,
    check_restart,
    inputs_of,
    moving,
    random_moves,
    random_program,
    two_products,
)
from tg2hdl_ir import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRVariable,
    KernelCall,
    KernelIR,
    LoopIR,
    ProgramIR,
)
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program
from tg2hdl_top.testing import I8, I32, buffer, check, elementwise, gemv, golden, simulate

OVERLAP = CompileOptions(schedule="overlap")


# The reference


def trace(design):
    """Accesses of every kernel as (cycle after its start, memory, word, is a write), seen while kernels run alone."""
    top = TopModule(replace(design, sequencer=serial(design).sequencer))
    seen = [[] for _ in top.cores]
    slots = {slot: memory.name for memory in design.buffers for slot in memory.slots}

    async def bench(ctx):
        ctx.set(top.start, 1)
        since = dict.fromkeys(range(len(top.cores)))
        for _ in range(20_000):
            for number, core in enumerate(top.cores):
                if ctx.get(core.start):
                    since[number] = 0
                for ports, writes in ((core.reads, False), (core.writes, True)):
                    for (index, port), signals in ports.items():
                        if since[number] is not None and ctx.get(signals.en):
                            place = slots[number, index], ctx.get(signals.addr)
                            seen[number].append((since[number], *place, None if writes else port))
                if since[number] is not None:
                    since[number] += 1
                if ctx.get(core.done):
                    since[number] = None
            if ctx.get(top.done):
                return
            await ctx.tick()
            ctx.set(top.start, 0)
        raise AssertionError("the kernels do not end")

    sim = Simulator(top)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    assert all(seen), "0 accesses were seen"
    return seen


def serial(design):
    """The design with kernels one after the other."""
    options = replace(design.options, schedule="serial")
    plain = replace(design.sequencer, policy="serial", starts=(), latency=0, windows=())
    return replace(design, options=options, sequencer=plain)


def sampling(design):
    """Cycles from an address to the moment at which each memory takes the word, from how LUT RAM is built."""
    return {
        m.name: int(m.kind == "lut" and not m.role.in_place and m.read_latency > 1) for m in design.buffers
    }


def fault(design, seen, starts):
    """What goes wrong when kernels with these accesses start then; None when nothing does."""
    late = sampling(design)
    accesses = defaultdict(list)
    for kernel, (start, found) in enumerate(zip(starts, seen, strict=True)):
        for cycle, memory, word, port in found:
            write = port is None
            accesses[memory, word].append((start + cycle + (0 if write else late[memory]), kernel, write))
    for place, found in accesses.items():
        for cycle, kernel, write in found:
            for other_cycle, other, other_write in found:
                # A word that is written in a cycle is read as before in this cycle.
                wrong = other_cycle <= cycle if write else other_cycle < cycle
                if kernel < other and (write or other_write) and wrong:
                    return f"kernel {other} in cycle {other_cycle}, kernel {kernel} in {cycle} at {place}"
    return None


def tight(design, seen):
    """Kernels that would read or write too early if they alone started a cycle earlier."""
    starts = list(design.sequencer.starts)
    assert fault(design, seen, starts) is None
    early = []
    for kernel in range(1, len(starts)):
        moved = [start - (n == kernel) for n, start in enumerate(starts)]
        if moved[kernel] >= 0 and fault(design, seen, moved):
            early.append(kernel)
    return early


def shifted(design, kernel, cycles=-1):
    """The design with one kernel moved in time, with its windows."""
    plan = design.sequencer
    starts = tuple(start + cycles * (n == kernel) for n, start in enumerate(plan.starts))
    windows = tuple(
        replace(w, first=w.first + cycles, last=w.last + cycles) if w.kernel == kernel else w
        for w in plan.windows
    )
    return replace(design, sequencer=replace(plan, starts=starts, windows=windows))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("multipliers", [1, 4])
def test_kernels_overlap_with_the_same_bits(name, multipliers):
    program = PROGRAMS[name]()
    options = replace(OVERLAP, multipliers=multipliers)
    design = check(program, inputs_of(program), options)
    before = compile_program(program, replace(options, schedule="serial")).predicted_cycles()
    assert design.sequencer.policy == "overlap"
    assert design.predicted_cycles() <= before
    if name != "reversed_stream":
        assert design.predicted_cycles() < before
    assert fault(design, trace(design), design.sequencer.starts) is None


@pytest.mark.parametrize("name", ["stream", "reversed_stream", "fan_out"])
def test_a_cycle_earlier_is_wrong(name):
    """Every kernel that waits for a word gives wrong bits in hardware that starts it a cycle too early."""
    program = PROGRAMS[name]()
    inputs = inputs_of(program)
    design = compile_program(program, OVERLAP)
    found = tight(design, trace(design))
    assert found == [n for n in range(1, len(design.kernels)) if not shares_only(design, n)]
    assert found
    for kernel in found:
        outputs, _ = simulate(shifted(design, kernel), inputs)
        wanted = golden(program, inputs)
        assert any((a != b).any() for a, b in zip(outputs, wanted, strict=True)), f"kernel {kernel}"


def shares_only(design, kernel):
    """Whether a kernel starts with the design, so that it cannot start earlier."""
    return design.sequencer.starts[kernel] == 0


def test_starts_are_the_smallest_of_all():
    """Found again by trying every start on the accesses that were seen."""
    for program in (PROGRAMS[name]() for name in ("stream", "reversed_stream", "fan_out")):
        design = compile_program(program, OVERLAP)
        seen, starts = trace(design), []
        for kernel in range(len(seen)):
            tried = range(2000)
            starts.append(next(s for s in tried if fault(design, seen[: kernel + 1], [*starts, s]) is None))
        assert tuple(starts) == design.sequencer.starts


def test_shared_products_do_not_meet():
    program = two_products()
    design = check(program, inputs_of(program), replace(OVERLAP, multipliers=2))
    windows = {w.kernel: w for w in design.sequencer.windows if w.use == "products"}
    assert windows[0].last + 1 == windows[1].first
    assert design.sequencer.starts[1] < design.timeline().ends[0]
    private = check(program, inputs_of(program), replace(OVERLAP, multipliers=2, share_multipliers=False))
    assert private.sequencer.starts == (0, 0)


def test_readers_wait_where_a_memory_has_no_more_ports():
    size = 600
    place = (size, 1, 0)
    buffers = (buffer("x", "input", size=size), *(buffer(f"y{n}", "output", size=size) for n in range(3)))
    calls = tuple(
        KernelCall(moving(size, [place], place, op), (n, 0)) for n, op in enumerate(("add", "max", "sub"), 1)
    )
    program = ProgramIR("readers", buffers, calls, (1, 2, 3))
    design = check(program, inputs_of(program), replace(OVERLAP, share_memories=False))
    assert design.memory(0).ports == (0, 1)
    assert design.sequencer.starts[:2] == (0, 0)
    windows = sorted((w for w in design.sequencer.windows if w.use == "x.r0"), key=lambda w: w.first)
    assert len(windows) == 2
    assert windows[0].last + 1 == windows[1].first


def test_each_read_of_a_kernel_has_a_port_of_its_own():
    """Two new ports for a kernel whose two reads both meet those of another one."""
    size = 12
    forward, backward = (size, 1, 0), (size, -1, size - 1)
    buffers = (buffer("x", "input", size=size), *(buffer(f"y{n}", "output", size=size) for n in range(2)))
    calls = tuple(
        KernelCall(moving(size, [forward, backward], forward, op), (n, 0, 0))
        for n, op in enumerate(("sub", "max"), 1)
    )
    design = check(
        ProgramIR("readers", buffers, calls, (1, 2)), {"x": np.arange(size, dtype=np.int32) ** 2}, OVERLAP
    )
    assert design.memory(0).ports == (0, 1, 2, 3)
    assert design.sequencer.starts == (0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    moves = random_moves(np.random.default_rng(seed))
    program = moves.program()
    given = inputs_of(program, seed)
    for found, expected in zip(golden(program, given), moves.in_numpy(given["x"]), strict=True):
        np.testing.assert_array_equal(found, expected)
    design = check(program, given, OVERLAP)
    seen = trace(design)
    assert fault(design, seen, design.sequencer.starts) is None
    tight(design, seen)


def test_random_programs_are_tight():
    """In most random programs some kernel cannot start a cycle earlier."""
    found = 0
    for seed in range(6):
        design = compile_program(random_program(np.random.default_rng(seed)), OVERLAP)
        found += bool(tight(design, trace(design)))
    assert found >= 3


# What else a design is


def test_a_design_prints_and_keeps_its_starts(tmp_path):
    design = compile_program(PROGRAMS["layers"](), replace(OVERLAP, multipliers=2))
    lines = design.format().splitlines()
    assert lines[0].startswith(f"DESIGN layers: 3 kernels, overlap, {design.predicted_cycles()} cycles")
    assert f"  start of k2 gemv: cycle {design.sequencer.starts[2]}" in lines
    assert any(line.startswith("  window products of k0: cycles ") for line in lines)
    design.save(tmp_path / "design.json")
    again = Design.load(tmp_path / "design.json")
    assert again.sequencer == design.sequencer
    assert again.format() == design.format()


def test_run_time_bounds_stay_serial_and_the_design_says_so():
    n = IRVariable("n", 1, 8, I32)
    i = IRCounter(n, 0, 0)
    load = IRBufLoad(1, i, I32)
    store = IRBufStore(0, i, IROp("add", I32, (load, IRConst(1, I32))), I32)
    root = LoopIR.from_items((LoopIR.from_items((load, store), counter=i),))
    some = KernelIR(
        (BufferMeta(0, 8, I32, True), BufferMeta(1, 8, I32, False)), root, variables=(n,), name="some"
    )
    buffers = (buffer("x", "input", size=8), buffer("t", "temporary", size=8), buffer("y", "output", size=8))
    program = ProgramIR(
        "p", buffers, (KernelCall(some, (1, 0)), KernelCall(elementwise("add", 1, 8), (2, 1))), (2,), (n,)
    )
    design = compile_program(program, OVERLAP)
    assert design.sequencer.policy == "serial"
    assert (
        "  note: overlap: kernel some has loop bounds that are known at run time only"
        in design.format().splitlines()
    )


def test_runs_follow_each_other():
    check_restart(compile_program(PROGRAMS["stream"](), OVERLAP))


# Orders of steps


def two_layers():
    """Two products of a matrix and a vector in a row."""
    rng = np.random.default_rng(3)
    weights = [rng.integers(-128, 128, rows * depth).astype(np.int8) for rows, depth in ((16, 8), (6, 16))]
    buffers = (
        buffer("x", "input", size=8, dtype=I8),
        buffer("w1", "weight", weights[0], 128, I8),
        buffer("t", "temporary", size=16, dtype=I32),
        buffer("w2", "weight", weights[1], 96, I8),
        buffer("y", "output", size=6),
    )
    calls = (KernelCall(gemv(16, 8), (2, 1, 0)), KernelCall(gemv(6, 16, I32), (4, 3, 2)))
    return ProgramIR("two_layers", buffers, calls, (4,))


def test_a_reduction_goes_outside_where_its_input_comes_slowly():
    """With the reduction innermost, the second product would need all of its input for the first result."""
    program = two_layers()
    design = check(program, inputs_of(program), replace(OVERLAP, share_multipliers=False))
    second = design.kernels[1]
    assert [loop.bound for loop in second.leaves[0].path] == [16, 6]
    alone = compile_program(program, replace(OVERLAP, share_multipliers=False, schedule="serial"))
    assert [loop.bound for loop in alone.kernels[1].leaves[0].path] == [6, 16]
    products = 8 * 16
    assert products < design.predicted_cycles() < products + 40 < alone.predicted_cycles()


def test_a_kernel_keeps_pace_with_its_producer():
    """The second kernel could do a step a cycle, but then it would start, and the third one end, much later."""
    rng = np.random.default_rng(3)
    buffers = (
        buffer("x", "input", size=12, dtype=I8),
        buffer("w1", "weight", rng.integers(-128, 128, 144).astype(np.int8), 144, I8),
        buffer("t", "temporary", size=12),
        buffer("u", "temporary", size=12),
        buffer("w2", "weight", rng.integers(-128, 128, 144).astype(np.int8), 144, I8),
        buffer("y", "output", size=12),
    )
    place = (12, 1, 0)
    calls = (
        KernelCall(gemv(12, 12), (2, 1, 0)),
        KernelCall(moving(12, [place], place, "max"), (3, 2)),
        KernelCall(gemv(12, 12, I32), (5, 4, 3)),
    )
    program = ProgramIR("pace", buffers, calls, (5,))
    design = check(program, inputs_of(program), replace(OVERLAP, share_multipliers=False))
    assert design.kernels[1].ii == 12
    assert design.predicted_cycles() < 144 + 40


# The default


@pytest.mark.parametrize("name", PROGRAMS)
def test_starts_are_fixed_by_default_where_that_saves_cycles(name):
    program = PROGRAMS[name]()
    design = check(program, inputs_of(program), CompileOptions(multipliers=2))
    after_another = compile_program(program, CompileOptions(multipliers=2, schedule="serial"))
    assert design.sequencer.policy == "overlap"
    assert [k.format() for k in design.kernels] == [k.format() for k in after_another.kernels]
    assert design.predicted_cycles() < after_another.predicted_cycles()


def test_kernels_follow_each_other_by_default_where_starts_save_nearly_nothing():
    size = 1024
    design = compile_program(chain(*[elementwise("add", 1, size)] * 2, size=size))
    starts = compile_program(chain(*[elementwise("add", 1, size)] * 2, size=size), OVERLAP)
    assert design.sequencer.policy == "serial"
    assert starts.predicted_cycles() < design.predicted_cycles()
