"""What the choice of lanes estimates for the kernels of the benchmark table, and what their plans have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tg2hdl
from tg2hdl.bench import load_workloads
from tg2hdl_ir import IRBufLoad
from tg2hdl_lower import plan_kernel
from tg2hdl_lower.plan.accesses import Load, Replay, Store
from tg2hdl_top.lane_choice import LaneChooser

WORKLOADS = {w.name: w for w in load_workloads(Path(__file__).parents[1] / "benchmarks" / "workloads.py")}
CASES = (
    ("gemv int8 64x32", 8),
    ("mlp int8", 16),
    ("cnn int8", 9),
    ("cnn int8", 36),
    ("gemm int8 32x32x32", 16),
)


def buffer_of(plan, node):
    return buffer_of(plan, plan.nodes[node.source]) if isinstance(node, Replay) else node.buffer


def touched(plan, buffer):
    """Words that a step of the busiest leaf reads and writes; those that are replayed count as reads."""
    leaves = [[plan.nodes[n] for n in leaf.nodes] for leaf in plan.leaves]
    reads = [
        sum(isinstance(n, Load | Replay) and buffer_of(plan, n) == buffer for n in leaf) for leaf in leaves
    ]
    writes = [sum(isinstance(n, Store) and n.buffer == buffer for n in leaf) for leaf in leaves]
    return max(reads), max(writes)


@pytest.mark.parametrize(("name", "multipliers"), CASES)
def test_estimate_and_plan_agree(name, multipliers):
    workload = WORKLOADS[name]
    options = tg2hdl.CompileOptions(multipliers=multipliers)
    inputs = workload.inputs(np.random.default_rng(1))
    accelerator = tg2hdl.compile(workload.model(), *inputs, options=options)
    sources = accelerator.top.design.sources
    assert sources
    for kernel in sources:
        storage = {b.idx: b.dtype for b in kernel.buffers}
        choice = LaneChooser(kernel, {}, storage, {}, options, sparing=True).choose()
        plan = plan_kernel(choice.kernel, options, lanes=choice.lanes, layouts=choice.layouts)
        loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad)]
        padded = {s.buf_idx for s in loads if s.gate is not None}
        for buffer, accesses in choice.accesses.items():
            use = accesses.use(choice.lanes, choice.layouts[buffer])
            found = touched(plan, buffer)
            assert (use.reads, use.writes) == found
        # Replayed words make a step cheaper than estimated, nothing makes it dearer.
        assert plan.ii <= choice.interval
        assert plan.ii == choice.interval or plan.all(Replay) or padded
        assert plan.steps() * choice.interval == choice.cycles
