"""Equal kernels on one core: the golden model's bits, in the predicted cycles, with the memories that the plan says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tg2hdl_ir import (
    DType,
    KernelCall,
    ProgramBuffer,
    ProgramIR,
    RangeAnalysis,
    ValidationError,
    evaluate_program,
    parse_kernel,
)
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program
from tg2hdl_top.repeats import bounds
from tg2hdl_top.sequencer.access_times import CycleRange, access_times
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


LAYER = """kernel layer
  b0 y: int8[{rows}] output
  b1 x: int8[{depth}]
  b2 w: int8[{size}]
  r0: int32
  0  RANGE i0 < {rows} loop
  1    SET r0 = 0:int32
  2    RANGE i1 < {depth} reduce
  3      %0 = LOAD int8 b1[i1]
  4      %1 = mul int32 i0, {depth}:int32
  5      %2 = add int32 %1, i1
  6      %3 = LOAD int8 b2[%2]
  7      %4 = cast int32 %0
  8      %5 = cast int32 %3
  9      %6 = mul int32 %4, %5
 10      %7 = GET int32 r0
 11      %8 = add int32 %7, %6
 12      SET r0 = %8
 13    END i1
 14    %9 = GET int32 r0
 15    %10 = and int32 %9, 127:int32
 16    %11 = cast int8 %10
 17    STORE int8 b0[i0] = %11
 18  END i0
"""


def layers(widths: tuple[int, ...]) -> ProgramIR:
    """Matrix times vector, as often as there are widths after the first."""
    rng = np.random.default_rng(4)
    buffers = [ProgramBuffer("x", DType.INT8, (widths[0],), "input")]
    calls = []
    for number, (depth, rows) in enumerate(pairwise(widths)):
        weights = rng.integers(-100, 100, (rows, depth)).astype(np.int8)
        is_last = number == len(widths) - 2
        buffers.append(
            ProgramBuffer(f"w{number}", DType.INT8, (rows * depth,), "weight", weights.reshape(-1))
        )
        buffers.append(ProgramBuffer(f"y{number}", DType.INT8, (rows,), "output" if is_last else "temporary"))
        kernel = parse_kernel(LAYER.format(rows=rows, depth=depth, size=rows * depth))
        calls.append(KernelCall(kernel, (2 * number + 2, 2 * number, 2 * number + 1)))
    return ProgramIR("layers", tuple(buffers), tuple(calls), (len(buffers) - 1,))


def test_layers_of_other_sizes_run_on_one_core():
    """Bounds, strides and widths are those of the run, and so are its regions in arrays of several sizes."""
    program = layers((24, 24, 24, 40, 40, 40))
    options = CompileOptions(multipliers=8)
    design = compile_program(program, options)
    assert len(design.core_plans) == 1
    assert len(design.core_plans[0].variants) == 3
    assert any(
        len({m.layout.words for m in design.buffers if m.name in a.members}) > 1 for a in design.arrays
    )
    loaded = Design.from_json(design.to_json())
    assert len(loaded.core_plans[0].variants) == 3
    x = np.random.default_rng(5).integers(-100, 100, 24).astype(np.int8)
    (found,), cycles = simulate(loaded, {"x": x})
    assert found.tolist() == expected_of(program, x)
    assert cycles == design.predicted_cycles()


def test_weights_of_other_sizes_follow_each_other_without_gaps():
    """Where that spares a block; the base of a run is then added to its addresses."""
    program = layers((48, 48, 48, 80, 80, 80))
    design = compile_program(program, CompileOptions(multipliers=8))
    assert len(design.core_plans) == 1
    (array,) = (a for a in design.arrays if a.memory.contents is not None)
    sizes = {m.name: m.layout.words for m in design.buffers}
    assert array.adds
    assert array.memory.layout.words == sum(sizes[name] for name in array.members)
    loaded = Design.from_json(design.to_json())
    x = np.random.default_rng(5).integers(-100, 100, 48).astype(np.int8)
    (found,), cycles = simulate(loaded, {"x": x})
    assert found.tolist() == expected_of(program, x)
    assert cycles == design.predicted_cycles()


def expected_of(program: ProgramIR, x: np.ndarray) -> list[int]:
    """What the layers compute, in numpy."""
    result = x.astype(np.int64)
    for buffer in program.buffers:
        if buffer.initial is not None:
            result = (buffer.initial.reshape(-1, len(result)).astype(np.int64) @ result) & 127
    return [int(n) for n in result]


CHANNELS = 4

CONVOLUTION = """kernel convolution
  b0 y: int8[{outputs}] output
  b1 x: int8[{inputs}]
  b2 w: int8[48]
  r0: int32
  0  RANGE i0 < 4 loop
  1    RANGE i1 < {width} loop
  2      SET r0 = 0:int32
  3      RANGE i2 < 4 reduce
  4        RANGE i3 < 3 reduce
  5          %0 = mul int32 i1, {stride}:int32
  6          %1 = add int32 %0, i3
  7          %2 = mul int32 i2, {size}:int32
  8          %3 = add int32 %1, %2
  9          %4 = add int32 %3, -1:int32
 10          %5 = add int32 i3, i1
 11          %6 = lt bool 0:int32, %5
 12          %7 = lt bool %5, {end}:int32
 13          %8 = and bool %6, %7
 14          %9 = LOAD int8 b1[%4] if {gate} else 0:int8
 15          %10 = mul int32 i0, 12:int32
 16          %11 = mul int32 i2, 3:int32
 17          %12 = add int32 %10, %11
 18          %13 = add int32 %12, i3
 19          %14 = LOAD int8 b2[%13]
 20          %15 = cast int32 %9
 21          %16 = cast int32 %14
 22          %17 = mul int32 %15, %16
 23          %18 = GET int32 r0
 24          %19 = add int32 %18, %17
 25          SET r0 = %19
 26        END i3
 27      END i2
 28      %20 = GET int32 r0
 29      %21 = cast int8 %20
 30      %22 = mul int32 i0, {width}:int32
 31      %23 = add int32 %22, i1
 32      STORE int8 b0[%23] = %21
 33    END i1
 34  END i0
"""


def convolutions(strides: tuple[int, ...], size: int) -> tuple[ProgramIR, list[np.ndarray]]:
    """Windows of three over padded rows of four channels, one layer after the other, and their weights."""
    rng = np.random.default_rng(6)
    buffers = [ProgramBuffer("x", DType.INT8, (CHANNELS * size,), "input")]
    calls, weights = [], []
    for number, stride in enumerate(strides):
        width = size // stride
        weights.append(rng.integers(-100, 100, (CHANNELS, CHANNELS, 3)).astype(np.int8))
        role = "output" if number == len(strides) - 1 else "temporary"
        buffers.append(ProgramBuffer(f"w{number}", DType.INT8, (48,), "weight", weights[-1].reshape(-1)))
        buffers.append(ProgramBuffer(f"y{number}", DType.INT8, (CHANNELS * width,), role))
        text = CONVOLUTION.format(
            outputs=CHANNELS * width,
            inputs=CHANNELS * size,
            width=width,
            stride=stride,
            size=size,
            end=size + 1,
            gate="%8" if stride == 1 else "%6",
        )
        calls.append(KernelCall(parse_kernel(text), (2 * number + 2, 2 * number, 2 * number + 1)))
        size = width
    return ProgramIR("convolutions", tuple(buffers), tuple(calls), (len(buffers) - 1,)), weights


def test_a_bound_that_is_reached_is_a_wrong_result(monkeypatch):
    monkeypatch.setattr("tg2hdl_top.lane_choice.LONG_RUN", 1)

    class TooLow(RangeAnalysis):
        def of(self, value):
            low, high = super().of(value)
            return low, high - 4

    monkeypatch.setattr(bounds, "RangeAnalysis", TooLow)
    program, _ = convolutions((1, 1, 2, 1), 16)
    with pytest.raises(ValidationError, match=r"a rewrite changed a result: kernel .* as planned, buffer"):
        compile_program(program, CompileOptions(multipliers=CHANNELS))


def test_a_convolution_with_a_stride_shares_the_core_of_those_without(monkeypatch):
    """Its gates check the start of a row alone, and with a bound that is never reached they check the end too."""
    monkeypatch.setattr("tg2hdl_top.lane_choice.LONG_RUN", 1)
    strides = (1, 1, 2, 1)
    program, weights = convolutions(strides, 16)
    design = compile_program(program, CompileOptions(multipliers=CHANNELS))
    assert design.cores == (0, 0, 0, 1), "the last layer writes words of another layout"
    assert len(design.core_plans[0].variants) == 2
    x = np.random.default_rng(7).integers(0, 100, (CHANNELS, 16)).astype(np.int8)
    expected = x.astype(np.int64)
    for stride, weight in zip(strides, weights, strict=True):
        padded = np.pad(expected, ((0, 0), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)[:, ::stride]
        expected = np.einsum("oct,cwt->ow", weight.astype(np.int64), windows).astype(np.int8)
    (found,), cycles = simulate(design, {"x": x.reshape(-1)})
    assert found.tolist() == expected.reshape(-1).tolist()
    assert cycles == design.predicted_cycles()
    assert design.validation.whole == design.validation.kernels == 3, "two layers are one kernel"
    assert Design.from_json(design.to_json()).format() == design.format()
    for plan in design.kernels:
        times = access_times(plan, {buffer: CycleRange(0, 0) for buffer in plan.layouts})
        (written,) = times.writes.values()
        assert 0 < written.first.min() < written.last.max() == times.cycles
