"""Kernels say which layers of the model they are."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl


class Net:
    def __init__(self):
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.BatchNorm(8), nn.Linear(8, 4)
        rng = np.random.default_rng(1)
        self.norm.running_var = Tensor(rng.uniform(0.5, 2, 8).astype(np.float32))
        self.table = Tensor(rng.uniform(0.5, 2, 4).astype(np.float32))

    def __call__(self, x):
        return self.second(self.norm(self.first(x)).relu()) + self.table.softmax()


def test_kernels_have_the_names_of_modules():
    layers = [k.layer for k in tg2hdl.compile(Net(), np.zeros((2, 6), np.float32)).kernels]
    assert sorted({name for layer in layers for name in layer.split(", ")}) == [
        "first",
        "norm",
        "second",
        "table",
    ]
    assert "first" in layers[0]
    assert layers[-1].startswith("second")


def test_kernels_without_weights_have_the_lines_of_their_reductions():
    def attention(q, k, v):
        scores = (q @ k.transpose(0, 1)).softmax()
        return scores @ v

    line = attention.__code__.co_firstlineno
    layers = [k.layer for k in tg2hdl.compile(attention, *[np.zeros((4, 4), np.float32)] * 3).kernels]
    assert layers[0] == f"matmul (test_layers.py:{line + 1})"
    assert layers[1].startswith(f"softmax (test_layers.py:{line + 1})")
    assert layers[-1].startswith(f"matmul (test_layers.py:{line + 2})")


def test_a_line_of_several_ops_is_named_once():
    def model(x):
        return (x.sum(-1) * 3).abs()

    line = model.__code__.co_firstlineno + 1
    (kernel,) = tg2hdl.compile(model, np.zeros((2, 4), np.int32)).kernels
    assert kernel.layer.endswith(f" (test_layers.py:{line})")
    assert kernel.layer.count("test_layers.py") == 1
    assert {"sum", "abs"} <= set(kernel.layer.partition(" (")[0].split(", "))


def test_reductions_of_other_inputs_have_lines_of_their_own():
    def model(a, b):
        first = (a + 1).sum(1)
        return first, (b + 2).sum(1)

    line = model.__code__.co_firstlineno
    layers = {k.layer for k in tg2hdl.compile(model, *[np.zeros((4, 3), np.float32)] * 2).kernels}
    assert layers == {f"sum (test_layers.py:{line + 1})", f"sum (test_layers.py:{line + 2})"}


def test_reductions_in_any_order_have_no_line():
    def model(a):
        first = (a + 1).sum(1)
        return first, (a + 2).sum(1)

    layers = [k.layer for k in tg2hdl.compile(model, np.zeros((4, 3), np.float32)).kernels]
    assert not any(layers)


def test_kernels_without_weights_have_the_names_of_nodes(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the file")
    pytest.importorskip("onnx")
    from tg2hdl_backend import OnnxModel
    from tg2hdl_backend.testing.onnx_files import write

    nodes = [
        onnx.helper.make_node("MatMul", ["q", "k"], ["s"], name="scores"),
        onnx.helper.make_node("MatMul", ["s", "v"], ["y"], name="mix"),
    ]
    given = [(name, np.float32, (3, 3)) for name in "qkv"]
    model = OnnxModel(write(tmp_path / "m.onnx", nodes, given, [("y", np.float32, (3, 3))]))
    kernels = tg2hdl.compile(model, *model.example_inputs()).kernels
    assert [k.layer for k in kernels] == ["scores (MatMul)", "mix (MatMul)"]


def test_a_long_chain_of_tensors_names_each_weight_once():
    def model(x):
        y, z = table, (table + 1).contiguous()
        for _ in range(60):
            y, z = z, (y + z).contiguous()
        return x + z

    table = Tensor(np.arange(4, dtype=np.int32)).realize()
    (kernel,) = tg2hdl.compile(model, np.zeros(4, np.int32)).kernels
    assert kernel.layer == "table"
