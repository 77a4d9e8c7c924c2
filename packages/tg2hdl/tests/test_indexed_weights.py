"""Weights at addresses that are weights themselves, against numpy and ONNX Runtime."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(38)


def floats(*shape):
    return RNG.uniform(0.5, 2.0, shape).astype(np.float32) * 10 ** np.arange(shape[-1], dtype=np.float32)


def permutation(size):
    return RNG.permutation(size).astype(np.int32)


W, TABLE, CODES = floats(4), floats(5, 3), floats(6, 4)
ONE, ROW, PERM, IDX = (np.array(a, np.int32) for a in ([2], [3], [3, 0, 4, 1, 2], [5, 1, 1, 3]))

PROGRAMS = {
    "one column of a scaled input": (lambda x, w, o: (x.reshape(4, 1) * w)[:, o], (W, ONE)),
    "one scale": (lambda x, w, o: x * w[o], (W, ONE)),
    "a row of a table": (lambda x, t, o: x[:3] * t[o], (TABLE, ROW)),
    "rows of a codebook": (lambda x, c, i: x @ c[i], (CODES, IDX)),
    "a permuted permutation": (lambda x, w, p: x[:3].reshape(1, 3) * w[p[p]], (TABLE, PERM)),
    "an index of an index": (lambda x, t, p, o: x[:3] * t[p[o]], (TABLE, PERM, ROW)),
    "an index, computed": (
        lambda x, t, p, o: x[:3] + t[p[o] * 2 - 2],
        (TABLE, PERM, np.array([4], np.int32)),
    ),
    "a scaled row": (lambda x, t, o, w: x[:3] * (t * w)[o], (TABLE, ROW, floats(3))),
    "two rows": (lambda x, t, o, p: x[:3] * t[o] + x[1:] * t[p], (TABLE, ROW, np.array([1], np.int32))),
    "two equal rows": (lambda x, t, o: x[:3] * t[o] + x[1:] * t[o], (TABLE, ROW)),
    "chosen twice": (lambda x, t, o, p: x[:3] * t[p][o], (TABLE, ROW, PERM)),
}


class Indexed:
    """A function of an input and of weights ``w0``, ``w1``, ..."""

    def __init__(self, function, arrays):
        self.function = function
        for n, array in enumerate(arrays):
            setattr(self, f"w{n}", Tensor(array))

    def __call__(self, x):
        return self.function(x, *(v for k, v in vars(self).items() if k != "function"))


def other_weights(arrays):
    """Contents of the same kinds: other floats, and the indices in another order."""
    return [floats(*a.shape) if a.dtype.kind == "f" else (a + 1) % 4 for a in arrays]


@pytest.mark.parametrize("weights", ["rom", "loadable", "external"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_weights_at_addresses_of_weights(name, weights):
    function, arrays = PROGRAMS[name]
    x = RNG.uniform(-1, 1, 4).astype(np.float32)
    accelerator = tg2hdl.compile(Indexed(function, arrays), x, weights=weights, part="ecp5-45k")
    np.testing.assert_allclose(accelerator.golden(x), function(x, *arrays), rtol=1e-5)
    np.testing.assert_array_equal(accelerator.simulate(x, engine="amaranth").output, accelerator.golden(x))
    if weights == "loadable":
        others = other_weights(arrays)
        accelerator.load_weights({f"w{n}": a for n, a in enumerate(others)})
        np.testing.assert_allclose(accelerator.golden(x), function(x, *others), rtol=1e-5)
        np.testing.assert_array_equal(
            accelerator.simulate(x, engine="amaranth").output, accelerator.golden(x)
        )


PER_CHANNEL = {
    "Mul": {"s": W[:3].reshape(1, 3, 1, 1)},
    "BatchNormalization": {"s": W[:3], "b": W[1:], "m": W[:3], "v": W[:3]},
    "InstanceNormalization": {"s": W[:3], "b": W[1:]},
}


def graph(nodes, shape, constants):
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    made = helper.make_graph(nodes, "g", values[:1], values[1:], held)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def check_with_onnxruntime(model, x, path, **options):
    onnx.save(model, path)
    session = runtime_session(model.SerializeToString())
    accelerator = tg2hdl.compile(path, x, **options)
    np.testing.assert_allclose(accelerator.golden(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("indices", [[0], [1], [-1], [2, 0]])
@pytest.mark.parametrize("op", PER_CHANNEL)
def test_channels_of_a_file_after_a_scale_per_channel(op, indices, tmp_path):
    x = RNG.standard_normal((1, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node(op, ["x", *PER_CHANNEL[op]], ["t"]),
        helper.make_node("Gather", ["t", "i"], ["y"], axis=1),
    ]
    constants = PER_CHANNEL[op] | {"i": np.array(indices, np.int64)}
    check_with_onnxruntime(graph(nodes, x.shape, constants), x, tmp_path / "m.onnx")


@pytest.mark.parametrize("weights", ["rom", "loadable"])
def test_one_feature_of_a_file_after_a_scaler(weights, tmp_path):
    x = RNG.standard_normal((1, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Sub", ["x", "m"], ["a"]),
        helper.make_node("Div", ["a", "s"], ["t"]),
        helper.make_node("Gather", ["t", "i"], ["y"], axis=1),
    ]
    constants = {"m": W[None] / 3, "s": W[None], "i": np.array([3], np.int64)}
    check_with_onnxruntime(graph(nodes, x.shape, constants), x, tmp_path / "m.onnx", weights=weights)


def test_constants_of_a_file_that_are_gathered_and_resized(tmp_path):
    x = RNG.standard_normal((1, 1, 4, 6)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["p", "p"], ["q"]),
        helper.make_node("Gather", ["c", "q"], ["r"], axis=3),
        helper.make_node("Resize", ["r", "", "scales"], ["z"], mode="nearest"),
        helper.make_node("Mul", ["x", "z"], ["y"]),
    ]
    constants = {
        "p": np.array([2, 0, 1], np.int64),
        "c": floats(1, 1, 2, 3),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    check_with_onnxruntime(graph(nodes, x.shape, constants), x, tmp_path / "m.onnx")


class Drawn:
    """A random table of weights that index weights, built of what tinygrad and numpy have in common."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.arrays = []
        self.table = self.floats(self.random.randint(1, 4))

    def weight(self, array):
        n = len(self.arrays)
        self.arrays.append(array)
        return lambda w: w[n]

    def shape(self):
        return tuple(self.random.randint(1, 5) for _ in range(self.random.randint(1, 2)))

    def index(self, limit, depth):
        """Indices below `limit`."""
        if depth == 0 or self.random.random() < 0.4:
            shape = self.random.choice([(1,), (self.random.randint(2, 5),)])
            return self.weight(self.rng.integers(0, limit, shape).astype(np.int32))
        of = self.index(limit, depth - 1)
        match self.random.choice(["index", "mirror", "reshape"]):
            case "index":
                size = self.value(of).shape[0]
                by = self.index(size, depth - 1)
                return lambda w: of(w)[by(w)]
            case "mirror":
                return lambda w: limit - 1 - of(w)
        return lambda w: of(w).reshape(1, -1).reshape(-1)

    def floats(self, depth):
        """A table of one or two dimensions."""
        if depth == 0:
            return self.weight(self.rng.uniform(0.5, 2, self.shape()).astype(np.float32))
        of = self.floats(depth - 1)
        shape = self.value(of).shape
        match self.random.choice(["rows", "rows", "columns", "scale", "reshape", "transpose", "scalar"]):
            case "rows":
                by = self.index(shape[0], depth)
                return lambda w: of(w)[by(w)]
            case "columns" if len(shape) == 2:
                by = self.index(shape[1], depth)
                return lambda w: of(w)[:, by(w)]
            case "scale":
                scale = self.weight(self.rng.uniform(0.5, 2, shape[-1:]).astype(np.float32))
                return lambda w: of(w) * scale(w)
            case "transpose" if len(shape) == 2:
                return lambda w: of(w).T
            case "scalar":
                number = self.index(shape[0], 1)
                return lambda w: of(w) * of(w)[number(w)].reshape(-1)[:1]
        return lambda w: of(w).reshape(-1)

    def value(self, of):
        return of(self.arrays)

    def __call__(self, x, *weights):
        return x * self.table(weights) + self.table(weights).sum()


@pytest.mark.parametrize("weights", ["rom", "loadable"])
@pytest.mark.parametrize("seed", range(25))
def test_random_tables_of_weights_that_index_weights(seed, weights):
    drawn = Drawn(seed)
    x = RNG.uniform(-1, 1, drawn.value(drawn.table).shape).astype(np.float32)
    accelerator = tg2hdl.compile(Indexed(drawn, drawn.arrays), x, weights=weights)
    np.testing.assert_allclose(accelerator.golden(x), drawn(x, *drawn.arrays), rtol=1e-5, atol=1e-5)
    if seed % 5 == 0:
        np.testing.assert_array_equal(
            accelerator.simulate(x, engine="amaranth").output, accelerator.golden(x)
        )
