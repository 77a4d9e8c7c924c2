"""Equal kernels on one core: the golden model's bits, in the predicted cycles, with the memories that the plan says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.golden import evaluate_program
from tg2hdl_ir.parser import parse_kernel
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program
from tg2hdl_top.testing import simulate

SIZE = 6

STEP = """kernel step
  b0 y: int32[6] output
  b1 x: int32[30]
  b2 w: int32[6]
  b3 h: int32[6]
  0  RANGE i0 < 6 loop
  1    %0 = add int32 i0, {offset}:int32
  2    %1 = LOAD int32 b1[%0]
  3    %2 = LOAD int32 b2[i0]
  4    %3 = LOAD int32 b3[i0]
  5    %4 = mul int32 %3, %2
  6    %5 = add int32 %4, %1
  7    %6 = and int32 %5, 1023:int32
  8    STORE int32 b0[i0] = %6
  9  END i0
"""


def recurrence(steps: int, *, weights: int = 1) -> ProgramIR:
    """h = (h * w + x[t]) & 1023, with `weights` sets of weights in turn."""
    rng = np.random.default_rng(3)
    buffers = [
        ProgramBuffer("x", DType.INT32, (5 * SIZE,), "input"),
        ProgramBuffer("h", DType.INT32, (SIZE,), "input"),
        ProgramBuffer("y", DType.INT32, (SIZE,), "output"),
    ]
    first = len(buffers)
    for n in range(weights):
        array = rng.integers(-9, 9, SIZE).astype(np.int32)
        buffers.append(ProgramBuffer(f"w{n}", DType.INT32, (SIZE,), "weight", array))
    calls, before = [], 1
    for step in range(steps):
        after = 2
        if step < steps - 1:
            after = len(buffers)
            buffers.append(ProgramBuffer(f"t{step}", DType.INT32, (SIZE,), "temporary"))
        kernel = parse_kernel(STEP.format(offset=SIZE * (step % 5)))
        calls.append(KernelCall(kernel, (after, 0, first + step % weights, before)))
        before = after
    return ProgramIR("recurrence", tuple(buffers), tuple(calls), (2,))


def _inputs() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(4)
    return {
        "x": rng.integers(-500, 500, 5 * SIZE).astype(np.int32),
        "h": rng.integers(0, 1000, SIZE).astype(np.int32),
    }


def _expected(
    program: ProgramIR, inputs: dict[str, np.ndarray[Any, Any]], steps: int
) -> np.ndarray[Any, Any]:
    """By numpy alone."""
    x, h = inputs["x"].reshape(5, SIZE), inputs["h"]
    weights = [b.initial for b in program.buffers if b.role == "weight"]
    for step in range(steps):
        h = (h * weights[step % len(weights)] + x[step % 5]) & 1023
    return h


@pytest.mark.parametrize(("steps", "weights", "lanes"), [(2, 1, 1), (7, 1, 2), (8, 3, 1), (9, 2, 6)])
def test_runs(steps: int, weights: int, lanes: int):
    program, inputs = recurrence(steps, weights=weights), _inputs()
    design = compile_program(program, CompileOptions(multipliers=lanes))
    assert design.cores == (0,) * steps
    expected = _expected(program, inputs, steps)
    np.testing.assert_array_equal(evaluate_program(design.program, inputs)["y"], expected)
    (found,), cycles = simulate(design, inputs)
    np.testing.assert_array_equal(found, expected)
    assert cycles == design.predicted_cycles()


def test_a_start_while_busy_is_ignored():
    design, inputs = compile_program(recurrence(4)), _inputs()
    assert design.repeats_cores
    (found,), cycles = simulate(design, inputs, insists=True)
    np.testing.assert_array_equal(found, _expected(design.program, inputs, 4))
    assert cycles == design.predicted_cycles()


def test_hardware_does_not_grow_with_runs():
    def cells(steps: int) -> int:
        design = compile_program(recurrence(steps))
        assert len(design.core_plans) == 1
        return len({memory.name for memory in design.built_memories})

    assert cells(40) == cells(4)


def test_temporaries_take_turns():
    design = compile_program(recurrence(12))
    (array,) = design.arrays
    # The first state, and two temporaries: one is read while the other is written.
    assert len(array.members) == 3
    assert array.stride == 8
    text = design.format()
    assert "12 kernels on 1 cores" in text
    assert "run 11: core 0, base0=1," in text


def test_without_sharing():
    program, inputs = recurrence(4), _inputs()
    design = compile_program(program, CompileOptions(share_kernels=False))
    assert design.cores == (0, 1, 2, 3)
    assert not design.arrays
    assert simulate(design, inputs)[1] == design.predicted_cycles()


def test_saved_and_loaded():
    program, inputs = recurrence(5, weights=2), _inputs()
    design = Design.from_json(compile_program(program).to_json())
    assert design.cores == (0,) * 5
    (found,), cycles = simulate(design, inputs)
    np.testing.assert_array_equal(found, _expected(program, inputs, 5))
    assert cycles == design.predicted_cycles()


def test_the_host_reaches_one_region_of_an_array():
    """Weights that the host loads are not in one array: it may write two memories in one cycle."""
    program = recurrence(4, weights=2)
    design = compile_program(program, CompileOptions(weights="loadable"))
    assert len(design.core_plans) == 4
    assert not design.arrays
    assert {v.name for v in design.variables} == set()


def test_cores_of_a_top_module():
    top = TopModule(compile_program(recurrence(6)))
    assert len(top.cores) == 1
