"""The device decides by the plan whether it simulates, and keeps no more than it uses."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

from tg2hdl_backend import uops_to_kernel_ir
from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.netlist_size import netlist_cells
from tg2hdl_backend.plan_cache import cached_design
from tg2hdl_sim import SimulationModel
from tg2hdl_top import CompileOptions, TopModule


def integers(*shape: int) -> Tensor:
    return Tensor.empty(*shape, dtype=dtypes.int32)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TG2HDL_CACHE_DIR", str(tmp_path))


def runner(uops, **options) -> KernelRunner:
    return KernelRunner(uops_to_kernel_ir(uops)[0], DeviceOptions(**options))


def test_a_run_on_the_golden_model_elaborates_nothing(uops_of, monkeypatch):
    monkeypatch.setattr(TopModule, "elaborate", lambda *_: pytest.fail("elaborated"))
    large = runner(uops_of(integers(3 << 22) + 1), patience=0.1)
    arrays = {n: np.arange(3 << 22, dtype=np.int32) for n in (0, 1)}
    run = large.run(arrays, {})
    assert run is not None
    assert run.engine == "golden"
    assert run.cycles == cached_design(large.kernel, CompileOptions()).predicted_cycles()
    assert arrays[0][:3].tolist() == [1, 2, 3]


def test_few_simulations_stay_open(uops_of):
    runners = [runner(uops_of(integers(n) + 1), engine="amaranth") for n in range(3, 15)]
    designs = []
    for n, kernel in enumerate(runners, 3):
        kernel.run({slot: np.zeros(n, np.int32) for slot in (0, 1)}, {})
        designs.append(weakref.ref(kernel.session().model.top))
    gc.collect()
    assert sum(design() is not None for design in designs) <= 8
    # A kernel whose design was given up runs again.
    arrays = {slot: np.full(3, 5, np.int32) for slot in (0, 1)}
    assert runners[0].run(arrays, {}).engine == "amaranth"
    assert arrays[0].tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    "make",
    [
        lambda: integers(64) + 1,
        lambda: integers(8, 8) @ integers(8, 8),
        lambda: Tensor.empty(1, 2, 6, 6, dtype=dtypes.int32).conv2d(integers(4, 2, 3, 3), padding=1),
        lambda: integers(32) // integers(32),
        lambda: Tensor.empty(32).maximum(0),
        lambda: Tensor.empty(16).exp2(),
    ],
    ids=["add", "product", "convolution", "division", "relu", "exp2"],
)
def test_size_by_the_plan_is_near_that_of_the_netlist(uops_of, make):
    kernel = uops_to_kernel_ir(uops_of(make()))[0]
    try:
        design = cached_design(kernel, CompileOptions(cut_kernels=False))
    except Exception as error:
        pytest.skip(f"no unit: {error}")
    counted = SimulationModel(TopModule(design)).elaboration.cells
    assert counted / 2 <= netlist_cells(design.kernels[0]) <= 2 * counted + 100


def test_a_design_from_the_cache_is_the_design(uops_of):
    kernel = uops_to_kernel_ir(uops_of(integers(4, 6) @ integers(6, 3)))[0]
    made, read = (cached_design(kernel, CompileOptions()) for _ in range(2))
    assert read is not made
    assert read.format() == made.format()
    assert read.to_json() == made.to_json()
    assert read.kernels[0].schedule == made.kernels[0].schedule
