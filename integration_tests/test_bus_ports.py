"""Bus ports: through their drivers in simulation, and their Verilog under Icarus with masters of others."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl.device_folder import register_map

W = np.random.default_rng(1).integers(-128, 128, (18, 5), dtype=np.int8)
INPUTS = np.random.default_rng(2).integers(-128, 128, (4, 1, 18), dtype=np.int8)


def model(x):
    return x.cast("int32") @ Tensor(W).cast("int32")


def compiled(port):
    options = tg2hdl.CompileOptions(ports=(port,), multipliers=3)
    return tg2hdl.compile(model, INPUTS[0], options=options, name="net")


@pytest.mark.parametrize("port", ["axi-lite", "wishbone"])
def test_simulation_through_a_bus(port):
    accelerator = compiled(port)
    for x in INPUTS[:2]:
        result = accelerator.simulate(x)
        assert same_bits(result.output, accelerator.golden(x))
        assert result.cycles.compute == accelerator.predicted_cycles


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
@pytest.mark.parametrize("port", ["axi-lite", "wishbone"])
def test_verilog_under_icarus(port, tmp_path, monkeypatch):
    runner = pytest.importorskip("cocotb_tools.runner")
    pytest.importorskip("cocotbext.axi")
    accelerator = compiled(port)
    accelerator.verilog(tmp_path / "net.v")
    case = {
        "port": port,
        "map": register_map(accelerator).to_dict(),
        "inputs": [x.reshape(-1).tolist() for x in INPUTS],
        "outputs": [(x.astype(int) @ W).reshape(-1).tolist() for x in INPUTS],
    }
    (tmp_path / "case.json").write_text(json.dumps(case))
    monkeypatch.setenv("COCOTB_LOG_LEVEL", "WARNING")
    icarus = runner.get_runner("icarus")
    icarus.build(
        sources=[tmp_path / "net.v"],
        hdl_toplevel="net",
        build_dir=tmp_path / "sim",
        timescale=("1ns", "1ps"),
    )
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "bus_benches"))
    environment = {"TG2HDL_CASE": str(tmp_path / "case.json")}
    results = icarus.test(
        hdl_toplevel="net",
        test_module="bench_bus_ports",
        build_dir=tmp_path / "sim",
        test_dir=tmp_path,
        extra_env=environment,
        results_xml=str(tmp_path / "results.xml"),
    )
    total, failed = runner.get_results(Path(results))
    assert (total, failed) == (3, 0)
