"""A normalization that becomes part of the weights of the layer before it."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor, nn

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.model_file import load_model_file
from tg2hdl_lower.plan.operations import UnitOp

TOLERANCE = 2e-6
"""Largest difference from tinygrad, relative to the largest element."""

FOLD = tg2hdl.CompileOptions(fold_batchnorm=True)


def array(seed, *shape, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def normalization(seed, channels):
    norm = nn.BatchNorm(channels)
    norm.weight, norm.bias = Tensor(array(seed, channels)), Tensor(array(seed + 1, channels))
    norm.running_mean = Tensor(array(seed + 2, channels))
    norm.running_var = Tensor(array(seed + 3, channels, low=0.1, high=2))
    return norm


class Convolution:
    """3 x 3 with a bias, normalized."""

    def __init__(self):
        self.w, self.b, self.norm = Tensor(array(1, 4, 2, 3, 3)), Tensor(array(2, 4)), normalization(3, 4)

    def __call__(self, x):
        return self.norm(x.conv2d(self.w, self.b, padding=1)).relu()


class Linear:
    """A matrix product, normalized."""

    def __init__(self):
        self.w, self.norm = Tensor(array(1, 6, 8)), normalization(3, 8)

    def __call__(self, x):
        return self.norm(x @ self.w)


def check(result, model, x):
    own = model(Tensor(x)).numpy()
    difference = np.abs(result.astype(np.float64) - own).max() / np.abs(own).max()
    assert difference <= TOLERANCE
    return own


@pytest.mark.parametrize(("make", "shape"), [(Convolution, (1, 2, 4, 4)), (Linear, (4, 6))])
def test_no_product_and_fewer_cycles_remain(make, shape):
    x, model = array(9, *shape), make()
    plain = tg2hdl.compile(model, x, multipliers=4)
    folded = tg2hdl.compile(model, x, multipliers=4, options=FOLD)
    assert len(folded.design.kernels) == 1
    assert folded.predicted_cycles < plain.predicted_cycles
    assert sum(n.op == "mul" for p in folded.design.kernels for n in p.all(UnitOp)) == 4
    own = check(folded.golden(x), model, x)
    assert (folded.golden(x) != plain.golden(x)).any()
    check(plain.golden(x), lambda _: Tensor(own), x)


def test_loaded_weights_are_scaled_again():
    x, model = array(9, 4, 6), Linear()
    folded = tg2hdl.compile(model, x, weights="loadable", options=FOLD)
    variance = array(20, 8, low=0.1, high=2)
    folded.load_weights({"norm.running_var": variance})
    model.norm.running_var = Tensor(variance)
    result = folded.simulate(x)
    assert result.cycles.compute == folded.predicted_cycles
    np.testing.assert_array_equal(result.output, folded.golden(x))
    check(result.output, model, x)


def test_what_is_no_scale_of_weights_keeps_its_bits():
    w, scale = Tensor(array(1, 6, 8)), Tensor(array(2, 8))

    def by_input(x):
        return (x @ w) * x.sum()

    def by_row(x):
        return (x @ w) * scale[:4].reshape(4, 1)

    def twice(x):
        y = x @ w
        return y * scale + y.relu()

    def behind(x):
        return (x @ w).relu() * scale

    def running(x):
        return x.cumsum(1) * scale[:6]

    x = array(9, 4, 6)
    for model in (by_input, by_row, twice, behind, running):
        folded, plain = tg2hdl.compile(model, x, options=FOLD), tg2hdl.compile(model, x)
        np.testing.assert_array_equal(folded.golden(x), plain.golden(x))


def test_a_normalization_of_an_onnx_file(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the file")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    held = {"w": array(1, 4, 2, 3, 3), "s": array(2, 4), "b": array(3, 4), "m": array(4, 4)}
    held["v"] = array(5, 4, low=0.1, high=2)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", real, (1, 2, 4, 4))],
        [helper.make_tensor_value_info("y", real, (1, 4, 4, 4))],
        [onnx.numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), str(path))
    x, model = array(9, 1, 2, 4, 4), load_model_file(str(path)).model
    folded = tg2hdl.compile(model, x, options=FOLD)
    assert folded.predicted_cycles < tg2hdl.compile(model, x).predicted_cycles
    scale = (held["s"] / np.sqrt(held["v"].astype(np.float64) + 1e-5)).reshape(4, 1, 1)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (3, 3), (1, 2))
    sums = np.einsum("iyxab,oiab->oyx", windows, held["w"])
    expected = (sums - held["m"].reshape(4, 1, 1)) * scale + held["b"].reshape(4, 1, 1)
    result = folded.golden(x)
    assert np.abs(result[0] - expected).max() <= TOLERANCE * np.abs(expected).max()
    arguments = ["compile", str(path), "--fold-batchnorm", "--json", "-", "-o", str(tmp_path / "o")]
    made = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert f'"cycles": {folded.predicted_cycles}' in made.stdout
