"""Only what registers certainly hold, and what is certainly chosen, counts as forwarded."""

from __future__ import annotations

import pytest

from tg2hdl_ir import IRBufLoad, parse_kernel
from tg2hdl_ir.analysis.forwarding import forwarded_steps
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.forward_stores import forward_stores
from tg2hdl_ir.pipeline import canonicalize, run_stage

ADDED = """kernel added
  b0: {kind}[{depth}] output
  b1: {index}[20]
  b2: {kind}[20]
RANGE i1 < 4 loop
RANGE i0 < 5 reduce
%5 = mul int32 i1, 5:int32
%6 = add int32 %5, i0
%0 = LOAD {index} b1[%6]
%1 = LOAD {kind} b2[%6]
%2 = cast int32 %0
%3 = LOAD {kind} b0[%2]
%4 = {op} {kind} %3, %1
STORE {kind} b0[%2] = %4
END i0
END i1
"""

TWO = """kernel two
  b0: int32[4] output
  b1: int8[20]
  r0: int3
  r1: int3
  r2: int32
  r3: int32
RANGE i0 < 20 reduce
%0 = GET int3 r0
%1 = GET int3 r1
%2 = GET int32 r2
%3 = GET int32 r3
%4 = LOAD int8 b1[i0]
%5 = lt bool -1:int8, %4
%6 = lt bool %4, 4:int8
%7 = and bool %5, %6
%8 = LOAD int32 b0[%4] if %7 else 0:int32 forwarded 2
%9 = cast int3 %4
%10 = eq bool i0, 0:int32
%11 = where int3 %10, -1:int3, %0
%12 = where int3 %10, -1:int3, %1
%13 = eq bool %9, %11
%14 = eq bool %9, %12
%15 = and bool %7, %13
%16 = and bool %7, %14
%17 = where int32 %16, %3, %8
%18 = where int32 %15, %2, %17
%19 = add int32 %18, 1:int32
STORE int32 b0[%4] = %19 if %7
%20 = where int3 %7, %9, -1:int3
SET r0 = %20
SET r1 = %11
SET r2 = %19
SET r3 = %2
END i0
"""


def proven(kernel):
    """Steps of each forwarded load."""
    loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad) and s.forwarded]
    return [forwarded_steps(kernel, load) for load in loads]


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(
    ("index", "kind", "op", "depth"),
    [("int8", "int32", "add", 50), ("uint32", "fp32", "add", 1), ("int64", "fp16", "max", 64)],
)
def test_what_the_rewrite_makes(steps, index, kind, op, depth):
    kernel = parse_kernel(ADDED.format(index=index, kind=kind, op=op, depth=depth))
    made = forward_stores(flatten(canonicalize(kernel)), steps)
    assert proven(run_stage("registers", made, regroup_floats=False, floats=True)) == [steps]


CHANGED = {
    "nothing": ("", "", 2),
    "it claims less": ("forwarded 2", "forwarded 1", 1),
    "it claims more": ("forwarded 2", "forwarded 5", 2),
    "a younger value after an older one": (
        "%17 = where int32 %16, %3, %8\n%18 = where int32 %15, %2, %17",
        "%17 = where int32 %15, %2, %8\n%18 = where int32 %16, %3, %17",
        0,
    ),
    "the value of another step": ("where int32 %16, %3, %8", "where int32 %16, %2, %8", 0),
    "a value is not chosen": ("where int32 %15, %2, %17", "where int32 %15, %17, %17", 0),
    "a value is not stored": ("SET r2 = %19", "SET r2 = %18", 0),
    "values do not move on": ("SET r3 = %2", "SET r3 = %3", 0),
    "values move on twice": ("SET r3 = %2", "SET r3 = %19", 0),
    "places do not move on": ("SET r1 = %11", "SET r1 = %12", 0),
    "a place is lost in the first step of the next run": ("SET r1 = %11", "SET r1 = %0", 0),
    "places of the run before": ("where int3 %10, -1:int3, %0", "where int3 %7, -1:int3, %0", 0),
    "places start in each second step": ("eq bool i0, 0:int32", "eq bool %4, 0:int8", 0),
    "places start at an element": ("where int3 %10, -1:int3, %0", "where int3 %10, 0:int3, %0", 0),
    "the place of a closed store": ("SET r0 = %20", "SET r0 = %9", 0),
    "the place under another gate": ("where int3 %7, %9, -1:int3", "where int3 %6, %9, -1:int3", 0),
    "places that are too narrow": ("b0: int32[4]", "b0: int32[5]", 0),
    "a closed load": ("and bool %7, %13", "and bool %6, %13", 0),
    "another user of the memory": ("add int32 %18, 1:int32", "add int32 %18, %8", 0),
    "a register that is written at times": ("SET r2 = %19", "SET r2 = %19 if %7", 0),
    "a second store": ("SET r0 = %20", "STORE int32 b0[i0] = %19 if %6\nSET r0 = %20", 0),
    "a store elsewhere": ("STORE int32 b0[%4]", "STORE int32 b0[%9]", 0),
    "an inner loop": ("RANGE i0 < 20 reduce", "RANGE i1 < 2 loop\nRANGE i0 < 20 reduce", 0),
    "rows": ("RANGE i0 < 20 reduce", "RANGE i1 < 2 rows\nRANGE i0 < 20 reduce", 0),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_kernel_that_was_changed(change):
    before, after, steps = CHANGED[change]
    assert before in TWO
    text = TWO.replace(before, after, 1)
    if "RANGE i1" in text:
        text = text.replace("END i0\n", "END i0\nEND i1\n")
    assert proven(parse_kernel(text)) == [steps]
