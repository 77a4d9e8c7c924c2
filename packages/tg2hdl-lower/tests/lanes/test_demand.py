"""What the choice of lanes estimates and what the scheduler finds: words of a buffer that a step touches."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tg2hdl_ir import DType
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.testing.samples import matmul, padded_convolution
from tg2hdl_ir.testing.strategies import kernels
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.lanes.demand import buffer_accesses
from tg2hdl_lower.memory.demand import BufferDemand, port_interval
from tg2hdl_lower.plan.accesses import Load, Replay, Store
from tg2hdl_lower.schedule.ports import port_demands


def buffer_of(plan, node):
    return buffer_of(plan, plan.nodes[node.source]) if isinstance(node, Replay) else node.buffer


def touched(plan, buffer):
    """Words that a step of the busiest leaf reads and writes; those that are replayed count as reads."""
    nodes = [[plan.nodes[n] for n in leaf.nodes] for leaf in plan.leaves]
    reads = [
        sum(isinstance(n, Load | Replay) and buffer_of(plan, n) == buffer for n in leaf) for leaf in nodes
    ]
    writes = [sum(isinstance(n, Store) and n.buffer == buffer for n in leaf) for leaf in nodes]
    return max(reads), max(writes)


def test_random_kernels():
    outcomes = Counter()

    @settings(
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        max_examples=100,
    )
    @given(case=kernels(types=(DType.INT32, DType.INT8, DType.UINT16)), data=st.data())
    def compare(case, data):
        kernel = canonicalize(case[0])
        info = analyze_axes(kernel)
        counters = [loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None]
        legal = [
            c for c in counters if c.axis in info.independent | info.reducible and isinstance(c.bound, int)
        ]
        lanes = {c.axis: data.draw(st.integers(1, c.bound)) for c in legal}
        layouts = {b.idx: Layout.linear(b.depth, data.draw(st.integers(1, 4))) for b in kernel.buffers}
        plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
        accesses = buffer_accesses(kernel)
        for buffer in layouts:
            use = accesses[buffer].use(lanes, layouts[buffer])
            found = touched(plan, buffer)
            assert (use.reads, use.writes) == found
            outcomes[bool(use.reads or use.writes)] += 1

    compare()
    assert outcomes[True] > 40, outcomes


def test_the_scheduler_starts_from_what_is_estimated():
    """Both take the interval from one function; only replayed words make a step cheaper than estimated."""
    for kernel, lanes, layouts in (
        (matmul(4, 6, 5), {0: 2, 2: 3}, {0: Layout.linear(24, 1), 1: Layout.linear(30, 5)}),
        (padded_convolution(1, (6, 5), (3, 3), (0, 0)), {3: 3, 4: 3}, {2: Layout.linear(9, 9)}),
    ):
        layouts = {b.idx: layouts.get(b.idx, Layout.linear(b.depth)) for b in kernel.buffers}
        ports = dict.fromkeys(layouts, 2)
        accesses = buffer_accesses(canonicalize(kernel))
        estimated = port_interval(((b, accesses[b].use(lanes, lay)) for b, lay in layouts.items()), ports)
        plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
        assert port_interval(port_demands(plan), ports).cycles == estimated.cycles
        assert estimated.cycles > 1


def test_interval_of_ports():
    demands = [(0, BufferDemand(3, 0)), (1, BufferDemand(1, 2)), (2, BufferDemand(9, 1))]
    assert port_interval(demands, {0: 2, 1: 2, 2: 4}) == (3, "9 reads of buffer 2, which has 4 ports")
    assert port_interval(demands[:2], {0: 4, 1: 2}) == (2, "2 writes of buffer 1, which has 1 port")
    assert port_interval(demands[:1], {0: 3}) == (1, "")


def test_what_gates_imply_partly_changes_only_buffers_with_gates():
    kernel = canonicalize(padded_convolution(1, (6, 5), (3, 3), (1, 1)))
    loose, tight = buffer_accesses(kernel), buffer_accesses(kernel, partly=True)
    gated = {idx for idx, use in loose.items() if use.gated}
    assert gated
    assert gated != set(loose)
    assert {idx for idx in loose if tight[idx] is not loose[idx]} == gated
