"""Golden model on flattened kernels: same results, and outer loops still run at once."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.golden.interchange import interchanged
from tg2hdl_ir.golden.plan import GoldenPlan
from tg2hdl_ir.golden.recurrence import find_recurrence
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.testing.reference import interpret
from tg2hdl_ir.testing.samples import conv3x3, matmul, padded_sum, row_max


def dependence(kernel):
    bounds = {loop.counter.axis: loop.bound for loop in kernel.loop_tree.walk() if loop.counter}
    return Dependence(kernel, bounds)


def parallel(kernel):
    found = dependence(kernel)
    return [loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter and found.parallel(loop)]


@pytest.mark.parametrize(
    ("kernel", "axes"),
    [
        (matmul(3, 4, 2), [0, 1]),
        (matmul(3, 4, 2, "fp32", "fp32"), [0, 1]),
        (conv3x3(4, 2, 2), [0, 1, 2]),
        (row_max(3, 5), [0]),
        (padded_sum(6), [0]),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_flattened_kernels(kernel, axes):
    flat = flatten(kernel)
    rng = np.random.default_rng(0)
    buffers = {m.idx: rng.integers(-9, 9, m.depth).astype(m.dtype.numpy()) for m in kernel.buffers[1:]}
    expected = interpret(kernel, buffers)[0]
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], expected)
    np.testing.assert_array_equal(evaluate(flat, buffers)[0], expected)
    assert parallel(kernel) == parallel(flat) == axes


MASKED = """kernel masked
  b0: int32[6] output
  b1: int32[12]
  r0: int32
RANGE i0 < 3 loop
RANGE i1 < 4 reduce
{before}%0 = GET int32 r0
%1 = eq bool i1, {first}:int32
%2 = where int32 %1, 0:int32, %0
%3 = mulacc int32 i0, 4:int32, i1
%4 = LOAD int32 b1[%3]
%5 = add int32 %2, %4
%6 = eq bool i1, 2:int32
SET r0 = %5{gate}
%7 = eq bool i1, 3:int32
STORE int32 b0[i0] = %5 if %7
END i1
END i0
"""


@pytest.mark.parametrize(
    ("parts", "axes"),
    [
        ({"before": "", "first": 0, "gate": ""}, [0]),
        ({"before": "", "first": 1, "gate": ""}, []),
        ({"before": "", "first": 0, "gate": " if %6"}, []),
        ({"before": "%8 = eq bool i1, 0:int32\nSET r0 = 7:int32 if %8\n", "first": 1, "gate": ""}, [0]),
        ({"before": "%8 = eq bool i1, 1:int32\nSET r0 = 7:int32 if %8\n", "first": 2, "gate": ""}, []),
    ],
)
def test_only_what_is_surely_initialized_runs_at_once(parts, axes):
    kernel = parse_kernel(MASKED.format(**parts))
    assert parallel(kernel) == axes
    buffers = {1: np.arange(12, dtype=np.int32)}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


def test_a_mask_that_also_selects_the_old_value_is_none():
    text = MASKED.format(before="", first=0, gate="").replace("add int32 %2, %4", "add int32 %2, %0")
    kernel = parse_kernel(text)
    assert parallel(kernel) == []
    buffers = {1: np.arange(12, dtype=np.int32)}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


CLEARED = """kernel cleared
  b0: int32[6] output
  b1: int32[24]
  r0: int32
RANGE i0 < 3 loop
RANGE i1 < 2 reduce
RANGE i2 < 4 reduce
%0 = GET int32 r0
%1 = mulacc int32 i0, 2:int32, i1
%2 = mulacc int32 %1, 4:int32, i2
%3 = LOAD int32 b1[%2]
%4 = add int32 %0, %3
%5 = eq bool i1, {last}:int32
%6 = eq bool i2, 3:int32
%7 = and bool %5, %6
%8 = where int32 {when}, {zero}:int32, %4
SET r0 = %8{gate}
STORE int32 b0[i0] = %4 if %7
END i2
END i1
{after}END i0
"""


@pytest.mark.parametrize(
    ("parts", "axes"),
    [
        ({}, [0]),
        ({"gate": " if %9", "when": "%7"}, [0]),
        ({"last": 0}, []),
        ({"zero": 5}, []),
        ({"when": "%5"}, []),
        ({"when": "%6"}, [0]),
        ({"gate": " if %6"}, []),
        ({"after": "SET r0 = 3:int32\n"}, []),
    ],
)
def test_what_is_cleared_in_the_last_step_starts_anew(parts, axes):
    text = CLEARED.format(**{"last": 1, "when": "%7", "zero": 0, "gate": "", "after": ""} | parts)
    if "%9" in text:
        text = text.replace("SET r0", "%10 = lt bool %3, 90:int32\n%9 = or bool %10, %7\nSET r0")
    kernel = parse_kernel(text)
    assert parallel(kernel) == axes
    buffers = {1: np.arange(24, dtype=np.int32) ** 2 % 101}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


TURNS = """kernel turns
  b0: int32[40] output
  b1: int32[40]
  r0: int32[4]
  r1: int32
RANGE i0 < 3 loop
RANGE i1 < 5 reduce
RANGE i2 < 4 loop
%0 = GET int32 r0[{index}]
%1 = eq bool i1, 0:int32
%2 = where int32 %1, {start}, %0
%3 = mulacc int32 i1, 7:int32, i2
%4 = LOAD int32 {source}[%3]
{other}%5 = sub int32 %4, %2
SET r0[i2] = %5
%6 = mulacc int32 i0, {stride}:int32, i2
STORE int32 b0[%6] = %5{gate}
END i2
END i1
END i0
"""


@pytest.mark.parametrize(
    ("parts", "moves"),
    [
        ({}, True),
        ({"gate": " if %1"}, True),
        ({"stride": 3}, False),
        ({"index": "i1"}, False),
        ({"start": "%0"}, False),
        ({"source": "b0"}, False),
        ({"other": "%7 = GET int32 r1\n%8 = add int32 %7, %4\nSET r1 = %8\n", "start": "%8"}, False),
        ({"other": "SET r1 = %4\n%7 = GET int32 r1\n"}, True),
    ],
)
def test_turns_run_at_once_where_the_order_does_not_matter(parts, moves):
    text = TURNS.format(
        **{"index": "i2", "start": "0:int32", "source": "b1", "other": "", "stride": 4, "gate": ""} | parts
    )
    if parts.get("start") == "%8":
        text = text.replace("%2 = where int32 %1, %8, %0\n", "").replace(
            "%5 = sub", "%2 = where int32 %1, %8, %0\n%5 = sub"
        )
    kernel = parse_kernel(
        text.replace("r0: int32[4]", "r0: int32[5]") if parts.get("index") == "i1" else text
    )
    made, _ = interchanged(kernel, {0: 3, 1: 5, 2: 4})
    assert [loop.counter.axis for loop in made.loop_tree.walk() if loop.counter] == (
        [2, 0, 1] if moves else [0, 1, 2]
    )
    buffers = {0: np.arange(40, dtype=np.int32), 1: np.arange(40, dtype=np.int32) ** 2 % 101}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


@pytest.mark.parametrize("seed", range(40))
def test_places_that_meet(seed):
    rng = np.random.default_rng(seed)
    counts, coefficients = rng.integers(2, 5, 3), rng.integers(1, 12, 3)
    offsets = [0, *rng.integers(0, 20, rng.integers(0, 3))]
    stores = "".join(
        f"%{n + 2} = add int32 %1, {c}:int32\nSTORE int32 b0[%{n + 2}] = i0\n" for n, c in enumerate(offsets)
    )
    loops = "".join(f"RANGE i{n} < {c} loop\n" for n, c in enumerate(counts))
    kernel = parse_kernel(
        f"kernel places\n  b0: int32[200] output\n{loops}%7 = mul int32 i0, {coefficients[0]}:int32\n"
        f"%0 = mulacc int32 i1, {coefficients[1]}:int32, %7\n"
        f"%1 = mulacc int32 i2, {coefficients[2]}:int32, %0\n{stores}"
        + "".join(f"END i{n}\n" for n in (2, 1, 0))
    )
    grids = np.indices(counts).reshape(3, -1)
    places = coefficients @ grids + np.array(offsets)[:, None]
    found = dependence(kernel)
    for loop in kernel.loop_tree.walk():
        if loop.counter:
            touched = [set(places[:, grids[loop.counter.axis] == n].ravel()) for n in range(loop.bound)]
            if loop.counter.axis == 0:
                assert found.separate(loop) == (sum(map(len, touched)) == len(set().union(*touched)))
    np.testing.assert_array_equal(evaluate(kernel, {})[0], interpret(kernel, {})[0])


LANES = """kernel lanes
  b0: int32[20] output
  b1: int32[24]
  r0: int32
RANGE i0 < 3 loop
RANGE i1 < 4 reduce
%0 = GET int32 r0
%1 = mulacc int32 i0, 4:int32, i1
%2 = LOAD int32 b1[%1]
%3 = add int32 %0, %2
SET r0 = %3
%4 = mul int32 i0, {stride}:int32
%5 = add int32 %4, {offset}:int32
STORE int32 b0[%4] = %3
STORE int32 b0[%5] = %1{gate}
END i1
END i0
"""


@pytest.mark.parametrize("gate", ["", " if %6"])
@pytest.mark.parametrize(
    ("stride", "offset", "at_once"), [(2, 1, True), (1, 5, True), (1, 2, False), (4, 0, False), (2, 4, False)]
)
def test_stores_that_never_meet_run_one_after_the_other(stride, offset, at_once, gate):
    text = LANES.format(stride=stride, offset=offset, gate=gate)
    kernel = parse_kernel(text.replace("STORE int32 b0[%5]", "%6 = lt bool i1, 2:int32\nSTORE int32 b0[%5]"))
    found = dependence(kernel)
    nest = tuple(loop for loop in kernel.loop_tree.walk() if loop.counter)
    assert all(found.buffers_allow(loop, nest) for loop in nest) == at_once
    buffers = {1: np.arange(24, dtype=np.int32) ** 2 % 101}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


TILED = """kernel tiled
  b0: int32[40] output
  b1: int32[40]
  r0: int32[{size}]
RANGE i0 < 2 loop
RANGE i1 < 3 reduce
RANGE i2 < 2 loop
RANGE i3 < 4 loop
%0 = mulacc int32 i2, {step}:int32, i3
%1 = GET int32 r0[%0]
%2 = eq bool i1, 0:int32
%3 = where int32 %2, 0:int32, %1
%4 = mulacc int32 i1, 8:int32, %0
%5 = LOAD int32 b1[%4]
%6 = sub int32 %5, %3
SET r0[%0] = %6
%7 = mulacc int32 i0, 16:int32, i3
%8 = mulacc int32 i2, {rows}:int32, %7
STORE int32 b0[%8] = %6
END i3
END i2
END i1
END i0
"""


@pytest.mark.parametrize(
    ("parts", "moves"), [({}, True), ({"step": 3}, False), ({"size": 7}, False), ({"rows": 3}, False)]
)
def test_turns_of_two_loops(parts, moves):
    kernel = parse_kernel(TILED.format(**{"step": 4, "size": 8, "rows": 4} | parts))
    made, _ = interchanged(kernel, {0: 2, 1: 3, 2: 2, 3: 4})
    assert [loop.counter.axis for loop in made.loop_tree.walk() if loop.counter] == (
        [2, 3, 0, 1] if moves else [0, 1, 2, 3]
    )
    buffers = {1: np.arange(40, dtype=np.int32) ** 2 % 101}
    if parts != {"size": 7}:
        np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


RESTARTED = """kernel restarted
  b0: int32[3] output
  b1: {type}[12]
  r0: {type}
  r1: int32
RANGE i0 < 3 loop
RANGE i1 < 4 reduce
%0 = GET {type} r0
%8 = mulacc int32 i0, 4:int32, i1
%1 = LOAD {type} b1[%8]
%2 = {sum}
%3 = eq bool i1, {last}:int32
%4 = GET int32 r1
%5 = {wide}
%6 = max int32 %5, %4
SET r1 = %6 if %3
STORE int32 b0[i0] = %6 if %3
%7 = {choice}
SET r0 = %7
END i1
END i0
"""


@pytest.mark.parametrize("last", [0, 1, 3])
@pytest.mark.parametrize(
    ("choice", "total"),
    [
        ("where {type} %3, 5:{type}, %2", "add {type} %0, %1"),
        ("where {type} %3, %1, %2", "add {type} %1, %0"),
        ("where {type} %3, %2, 0:{type}", "mulacc {type} %1, %1, %0"),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int8", "int5"])
def test_sums_that_restart_in_some_steps(choice, total, last, dtype):
    parts = {
        "sum": total.format(type=dtype),
        "choice": choice.format(type=dtype),
        "wide": "add int32 %2, 0:int32" if dtype == "int32" else "cast int32 %2",
    }
    kernel = parse_kernel(RESTARTED.format(type=dtype, last=last, **parts))
    rng = np.random.default_rng(last)
    storage = kernel.buffer(1).dtype.numpy()
    low, high = kernel.buffer(1).dtype.min_value, kernel.buffer(1).dtype.max_value
    buffers = {1: rng.integers(low, high, 12, endpoint=True).astype(storage)}
    bounds = {loop.counter.axis: loop.bound for loop in kernel.loop_tree.walk() if loop.counter}
    plan = GoldenPlan.of(kernel, bounds, lambda *_: None)
    (outer,) = plan.kernel.loop_tree.loops
    assert len(find_recurrence(plan, outer).segments) == 1
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])
