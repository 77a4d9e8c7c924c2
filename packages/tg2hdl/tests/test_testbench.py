"""Testbenches beside the Verilog: they pass, and find a changed bit."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_ir import InputError

MODEL = """
import numpy as np
from tinygrad import Tensor

W = np.random.default_rng(1).integers(-128, 128, (18, 5), dtype=np.int8)

def model(b, a):
    sums = a.cast("int32") @ Tensor(W).cast("int32") + b
    return sums.relu().sum(axis=1), (sums * 3).cast("int16")

example_inputs = (np.zeros((1, 5), np.int32), np.zeros((1, 18), np.int8))
"""
SIMULATORS = ["icarus", pytest.param("verilator", marks=pytest.mark.slow)]


def compiled(folder, *options):
    (folder / "net.py").write_text(MODEL)
    arguments = ["compile", str(folder / "net.py"), "--multipliers", "3", "--testbench", "-o", str(folder)]
    return CliRunner().invoke(cli, [*arguments, *options])


@pytest.fixture(scope="module", params=["native", "axi-stream"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("testbench")
    result = compiled(path, "--port", request.param)
    assert result.exit_code == 0, result.output
    return path


def commands(folder, simulator):
    if simulator == "verilator":
        verilator = (
            [sys.executable, "-m", "verilator"] if shutil.which("verilator") is None else ["verilator"]
        )
        build = [
            "--binary",
            "--timing",
            "-Wno-fatal",
            "-O0",
            "-Mdir",
            "obj",
            "--top",
            "net_tb",
            "net.v",
            "net_tb.v",
        ]
        return [*verilator, *build], [str(folder / "obj" / "Vnet_tb")]
    return ["iverilog", "-g2012", "-o", "tb", "net.v", "net_tb.v"], ["vvp", "tb"]


def run_verilog(folder, simulator):
    build, run = commands(folder, simulator)
    if shutil.which(build[0]) is None:
        pytest.skip(f"needs {build[0]}")
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    return subprocess.run(run, cwd=folder, capture_output=True, text=True)


def run_cocotb(folder, simulator):
    pytest.importorskip("cocotb")
    if shutil.which("iverilog") is None:
        pytest.skip("needs Icarus Verilog")
    command = [sys.executable, "net_tb.py", simulator]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def with_changed_bit(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*_icarus", "obj"))
    text = (tmp_path / "net.v").read_text()
    ((place, digits),) = re.findall(r"(memory_w\w*\[7\] = 24'h)([0-9a-f]{6});", text)
    (tmp_path / "net.v").write_text(
        text.replace(f"{place}{digits};", f"{place}{int(digits, 16) ^ 1 << 9:06x};")
    )
    return tmp_path


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_the_verilog_testbench_passes(folder, simulator):
    done = run_verilog(folder, simulator)
    assert "PASSED" in done.stdout, done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_the_verilog_testbench_finds_a_changed_bit(with_changed_bit, simulator):
    done = run_verilog(with_changed_bit, simulator)
    assert "FAILED" in done.stdout, done.stdout
    assert "PASSED" not in done.stdout
    assert done.returncode != 0


def test_the_cocotb_bench_passes(folder):
    done = run_cocotb(folder, "icarus")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "PASSED"


def test_the_cocotb_bench_finds_a_changed_bit(with_changed_bit):
    done = run_cocotb(with_changed_bit, "icarus")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "FAILED"


def test_the_vectors_are_those_of_the_model(folder):
    weights = np.random.default_rng(1).integers(-128, 128, (18, 5), dtype=np.int8).astype(np.int64)
    case = json.loads((folder / "net_tb.json").read_text())
    for given, found in zip(case["packets_in"], case["packets_out"], strict=True):
        numbers = [int(word, 16) for word in given]
        b = np.array(numbers[:5], np.uint32).view(np.int32).astype(np.int64)
        a = np.array(numbers[5:], np.uint8).view(np.int8).astype(np.int64)
        sums = (a @ weights + b).astype(np.int32)
        total = np.maximum(sums, 0).sum(dtype=np.int32)
        outputs = [int(total) & 0xFFFFFFFF, *((sums * 3).astype(np.int16).view(np.uint16).tolist())]
        assert [int(word, 16) for word in found] == outputs


def test_a_port_without_a_testbench_is_refused(tmp_path):
    result = compiled(tmp_path, "--port", "axi-lite")
    assert isinstance(result.exception, InputError)
    assert "there is no testbench for the host port axi-lite" in str(result.exception)
    assert not (tmp_path / "net.v").exists()


def test_equal_units_are_one_module(tmp_path):
    """Three lanes of a float sum and a sigmoid: instances of a module for each unit, with the bits of the model."""
    weight = Tensor(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))
    x = np.random.default_rng(1).normal(size=(1, 3)).astype(np.float32)
    accelerator = tg2hdl.compile(lambda x: (x @ weight).sigmoid() * 1.7, x, multipliers=3, name="net")
    accelerator.testbench(tmp_path, runs=2)
    text = (tmp_path / "net.v").read_text()
    modules = re.findall(r"^module (net_unit_\w+)\(", text, re.MULTILINE)
    assert len(modules) == len(set(modules))
    assert set(modules) == set(re.findall(r"^  (net_unit_\w+) +\w+ \($", text, re.MULTILINE))
    assert text.count("  net_unit_fp32_add_balanced ") > 1
    # One for each of two constants, and one for all multipliers.
    assert len(set(re.findall(r"^  (net_unit_fp32_mul\w*) [um]\d+_mul \($", text, re.MULTILINE))) == 3
    done = run_verilog(tmp_path, "icarus")
    assert done.returncode == 0, done.stdout


def test_testbenches_in_python(tmp_path):
    accelerator = tg2hdl.compile(lambda x: x * 3, np.zeros(4, np.int16), name="three")
    paths = accelerator.testbench(tmp_path / "new", runs=2)
    assert [path.name for path in paths] == ["three.v", "three_tb.v", "three_tb.py", "three_tb.json"]
    assert all(path.is_file() for path in paths)
    assert len(json.loads(paths[-1].read_text())["packets_out"]) == 2
