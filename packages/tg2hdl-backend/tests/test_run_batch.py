"""Many inputs at a time give what they give one by one."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

from tg2hdl_backend import Runner, capture, runner
from tg2hdl_sim.costs import levelized_available
from tg2hdl_top import CompileOptions, compile_program

pytestmark = pytest.mark.skipif(levelized_available() is not None, reason="there is no C compiler")


def compiled_product(weights="rom"):
    rng = np.random.default_rng(0)
    w = Tensor(rng.integers(-128, 128, (12, 6)).astype(np.int8))
    captured = capture(
        lambda x: (x.cast("int32") @ w.cast("int32")).relu(), np.zeros((1, 12), np.int8), name="product"
    )
    inputs = rng.integers(-128, 128, (37, 1, 12)).astype(np.int8)
    named = [captured.bind(x) for x in inputs]
    expected = np.maximum(inputs.astype(np.int64) @ w.numpy().astype(np.int64), 0).reshape(37, 6)
    options = CompileOptions(multipliers=3, weights=weights)
    return compile_program(captured.program, options), named, expected


def test_a_batch_gives_results_and_cycles_of_single_runs(monkeypatch):
    monkeypatch.setattr(runner, "batch_pays", lambda *_: True)
    compiled, named, expected = compiled_product()
    with Runner(compiled, "levelized") as simulation:
        runs = simulation.run_batch(named)
        assert simulation._batch is not None, "the inputs did not run side by side"
        single = simulation.run(named[5])
    assert len(runs) == 37
    for run, values in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(run.outputs[0], values)
        assert (run.load, run.compute, run.readback, run.kernels) == (
            single.load,
            single.compute,
            single.readback,
            single.kernels,
        )


def test_an_engine_without_batches_runs_one_by_one():
    compiled, named, expected = compiled_product()
    with Runner(compiled, "amaranth") as simulation:
        runs = simulation.run_batch(named[:3])
        assert simulation._batch is None
    for run, values in zip(runs, expected, strict=False):
        np.testing.assert_array_equal(run.outputs[0], values)


def test_programs_that_keep_state_run_one_by_one(monkeypatch):
    monkeypatch.setattr(runner, "batch_pays", lambda *_: True)
    total = Tensor(np.zeros(4, np.int32)).contiguous().realize()
    captured = capture(lambda x: total.assign(total + x), np.zeros(4, np.int32), name="sums")
    compiled = compile_program(captured.program)
    inputs = np.arange(12, dtype=np.int32).reshape(3, 4)
    named = [captured.bind(x) for x in inputs]
    with Runner(compiled, "levelized") as simulation:
        runs = simulation.run_batch(named)
        assert simulation._batch is None
    for run, values in zip(runs, np.cumsum(inputs, axis=0), strict=True):
        np.testing.assert_array_equal(run.outputs[0], values)
