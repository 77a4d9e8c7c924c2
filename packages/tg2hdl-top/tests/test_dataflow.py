"""Runs that follow each other at a fixed interval: bits, interval and latency, also when the host is late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from several_kernels import PROGRAMS, inputs_of, random_moves, random_program, two_products
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
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.packet_streaming import stream_packets
from tg2hdl_top.ports.axi_stream import AxiStreamPort
from tg2hdl_top.streaming import stream
from tg2hdl_top.testing import I8, I32, buffer, elementwise, gemv, golden

DATAFLOW = CompileOptions(schedule="dataflow")


def check_stream(program, options, runs=4, delay=lambda run: 0, seed=0):
    """Runs of random inputs, compared with the golden model; returns the design and what was seen."""
    design = compile_program(program, options)
    inputs = [inputs_of(program, seed + n) for n in range(runs)]
    found = stream(design, inputs, delay)
    for number, (outputs, given) in enumerate(zip(found.outputs, inputs, strict=True)):
        for actual, expected in zip(outputs, golden(program, given), strict=True):
            np.testing.assert_array_equal(actual, expected, err_msg=f"run {number}")
    latencies = {done - start for start, done in zip(found.starts, found.dones, strict=True)}
    assert latencies == {design.predicted_cycles()}
    return design, found


def single_kernel():
    """A product of a matrix and a vector."""
    weights = np.random.default_rng(2).integers(-128, 128, 8 * 24).astype(np.int8)
    buffers = (
        buffer("x", "input", size=24, dtype=I8),
        buffer("w", "weight", weights, 8 * 24, I8),
        buffer("y", "output", size=8),
    )
    return ProgramIR("single", buffers, (KernelCall(gemv(8, 24), (2, 1, 0)),), (2,))


@pytest.mark.parametrize("name", ["stream", "reversed_stream", "fan_out", "layers"])
@pytest.mark.parametrize("multipliers", [1, 4])
def test_runs_overlap_at_the_predicted_interval(name, multipliers):
    program = PROGRAMS[name]()
    design, found = check_stream(program, replace(DATAFLOW, multipliers=multipliers))
    interval = design.timeline().interval
    assert design.sequencer.policy == "dataflow"
    assert interval < design.predicted_cycles()
    assert interval >= max(plan.cycles() for plan in design.kernels)
    # The host writes a word a cycle, which may take longer than the kernels; runs begin with an interval.
    gaps = np.diff(found.starts)
    words = max(
        memory.layout.words for memory in design.buffers if memory.role.host_writes or memory.role.host_reads
    )
    if words + 4 < interval:
        assert set(gaps) == {interval}
    assert not (gaps % interval).any()
    assert any(later < done for later, done in zip(found.starts[1:], found.dones, strict=False))


def test_shared_products_of_neighbouring_runs_do_not_meet():
    design, found = check_stream(two_products(), replace(DATAFLOW, multipliers=2))
    windows = [w for w in design.sequencer.windows if w.use == "products"]
    interval = design.timeline().interval
    lengths = sum(w.last - w.first + 1 for w in windows)
    assert lengths <= interval < lengths + 10
    used = [(w.first + offset) % interval for w in windows for offset in range(w.last - w.first + 1)]
    assert len(set(used)) == len(used)
    assert set(np.diff(found.starts)) == {interval}


@pytest.mark.parametrize("seed", range(6))
def test_a_late_host_changes_no_number(seed):
    """It starts runs whenever it likes, right away or after the design has come to rest."""
    rng = np.random.default_rng(seed)
    name = sorted(set(PROGRAMS) - {"two_writers"})[seed % 4]
    delays = [int(rng.choice([0, 1, 7, 40, 300])) + int(rng.integers(5)) for _ in range(6)]
    check_stream(PROGRAMS[name](), DATAFLOW, 6, lambda run: delays[run], seed)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_stream(seed):
    moves = random_moves(np.random.default_rng(seed), writes_input=False)
    design, found = check_stream(moves.program(), DATAFLOW, 5, seed=seed)
    for n, outputs in enumerate(found.outputs):
        given = inputs_of(moves.program(), seed + n)
        np.testing.assert_array_equal(outputs, moves.in_numpy(given["x"]))
    assert design.sequencer.policy == "dataflow"


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_that_write_their_input(seed):
    """Those that need what the run before left take one run at a time, and say so."""
    design, _ = check_stream(random_program(np.random.default_rng(seed)), DATAFLOW, 3, seed=seed)
    assert design.sequencer.interval or design.sequencer.notes


def test_a_single_kernel_starts_again_when_it_is_done():
    """The host writes the next input and reads the last result while it runs, in the other bank."""
    design, found = check_stream(single_kernel(), DATAFLOW)
    assert design.timeline().interval == design.predicted_cycles()
    assert {
        memory.banks for memory in design.buffers if memory.role.host_writes or memory.role.host_reads
    } == {2}
    assert set(np.diff(found.starts)) == {design.predicted_cycles()}


def test_an_interval_a_cycle_shorter_is_wrong():
    """Windows of the products then meet: the interval is no longer than it has to be."""
    program = two_products()
    design = compile_program(program, replace(DATAFLOW, multipliers=2))
    plan = design.sequencer
    shorter = replace(design, sequencer=replace(plan, interval=plan.interval - 1))
    inputs = [inputs_of(program, n) for n in range(4)]
    outputs = stream(shorter, inputs).outputs
    wanted = [golden(program, given) for given in inputs]
    assert any(
        (a != b).any()
        for run, right in zip(outputs, wanted, strict=True)
        for a, b in zip(run, right, strict=True)
    )


def test_fewer_banks_are_wrong():
    """Every bank is needed: with half of them some run reads what another one has written."""
    program = PROGRAMS["reversed_stream"]()
    design = compile_program(program, DATAFLOW)
    inputs = [inputs_of(program, n) for n in range(6)]
    wanted = [golden(program, given) for given in inputs]
    # This host reads results at once; one that reads them right before the next ones needs the banks of y too.
    several = [memory for memory in design.buffers if memory.banks > 1 and memory.name != "y"]
    assert [memory.name for memory in several] == ["t0", "x"]
    for memory in several:
        buffers = tuple(replace(m, banks=m.banks // 2) if m is memory else m for m in design.buffers)
        outputs = stream(replace(design, buffers=buffers), inputs).outputs
        found = zip(outputs, wanted, strict=True)
        assert any((a != b).any() for run, right in found for a, b in zip(run, right, strict=True)), (
            memory.name
        )


def test_a_program_that_updates_its_state_takes_one_run_at_a_time():
    buffers = (buffer("x", "input"), buffer("state", "input"), buffer("y", "output"))
    calls = (KernelCall(elementwise("add", 1), (2, 1)), KernelCall(elementwise("mul", 1), (1, 0)))
    program = ProgramIR("state", buffers, calls, (2, 1))
    design = compile_program(program, DATAFLOW)
    assert design.sequencer.policy == "overlap"
    assert design.sequencer.notes == (
        "dataflow: state keeps its contents from run to run, so that runs do not overlap",
    )


def test_two_kernels_read_a_word_that_no_register_keeps():
    """Each at its own port: they may be in different runs, and then in different banks."""
    one, size = 1, 30
    i = IRCounter(size, 0, 0)
    last_first = IROp("sub", I32, (IRConst(size - 1, I32), i))

    def added(place):
        first, other = IRBufLoad(1, IRConst(0, I32), I32), IRBufLoad(2, place, I32)
        store = IRBufStore(0, i, IROp("add", I32, (first, other)), I32)
        root = LoopIR.from_items((LoopIR.from_items((first, other, store), counter=i),))
        metas = (
            BufferMeta(0, size, I32, True),
            BufferMeta(1, one, I32, False),
            BufferMeta(2, size, I32, False),
        )
        return KernelIR(metas, root, name="added")

    buffers = (
        buffer("x", "input", size=size),
        buffer("one", "input", size=one),
        buffer("t", "temporary", size=one),
        buffer("u", "temporary", size=size),
        buffer("y", "output", size=size),
    )
    calls = (
        KernelCall(elementwise("add", 1, one), (2, 1)),
        KernelCall(added(i), (3, 2, 0)),
        KernelCall(added(last_first), (4, 2, 3)),
    )
    program = ProgramIR("word", buffers, calls, (4,))
    design, found = check_stream(program, DATAFLOW, 5)
    word = next(memory for memory in design.buffers if memory.name == "t")
    assert word.kind == "run-constant"
    assert word.banks > 1
    assert len(word.ports) == 2
    assert min(np.diff(found.starts)) < design.predicted_cycles()


def test_a_port_that_knows_no_slots_is_refused():
    with pytest.raises(InputError) as caught:
        compile_program(PROGRAMS["stream"](), replace(DATAFLOW, ports=("uart",)))
    assert str(caught.value).splitlines()[:2] == [
        "bad input: host port 'uart' starts runs one after the other; with schedule='dataflow' they overlap",
        '  hint: choose schedule="overlap", or the port native or axi-stream',
    ]


def test_a_design_prints_and_keeps_interval_and_banks(tmp_path):
    design = compile_program(PROGRAMS["stream"](), DATAFLOW)
    text = design.format()
    assert f"  a run every {design.sequencer.interval} cycles" in text.splitlines()
    assert "words of 32 bits in each of 2 banks" in text
    design.save(tmp_path / "design.json")
    again = Design.load(tmp_path / "design.json")
    assert again.sequencer == design.sequencer
    assert [m.banks for m in again.buffers] == [m.banks for m in design.buffers]


def elements_alone():
    """An operation on each element, which takes fewer cycles than its inputs."""
    buffers = buffer("x", "input", size=24), buffer("y", "output", size=24)
    return ProgramIR("alone", buffers, (KernelCall(elementwise("mul", 1, 24), (1, 0)),), (1,))


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("program", [single_kernel(), elements_alone()], ids=lambda program: program.name)
def test_packets_are_loaded_and_read_during_runs(program, stalls):
    """Interval = max(load, run, read), for a single kernel too."""
    design = compile_program(program, replace(DATAFLOW, ports=("axi-stream",), multipliers=4))
    inputs = [inputs_of(program, seed) for seed in range(5)]
    rng = np.random.default_rng(1)
    pattern = (lambda cycle: rng.random() < 0.6) if stalls else (lambda cycle: True)
    found = stream_packets(design, inputs, pattern, pattern)
    for outputs, given in zip(found.outputs, inputs, strict=True):
        for actual, expected in zip(outputs, golden(program, given), strict=True):
            np.testing.assert_array_equal(actual, expected)
    if not stalls:
        times = design.timeline()
        serves = design.ports[0].serves
        interval = AxiStreamPort.run_interval(serves, times.latency, times.interval)
        assert set(np.diff(found.sent)) == {interval}
        assert interval < AxiStreamPort.run_interval(serves, times.latency)
