"""Constants that ONNX Runtime's operators on codes make, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.onnx.graph import OnnxGraph  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

node = onnx.helper.make_node
F, U8, I8 = np.float32, np.uint8, np.int8
OPSETS = {"": 17, "com.microsoft": 1}
SHAPES = [
    ((8, 40), (8, 40)),
    ((40,), (8, 40)),
    ((8, 1), (8, 40)),
    ((8, 40), (8, 1)),
    ((), (8, 40)),
    ((2, 1, 5), (3, 1)),
]
"""Of two operands: where the first is broadcast along the last axis, ONNX Runtime exchanges them in sums."""
POOL = {"kernel_shape": [3, 2], "strides": [2, 1]}


class Constants:
    """Nodes on random constants."""

    def __init__(self, seed, dtype):
        self.rng, self.dtype, self.nodes = np.random.default_rng(seed), dtype, []
        self.limits = np.iinfo(dtype)

    def constant(self, array):
        name = f"c{len(self.nodes)}"
        value = onnx.numpy_helper.from_array(np.asarray(array))
        self.nodes.append(node("Constant", [], [name], value=value))
        return name

    def codes(self, shape):
        return self.constant(self.rng.integers(self.limits.min, self.limits.max + 1, shape, self.dtype))

    def steps(self, finest=1):
        """A scale and a zero point; round scales give many results in the middle of two codes."""
        scale = F(2.0 ** -self.rng.integers(finest, finest + 5)) * F(self.rng.choice([1, 3, 0.3, 0.7134]))
        return [self.constant(scale), self.codes(())]

    def add(self, operator, inputs, **attributes):
        self.nodes.append(
            node(operator, inputs, [f"y{len(self.nodes)}"], domain="com.microsoft", **attributes)
        )

    def add_all(self):
        for shapes in SHAPES:
            one, two = ([self.codes(s), *self.steps(2)] for s in shapes)
            self.add("QLinearAdd", [*one, *two, *self.steps()])
            self.add("QLinearMul", [*one, *two, *self.steps(-4)])
        # Here the constant of a sum differs, because ONNX Runtime rounds a product in it not by itself.
        signed = self.limits.min < 0
        scales = (0.0046875, 0.0234375, 0.046875) if signed else (0.075, 0.25, 0.5)
        zeros = (-84, 75, 43) if signed else (233, 116, 4)
        steps = [
            [self.constant(F(s)), self.constant(np.array(z, self.dtype))]
            for s, z in zip(scales, zeros, strict=True)
        ]
        for shapes in SHAPES[::2]:
            one, two = ([self.codes(shape), *s] for shape, s in zip(shapes, steps[:2], strict=True))
            self.add("QLinearAdd", [*one, *two, *steps[2]])
        parts = [[self.codes((2, n)), *self.steps()] for n in (3, 40)]
        self.add("QLinearConcat", [*self.steps(), *parts[0], *parts[1]], axis=1)
        chosen = self.constant(self.rng.integers(0, 2, (2, 1)).astype(bool))
        parts = [[self.codes((2, 40)), *self.steps()] for _ in range(2)]
        self.add("QLinearWhere", [chosen, *parts[0], *parts[1], *self.steps()])
        image = (2, 3, 7, 6)
        self.add("QLinearSigmoid", [self.codes(image), *self.steps(4), *self.steps(6)])
        self.add("QLinearLeakyRelu", [self.codes(image), *self.steps(), *self.steps()], alpha=0.3)
        self.add("QLinearAveragePool", [self.codes(image), *self.steps(), *self.steps()], **POOL)
        self.add("QLinearGlobalAveragePool", [self.codes(image), *self.steps(), *self.steps()])
        lowest = [self.constant(F(1 / 256)), self.constant(np.array(self.limits.min, self.dtype))]
        self.add("QLinearSoftmax", [self.codes((3, 9)), *self.steps(3), *lowest], axis=1, opset=13)


@pytest.mark.parametrize("dtype", [U8, I8])
def test_constants_of_operators_on_codes(tmp_path, dtype):
    constants = Constants(3, dtype)
    constants.add_all()
    made = [n.output[0] for n in constants.nodes if n.domain]
    path = write(tmp_path / "q.onnx", constants.nodes, [], [(n, dtype, None) for n in made], None, OPSETS)
    graph = OnnxGraph(OPSETS)
    graph.run(constants.nodes)
    for n, name, expected in zip([n for n in constants.nodes if n.domain], made, runtime(path), strict=True):
        np.testing.assert_array_equal(graph.value(name).array, expected, f"{n.op_type} {name}", strict=True)


def test_a_constant_of_codes_that_shapes_depend_on(tmp_path):
    """Sizes and weights of the model are computed from the same codes."""
    weights = {"a": np.arange(6, dtype=U8), "s": F(0.5), "z": U8(1), "t": F(0.25), "two": np.array([3, 5])}
    weights = {name: np.asarray(array) for name, array in weights.items()}
    nodes = [
        node(
            "QLinearConcat", ["t", "z", "a", "s", "z", "a", "t", "z"], ["c"], domain="com.microsoft", axis=0
        ),
        node("DequantizeLinear", ["c", "t", "z"], ["d"]),
        node("Cast", ["d"], ["i"], to=onnx.TensorProto.INT64),
        node("Gather", ["i", "two"], ["sizes"]),
        node("Expand", ["x", "sizes"], ["y"]),
        node("Add", ["x", "d"], ["w"]),
    ]
    outputs = [("y", F, None), ("w", F, (12,))]
    path = write(tmp_path / "q.onnx", nodes, [("x", F, (1,))], outputs, weights, OPSETS)
    x = np.array([0.7], F)
    for got, expected in zip(golden(OnnxModel(path), x), runtime(path, x=x), strict=True):
        np.testing.assert_array_equal(got, expected)
