"""State of ONNX files, against ONNX Runtime with the state outside."""

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_backend import OnnxModel
from tg2hdl_backend.onnx_runtime import runtime_session
from tg2hdl_ir import InputError

RNG = np.random.default_rng(11)
SIZE, FRAME = 6, 4


def voice_model(path, first=None):
    """A frame and two states to a probability: a convolution's tail of samples, and a hidden state that is gated."""
    w = RNG.normal(size=(2 * FRAME, SIZE)).astype(np.float32) / 3
    u = RNG.normal(size=(SIZE, SIZE)).astype(np.float32) / 3
    v = RNG.normal(size=(SIZE, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["tail", "frame"], ["window"], axis=1),
        helper.make_node("MatMul", ["window", "w"], ["a"]),
        helper.make_node("MatMul", ["h", "u"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Mul", ["h", "half"], ["d"]),
        helper.make_node("Add", ["d", "r"], ["e"]),
        helper.make_node("Clip", ["e", "low", "high"], ["hN"]),
        helper.make_node("MatMul", ["hN", "v"], ["score"]),
        helper.make_node("Identity", ["frame"], ["tailN"]),
        helper.make_node("Add", ["h", "half"], ["before"]),
    ]
    constants = {"w": w, "u": u, "v": v, "half": 0.5, "low": -1.0, "high": 1.0} | (first or {})
    initializers = [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in constants.items()]
    info = {"frame": [1, FRAME], "tail": [1, FRAME], "h": [1, SIZE], "score": [1, 1]}
    info |= {"tailN": [1, FRAME], "hN": [1, SIZE], "before": [1, SIZE]}

    def values(*names):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, info[n]) for n in names]

    inputs, outputs = values("tail", "frame", "h"), values("hN", "score", "tailN", "before")
    graph = helper.make_graph(nodes, "voice", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


STATE = {"hN": "h", "tailN": "tail"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return voice_model(tmp_path_factory.mktemp("onnx") / "voice.onnx")


def runtime_frames(path, frames, **state):
    """Results of ONNX Runtime, which gets the state of the frame before."""
    pytest.importorskip("onnxruntime")
    session = runtime_session(path)
    state = {"h": np.zeros((1, SIZE), np.float32), "tail": np.zeros((1, FRAME), np.float32)} | state
    for frame in frames:
        h, score, tail, before = session.run(None, {"frame": frame, **state})
        state = {"h": h, "tail": tail}
        yield score, before, state


def test_state_stays_in_the_design(path):
    accelerator = tg2hdl.compile(path, state=STATE)
    assert [i.name for i in accelerator.inputs] == ["frame"]
    assert [o.name for o in accelerator.outputs] == ["score", "before"]
    assert set(accelerator.state) == {"h", "tail"}
    frames = RNG.normal(size=(50, 1, FRAME)).astype(np.float32)
    for n, (frame, (score, before, state)) in enumerate(
        zip(frames, runtime_frames(path, frames), strict=True)
    ):
        found = accelerator.golden(frame)
        np.testing.assert_allclose(found["score"], score, rtol=0, atol=2e-6)
        np.testing.assert_allclose(found["before"], before, rtol=0, atol=2e-6)
        for name, array in state.items():
            np.testing.assert_allclose(accelerator.state[name], array, rtol=0, atol=2e-6)
        if n < 2:
            np.testing.assert_array_equal(accelerator.simulate(frame).output["score"], found["score"])


def test_first_contents_are_those_of_the_initializer(tmp_path):
    first = RNG.uniform(-1, 1, (1, SIZE)).astype(np.float32)
    path = voice_model(tmp_path / "first.onnx", {"h": first})
    accelerator = tg2hdl.compile(path, state=STATE)
    np.testing.assert_array_equal(accelerator.state["h"], first)
    frames = RNG.normal(size=(3, 1, FRAME)).astype(np.float32)
    for _ in range(2):
        for frame, (score, _, _) in zip(frames, runtime_frames(path, frames, h=first), strict=True):
            np.testing.assert_allclose(accelerator.golden(frame)["score"], score, rtol=0, atol=2e-6)
        accelerator.reset()


def test_the_command_line_keeps_state(path):
    result = CliRunner().invoke(
        cli, ["simulate", str(path), "--state", "hN=h", "--state", "tailN=tail", "--seed", "1"]
    )
    assert result.exit_code == 0, result.output
    assert "every bit equals the golden model" in result.output


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"x": "h"}, "voice.onnx has no output 'x' to keep as state"),
        ({"hN": "x"}, "voice.onnx has no input 'x' to keep as state"),
        ({"hN": "h", "before": "h"}, "input 'h' of voice.onnx is the state of two outputs"),
        (
            {"hN": "tail"},
            "output 'hN' of voice.onnx has shape (1, 6) and type dtypes.float, "
            "its state 'tail' (1, 4) and dtypes.float",
        ),
        ("hN=h", "state is of type str"),
    ],
)
def test_wrong_pairs(path, state, message):
    with pytest.raises(InputError) as error:
        OnnxModel(path, state=state)
    assert error.value.message == message


def test_a_file_with_state_is_quantized(path):
    frames = RNG.normal(size=(60, FRAME)).astype(np.float32)
    quantized = tg2hdl.quantize(path, frames, sequences=True, state=STATE)
    scores = np.array([score for score, _, _ in runtime_frames(path, frames[:, None])]).reshape(-1)
    found = quantized.evaluate(frames)[0].reshape(-1)
    assert np.abs(found - scores).max() < 0.05 * np.abs(scores).max()
    accelerator = tg2hdl.compile(quantized, frames[:1])
    assert [i.name for i in accelerator.inputs] == ["frame"]
    assert set(accelerator.state) == {"h", "tail"}
    expected = quantized.evaluate(frames[:5])
    for n, frame in enumerate(frames[:5]):
        result = accelerator.golden(frame, codes=False)
        for found, values in zip(result.values(), expected, strict=True):
            np.testing.assert_array_equal(found, values[n])


def test_the_command_line_quantizes_and_runs_a_sequence(path, tmp_path):
    frames = RNG.normal(size=(30, FRAME)).astype(np.float32)
    np.save(tmp_path / "frames.npy", frames)
    np.savez(tmp_path / "runs.npz", frame=frames[:4, None])
    state = [f"--state={output}={name}" for output, name in STATE.items()]
    command = ["quantize", str(path), "--samples", str(tmp_path / "frames.npy"), "--sequences", *state]
    result = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "v.q.npz")])
    assert result.exit_code == 0, result.output
    assert "error by position (RMS)" in result.output
    command = ["simulate", str(tmp_path / "v.q.npz"), "--set", str(tmp_path / "runs.npz")]
    result = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "out.npz")])
    assert result.exit_code == 0, result.output
    expected = tg2hdl.quantize(path, frames, sequences=True, state=STATE).evaluate(frames[:4])
    with np.load(tmp_path / "out.npz") as found:
        for array, values in zip(found.values(), expected, strict=True):
            np.testing.assert_array_equal(array, values)


def quantized_file(path, scale):
    """Codes of x and h with one scale, those of the new h with another; a scale of weights without ties."""
    weight = RNG.integers(-100, 100, (4, 4)).astype(np.int8)
    constants = {"w": weight, "ws": np.float32(0.0101), "wz": np.int8(0), "s": np.float32(0.02)}
    constants |= {"z": np.int8(3), "n": np.float32(scale)}
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        node("QuantizeLinear", ["h", "s", "z"], ["hq"]),
        node("DequantizeLinear", ["hq", "s", "z"], ["hd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        node("MatMul", ["hd", "wd"], ["m"]),
        node("Add", ["m", "xd"], ["a"]),
        node("QuantizeLinear", ["a", "n", "z"], ["aq"]),
        node("DequantizeLinear", ["aq", "n", "z"], ["hN"]),
        node("Relu", ["hN"], ["y"]),
    ]
    sides = (
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in names]
        for names in (("x", "h"), ("y", "hN"))
    )
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "codes", *sides, arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("scale", "stored", "reason"),
    [
        (0.02, "int8", ()),
        (
            0.03,
            "fp32",
            (
                "all of it: state 'h' has other codes after a run than before it: int8 of scale 0.03 and zero point 3, "
                "int8 of 0.02 and 3",
            ),
        ),
    ],
)
def test_a_quantized_file_keeps_its_codes_where_they_are_the_same(tmp_path, scale, stored, reason):
    pytest.importorskip("onnxruntime")
    path = quantized_file(tmp_path / "codes.onnx", scale)
    accelerator, session = tg2hdl.compile(path, state={"hN": "h"}), runtime_session(path)
    assert str(accelerator.state.tensors["h"].stored) == stored
    assert accelerator.in_float == reason
    h = np.zeros((1, 4), np.float32)
    for x in RNG.normal(size=(40, 1, 4)).astype(np.float32):
        y, h = session.run(None, {"x": x, "h": h})
        np.testing.assert_array_equal(accelerator.golden(x), y)
