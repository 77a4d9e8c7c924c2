"""Placements against a walk over all steps: every operand is there in time, and nothing is used twice in a cycle."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tg2hdl_ir import parse_kernel
from tg2hdl_lower import LowerOptions, plan_kernel
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.operations import Product
from tg2hdl_lower.plan.registers import AccumulatorRegister, RegisterRead, RegisterWrite

FILTER = """
kernel filter
  b0: int32[24] output
  b1: int8[26]
  b2: int8[3]
  b3: int32[1] output
  r0: int32
  r1: int32
SET r1 = 0:int32
RANGE i0 < 24 loop
%0 = LOAD int8 b1[i0]
%1 = LOAD int8 b2[0:int32]
%2 = add int32 i0, 1:int32
%3 = LOAD int8 b1[%2]
%4 = LOAD int8 b2[1:int32]
%5 = add int32 i0, 2:int32
%6 = LOAD int8 b1[%5]
%7 = LOAD int8 b2[2:int32]
%8 = cast int32 %0
%9 = cast int32 %1
%10 = mul int32 %8, %9
%11 = cast int32 %3
%12 = cast int32 %4
%13 = mul int32 %11, %12
%14 = cast int32 %6
%15 = cast int32 %7
%16 = mul int32 %14, %15
%17 = add int32 %10, %13
%18 = add int32 %17, %16
STORE int32 b0[i0] = %18
%19 = GET int32 r1
%20 = max int32 %19, %18
SET r1 = %20
END i0
SET r0 = 5:int32
RANGE i1 < 6 reduce
%21 = GET int32 r0
%22 = LOAD int32 b0[i1]
%23 = mul int32 %21, %22
%24 = xor int32 %23, %22
SET r0 = %24
END i1
%25 = GET int32 r0
%26 = GET int32 r1
%27 = add int32 %25, %26
STORE int32 b3[0:int32] = %27
"""


def leaves_in_order(plan):
    """Leaf of each step, by a walk over the loops."""
    numbers = {id(leaf.path[-1]): leaf.number for leaf in plan.leaves if leaf.path}

    def walk(loop):
        for inner in loop.loops:
            for _ in range(inner.bound):
                if inner.loops:
                    yield from walk(inner)
                else:
                    yield numbers[id(inner)]

    return list(walk(plan.kernel.loop_tree)) or [0]


OPTIONS = [
    {"multipliers": multipliers, "read_latency": latency, "stage_levels": levels}
    for multipliers, latency, levels in product((None, 2), (1, 3), (2, 9))
]


@pytest.mark.parametrize("lanes", [{}, {0: 4}])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_placements(options, lanes):
    plan = plan_kernel(parse_kernel(FILTER), LowerOptions(**options), lanes=lanes)
    order = leaves_in_order(plan)
    assert len(order) == plan.steps()
    for node in plan.live():
        placed = plan.placement(node.number)
        taken = placed.stage if node.takes_operands_late else placed.issue
        for operand in node.operands:
            assert plan.placement(operand).stage <= taken, f"{node} takes %{operand} before it is there"
    used = Counter()
    written, read = {}, {}
    for step, leaf in enumerate(order):
        for number in plan.leaves[leaf].nodes:
            node, placed = plan.nodes[number], plan.placement(number)
            cycle = step * plan.ii + placed.issue
            if isinstance(node, Load | Store):
                used["port", node.buffer, placed.port, isinstance(node, Load), cycle] += 1
            if isinstance(node, Product):
                used["multiplier", placed.port, cycle] += 1
            if isinstance(node, RegisterRead):
                read[node.register, step] = cycle
            if isinstance(node, RegisterWrite):
                written[node.register, step] = cycle
    assert max(used.values()) == 1, [use for use, count in used.items() if count > 1]
    for (register, step), cycle in read.items():
        if isinstance(plan.accumulators[register], AccumulatorRegister):
            before = [at for (r, s), at in written.items() if r == register and s < step]
            after = [at for (r, s), at in written.items() if r == register and s >= step]
            assert max(before, default=-1) < cycle <= min(after, default=cycle), f"r{register} of step {step}"
    if options["multipliers"]:
        assert len(plan.products) <= options["multipliers"]
