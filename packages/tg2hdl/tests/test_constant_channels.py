"""Constant channels of models: fewer products with the bits of ONNX Runtime and of the quantized model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl import Accelerator
from tg2hdl.macs import count_macs
from tg2hdl.report.facts import gather_facts
from tg2hdl_backend.onnx_runtime import runtime_session

RNG = np.random.default_rng(4)


def macs(accelerator: Accelerator) -> tuple[int, int]:
    """Products of the captured program and of the design."""
    return tuple(
        sum(count_macs(call.kernel) for call in program.calls)
        for program in (accelerator.captured.program, accelerator.design.program)
    )


def about(accelerator: Accelerator) -> str:
    """The decision about channels."""
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "constant-channels")
    return decision.chosen.note


def coded_network(path: Path) -> None:
    """A file: 3x3 with padding, depthwise, 1x1, maxima and a product, with biases that saturate some channels."""
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the file")
    make, numpy = onnx.helper.make_node, onnx.numpy_helper
    arrays: dict[str, Any] = {"s": np.float32(0.05), "z": np.int8(-128)}
    nodes = [make("DequantizeLinear", ["x", "s", "z"], ["d"])]

    def coded(name: str, result: str) -> None:
        nodes.append(make("QuantizeLinear", [name, "s", "z"], [f"{result}_q"]))
        nodes.append(make("DequantizeLinear", [f"{result}_q", "s", "z"], [result]))

    def layer(n: int, source: str, shape: tuple[int, ...], bias: np.ndarray, **options: Any) -> None:
        arrays[f"w{n}"] = RNG.integers(-60, 60, shape).astype(np.int8)
        arrays[f"b{n}"], arrays[f"sw{n}"] = bias.astype(np.int32), np.float32(0.02)
        arrays[f"sb{n}"], arrays[f"zw{n}"], arrays[f"zb{n}"] = np.float32(0.001), np.int8(0), np.int32(0)
        nodes.append(make("DequantizeLinear", [f"w{n}", f"sw{n}", f"zw{n}"], [f"dw{n}"]))
        nodes.append(make("DequantizeLinear", [f"b{n}", f"sb{n}", f"zb{n}"], [f"db{n}"]))
        nodes.append(make("Conv", [source, f"dw{n}", f"db{n}"], [f"c{n}"], **options))

    large = 10**6
    layer(0, "d", (8, 2, 3, 3), np.array([0, -large, 0, -large, 0, 0, 9, -large]), pads=[1] * 4)
    coded("c0", "r0")
    layer(1, "r0", (8, 1, 3, 3), np.array([0, 0, 5, 0, -large, 0, 0, 0]), pads=[1] * 4, group=8)
    coded("c1", "r1")
    layer(2, "r1", (8, 8, 1, 1), np.array([large, 0, large, large, 0, large, 0, 7]))
    coded("c2", "r2")
    nodes.append(make("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]))
    layer(3, "p", (3, 8, 3, 3), np.array([500, -40, 3]))
    coded("c3", "y")
    tensor, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.INT8
    graph = onnx.helper.make_graph(
        nodes[:-1],
        "net",
        [tensor("x", kind, [1, 2, 6, 6])],
        [tensor("y_q", kind, None)],
        [numpy.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def test_a_file_whose_biases_saturate_channels(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
    path = tmp_path / "net.onnx"
    coded_network(path)
    accelerator = tg2hdl.compile(path, multipliers=4)
    session = runtime_session(path)
    for _ in range(3):
        x = RNG.integers(-128, 128, (1, 2, 6, 6)).astype(np.int8)
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(accelerator.golden(x), expected)
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, expected)
    assert result.cycles.compute == accelerator.predicted_cycles
    assert about(accelerator) == "16 fewer, whose part of sums is in biases"
    before, after = macs(accelerator)
    assert after < 0.6 * before
    assert "constant-channels" in accelerator.explain().format()
    assert gather_facts(accelerator)["constant_channels"] == about(accelerator)


WEIGHTS = [(RNG.normal(size=s) * 0.4).astype(np.float32) for s in ((8, 1, 3, 3), (8, 8, 1, 1), (3, 8 * 9))]
BIASES: list[np.ndarray] = [RNG.normal(size=n).astype(np.float32) for n in (8, 8)]
# Rectified to zero whatever the input is, and a constant above it.
WEIGHTS[0][[0, 3, 4, 5]] = 0
BIASES[0][[0, 3, 4, 5]] = -1, -2, 1.5, -0.5


def half_dead(x: Tensor) -> Tensor:
    (first, second, last), (b0, b1) = map(Tensor, WEIGHTS), map(Tensor, BIASES)
    y = x.conv2d(first, b0).relu().conv2d(second, b1).relu()
    return y.reshape(1, -1) @ last.transpose()


def test_channels_without_weights_of_a_quantized_model() -> None:
    samples = RNG.normal(size=(32, 1, 5, 5)).astype(np.float32)
    model = tg2hdl.quantize(half_dead, samples)
    accelerator = tg2hdl.compile(model, samples[:1], multipliers=4)
    loadable = tg2hdl.compile(model, samples[:1], multipliers=4, weights="loadable")
    (all_channels, left), (_, same) = macs(accelerator), macs(loadable)
    assert (left < 0.8 * all_channels, same) == (True, all_channels), "contents that may change are kept"
    assert about(accelerator) == "4 fewer, whose part of sums is in biases"
    for x in samples[:4]:
        np.testing.assert_array_equal(accelerator.golden(x[None]), loadable.golden(x[None]))
    np.testing.assert_array_equal(accelerator.simulate(samples[:1]).output, loadable.golden(samples[:1]))
