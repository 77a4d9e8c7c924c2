"""Recurrent ONNX files of published shapes, frame by frame against ONNX Runtime: a voice detector, a keyword spotter.

``python benchmarks/onnx/voice.py [--frames 1000] [--only NAME]`` writes ``voice.json`` and ``.md``.

The weights are random: only the shapes are those of Silero VAD 5 at 16 kHz (576 samples a frame: a short-time
Fourier transform as a convolution, four convolutions, an LSTM of 128 whose state of 2 x 1 x 128 goes in and out) and of
a keyword spotter with a GRU of 154 over frames of 40 features (Zhang et al., 2017).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tg2hdl
from tg2hdl.bench import tools, write_results
from tg2hdl_backend.onnx_runtime import runtime_session

HERE = Path(__file__).parent
RNG = np.random.default_rng(43)


def weights(*shape: int, fan_in: int) -> np.ndarray:
    """Weights that keep the magnitude of what they sum."""
    return (RNG.normal(size=shape) * np.sqrt(2 / fan_in)).astype(np.float32)


def voice_detector(path: Path) -> dict[str, Any]:
    """The shape of Silero VAD: a frame of 512 samples with 64 of the one before, and the state of an LSTM."""
    taps, window = np.arange(256), np.hanning(257)[:256]
    angles = 2 * np.pi * np.outer(np.arange(129), taps) / 256
    basis = np.concatenate([np.cos(angles), -np.sin(angles)]) * window
    constants = {"basis": basis[:, None].astype(np.float32), "pads": np.array([0, 0, 0, 0, 0, 64])}
    nodes = [
        helper.make_node("Unsqueeze", ["input", "one"], ["samples"]),
        helper.make_node("Pad", ["samples", "pads"], ["padded"], mode="reflect"),
        helper.make_node("Conv", ["padded", "basis"], ["spectrum"], strides=[128]),
        helper.make_node("Split", ["spectrum", "halves"], ["real", "imaginary"], axis=1),
        helper.make_node("Mul", ["real", "real"], ["squares"]),
        helper.make_node("Mul", ["imaginary", "imaginary"], ["others"]),
        helper.make_node("Add", ["squares", "others"], ["power"]),
        helper.make_node("Sqrt", ["power"], ["x0"]),
    ]
    sizes = ((129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1))
    for n, (inputs, outputs, stride) in enumerate(sizes):
        constants[f"w{n}"] = weights(outputs, inputs, 3, fan_in=3 * inputs)
        constants[f"b{n}"] = weights(outputs, fan_in=100)
        nodes.append(
            helper.make_node("Conv", [f"x{n}", f"w{n}", f"b{n}"], [f"c{n}"], pads=[1, 1], strides=[stride])
        )
        nodes.append(helper.make_node("Relu", [f"c{n}"], [f"x{n + 1}"]))
    constants |= {
        "W": weights(1, 512, 128, fan_in=256),
        "R": weights(1, 512, 128, fan_in=256),
        "B": weights(1, 1024, fan_in=500),
        "V": weights(1, 128, 1, fan_in=2),
        "v": np.zeros(1, np.float32),
        "one": np.array([1]),
        "halves": np.array([129, 129]),
        "pair": np.array([1, 1]),
    }
    nodes += [
        helper.make_node("Transpose", ["x4"], ["sequence"], perm=[2, 0, 1]),
        helper.make_node("Split", ["state", "pair"], ["h", "c"], axis=0),
        helper.make_node(
            "LSTM", ["sequence", "W", "R", "B", "", "h", "c"], ["", "hN", "cN"], hidden_size=128
        ),
        helper.make_node("Concat", ["hN", "cN"], ["stateN"], axis=0),
        helper.make_node("Transpose", ["hN"], ["column"], perm=[1, 2, 0]),
        helper.make_node("Relu", ["column"], ["active"]),
        helper.make_node("Conv", ["active", "V", "v"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["scores"]),
        helper.make_node("ReduceMean", ["scores"], ["output"], axes=[1], keepdims=0),
    ]
    constants["V"] = constants["V"].reshape(1, 128, 1)
    info = {"input": [1, 576], "state": [2, 1, 128], "output": [1, 1], "stateN": [2, 1, 128]}
    return saved(path, nodes, constants, info, {"stateN": "state"})


def keyword_spotter(path: Path) -> dict[str, Any]:
    """A GRU of 154 over frames of 40 features, and 12 classes."""
    constants = {
        "W": weights(1, 462, 40, fan_in=40),
        "R": weights(1, 462, 154, fan_in=308),
        "B": weights(1, 924, fan_in=500),
        "V": weights(154, 12, fan_in=154),
        "v": np.zeros(12, np.float32),
        "first": np.array([0]),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["frame", "first"], ["sequence"]),
        helper.make_node("GRU", ["sequence", "W", "R", "B", "", "h"], ["", "hN"], hidden_size=154),
        helper.make_node("Squeeze", ["hN", "first"], ["row"]),
        helper.make_node("Gemm", ["row", "V", "v"], ["scores"]),
    ]
    info = {"frame": [1, 40], "h": [1, 1, 154], "scores": [1, 12], "hN": [1, 1, 154]}
    return saved(path, nodes, constants, info, {"hN": "h"})


def saved(
    path: Path, nodes: list[Any], constants: dict[str, Any], info: dict[str, Any], state: dict[str, str]
) -> dict[str, Any]:
    """Write the file; returns its inputs, outputs and state."""
    names = list(info)
    inputs, outputs = names[:2], names[2:]

    def values(chosen: list[str]) -> list[Any]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, info[n]) for n in chosen]

    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, path.stem, values(inputs), values(outputs), initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return {"frame": inputs[0], "shape": info[inputs[0]], "first": info[inputs[1]], "state": state}


def frames_of(shape: list[int], count: int) -> np.ndarray:
    """Sound whose loudness comes and goes, or features: smooth noise."""
    noise = RNG.normal(size=(count, *shape))
    loud = 0.3 + 0.7 * np.abs(np.sin(np.arange(count) / 20))
    smooth = np.cumsum(noise, axis=-1) if shape[-1] > 100 else noise
    smooth = smooth - smooth.mean(-1, keepdims=True)
    found = smooth / np.abs(smooth).max(-1, keepdims=True) * loud.reshape(-1, *(1,) * len(shape))
    return found.astype(np.float32)


def runtime_results(path: Path, facts: dict[str, Any], frames: np.ndarray) -> np.ndarray:
    """Outputs of ONNX Runtime, which gets the state of the frame before."""
    session = runtime_session(path)
    ((after, before),) = facts["state"].items()
    state, found = np.zeros(facts["first"], np.float32), []
    names = [o.name for o in session.get_outputs()]
    for frame in frames:
        results = dict(zip(names, session.run(None, {facts["frame"]: frame, before: state}), strict=True))
        state = results.pop(after)
        found.append(next(iter(results.values())))
    return np.array(found)


def measure(build: Callable[[Path], dict[str, Any]], path: Path, count: int) -> dict[str, Any]:
    """Compare a network in float and in integers of 8 bits with ONNX Runtime."""
    facts = build(path)
    frames = frames_of(facts["shape"], count)
    expected = runtime_results(path, facts, frames)
    row: dict[str, Any] = {"frames": count, "output": [float(expected.min()), float(expected.max())]}
    options = tg2hdl.CompileOptions(multipliers=16)
    began = time.process_time()
    accelerator = tg2hdl.compile(str(path), state=facts["state"], options=options)
    row["float"] = {"kernels": len(accelerator.kernels), "cycles": accelerator.predicted_cycles}
    found = np.array([np.asarray(accelerator.golden(frame)).reshape(expected.shape[1:]) for frame in frames])
    row["float"]["largest_difference"] = float(np.abs(found - expected).max())
    row["float"]["cpu_seconds"] = round(time.process_time() - began)
    print(row, flush=True)
    began = time.process_time()
    tail = count // 5  # samples that calibrate
    made = tg2hdl.quantize(str(path), frames[:tail], sequences=True, batched=False, state=facts["state"])
    made.reset()
    values = np.asarray(made.evaluate(frames)).reshape(expected.shape)
    accelerator = tg2hdl.compile(made, frames[0], options=options)
    made.reset()
    equal = 0
    for frame in frames:
        reference = made.reference(*made.quantize_input(frame))
        equal += bool(np.array_equal(accelerator.golden(frame, codes=True), reference))
    row["int8"] = {
        "kernels": len(accelerator.kernels),
        "cycles": accelerator.predicted_cycles,
        "largest_difference": float(np.abs(values - expected).max()),
        "rms_difference": float(np.sqrt(np.square(values - expected).mean())),
        "frames_equal_to_the_integer_reference": equal,
        "in_float": list(made.report.in_float),
        "cpu_seconds": round(time.process_time() - began),
    }
    print(row, flush=True)
    return row


NETWORKS = {"voice detector": voice_detector, "keyword spotter": keyword_spotter}


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "# Recurrent ONNX files, frame by frame against ONNX Runtime",
        "",
        "`python benchmarks/onnx/voice.py`; networks of the shapes of Silero VAD 5 and of a GRU keyword spotter with "
        f"random weights, state in the design, 16 multipliers. {tools(record)}.",
        "",
        "| network | numbers | frames | kernels | cycles a frame | outputs | largest difference from ONNX Runtime "
        "| RMS | frames with all bits of the integer reference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["networks"].items():
        low, high = row["output"]
        for kind in ("float", "int8"):
            found = row[kind]
            rms = f"{found['rms_difference']:.2g}" if "rms_difference" in found else "-"
            equal = found.get("frames_equal_to_the_integer_reference", "-")
            cells = [name, kind, f"{row['frames']:,}", found["kernels"], f"{found['cycles']:,}"]
            cells += [f"{low:.2g} to {high:.2g}", f"{found['largest_difference']:.2g}", rms, equal]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--only", choices=sorted(NETWORKS))
    given = parser.parse_args()
    place = HERE / "voice.json"
    record: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, build in NETWORKS.items():
            if given.only in (None, name):
                path = Path(folder) / f"{name.replace(' ', '_')}.onnx"
                record["networks"][name] = measure(build, path, given.frames)
                write_results(place, record, table)


if __name__ == "__main__":
    main()
