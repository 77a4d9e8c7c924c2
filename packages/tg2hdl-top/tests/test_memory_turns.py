"""Memories whose write port also reads: half the block RAMs, with the same bits and cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from several_kernels import inputs_of, moving
from tg2hdl_ir import (
    BufferMeta,
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
from tg2hdl_top import CompileOptions, compile_program, memory_turns
from tg2hdl_top.lifetimes import Span
from tg2hdl_top.memory_blocks import memory_blocks
from tg2hdl_top.testing import I32, buffer, golden, simulate

OPTIONS = CompileOptions(target="ecp5", schedule="serial", share_memories=False, unroll_factor=1)


def neighbours(size: int) -> ProgramIR:
    """A kernel that copies, and ``out[i] = in[i] - in[i + 1]``: two reads in a cycle."""
    i = IRCounter(size, 0, 0)
    loads = IRBufLoad(1, i, I32), IRBufLoad(1, IROp("add", I32, (i, IRConst(1, I32))), I32)
    store = IRBufStore(0, i, IROp("sub", I32, loads), I32)
    root = LoopIR.from_items((LoopIR.from_items((*loads, store), counter=i),))
    buffers = BufferMeta(0, size, I32, True), BufferMeta(1, size + 1, I32, False)
    second = KernelIR(buffers, root, name="neighbours")
    first = moving(size + 1, [(size + 1, 1, 0)], (size + 1, 1, 0))
    given = buffer("x", "input", size=size + 1), buffer("t", "temporary", size=size + 1)
    calls = KernelCall(first, (1, 0)), KernelCall(second, (2, 1))
    return ProgramIR("neighbours", (*given, buffer("y", "output", size=size)), calls, (2,))


def simulated(design, made):
    """Whether the bits are right, and the cycles."""
    inputs = inputs_of(made)
    (found,), cycles = simulate(design, inputs)
    return np.array_equal(found, golden(made, inputs)[0]), cycles


def test_half_the_blocks(monkeypatch):
    design = compile_program(neighbours(1600), OPTIONS)
    blocks = memory_blocks(design)["t"]
    monkeypatch.setattr(memory_turns, "LEAST_SPARED", 100)
    assert (blocks, memory_blocks(design)["t"]) == (4, 8)


@pytest.fixture
def spare(monkeypatch):
    """Small memories take turns too."""
    monkeypatch.setattr(memory_turns, "LEAST_SPARED", 0)


def test_bits_and_cycles_stay(spare):
    program = neighbours(80)
    design = compile_program(program, OPTIONS)
    assert memory_turns.turn_port(design, design.memory(1)) == 1
    assert simulated(design, program) == (True, design.predicted_cycles())


def test_the_host_writes_where_a_kernel_reads(spare):
    copied = neighbours(80)
    given = buffer("x", "input", size=81), buffer("y", "output", size=80)
    program = ProgramIR("direct", given, (KernelCall(copied.calls[1].kernel, (1, 0)),), (1,))
    design = compile_program(program, OPTIONS)
    assert memory_turns.turn_port(design, design.memory(0)) == 1
    assert simulated(design, program) == (True, design.predicted_cycles())


@pytest.mark.parametrize("schedule", ["overlap", "dataflow"])
def test_who_reads_while_another_writes_has_a_port(spare, schedule):
    design = compile_program(neighbours(80), replace(OPTIONS, schedule=schedule))
    assert memory_turns.turn_port(design, design.memory(1)) is None


def test_a_port_that_is_not_free_gives_wrong_bits(spare, monkeypatch):
    program = neighbours(80)
    design = compile_program(program, replace(OPTIONS, schedule="overlap"))
    assert simulated(design, program)[0]
    monkeypatch.setattr(memory_turns, "free_port", lambda *_: 1)
    assert not simulated(design, program)[0]


def test_free_ports():
    times = [Span(0, 1), Span(1, 2), Span(1, 2), Span(2, 3)]
    assert memory_turns.free_port(times, {0: {1}, 1: {1, 3}}, {0}) == 1
    assert memory_turns.free_port(times, {0: {3}, 1: {1}}, {2}) == 0
    assert memory_turns.free_port(times, {0: {1}, 1: {2}}, {2}) is None
    assert memory_turns.free_port(times, {}, {2}) is None
