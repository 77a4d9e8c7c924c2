"""Random integer kernels: simulated bits and cycles against golden model and prediction."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir import DType
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.testing.strategies import kernels
from tg2hdl_lower import Layout, plan_kernel

INTEGERS = (DType.INT32, DType.INT8, DType.UINT16)
COMMON = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
MOST_CYCLES = 300
"""Of a kernel that is simulated here: the benches go on where divisions in recurrences take thousands."""


@settings(COMMON, max_examples=20)
@given(case=kernels(types=INTEGERS))
def test_one_lane(case, same_as_golden):
    kernel, buffers, variables = case
    plan = plan_kernel(kernel)
    assume(plan.cycles(variables) <= MOST_CYCLES)
    same_as_golden(kernel, plan, buffers, variables, runs=2)


def legal_lanes(kernel):
    """Axes that may have lanes, with their bounds."""
    info = analyze_axes(kernel)
    counters = [loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None]
    return {
        c.axis: c.bound
        for c in counters
        if c.axis in info.independent | info.reducible and isinstance(c.bound, int) and c.bound > 1
    }


@settings(COMMON, max_examples=20)
@given(case=kernels(types=INTEGERS), data=st.data())
def test_lanes_and_packed_memories(case, data, same_as_golden):
    kernel, buffers, variables = case
    kernel = canonicalize(kernel)
    lanes = {axis: data.draw(st.integers(1, bound)) for axis, bound in legal_lanes(kernel).items()}
    layouts = {b.idx: Layout.linear(b.depth, data.draw(st.integers(1, 4))) for b in kernel.buffers}
    plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
    assume(plan.cycles(variables) <= MOST_CYCLES)
    same_as_golden(kernel, plan, buffers, variables)
