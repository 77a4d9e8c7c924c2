"""Graphs of tensors: numpy gives what tinygrad gives, and the function made of a graph gives it too."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

from tg2hdl_backend import TensorFunction, own_result, tensor_graph
from tg2hdl_backend.tinygrad_adapter.model_inputs import numpy_of
from tg2hdl_ir import InputError, UnsupportedError
from tg2hdl_ir.tensors import evaluate_graph

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> Tensor:
    return Tensor(RNG.normal(size=shape).astype(np.float32))


W1, W2, SQUARE = tensor(4, 1, 3, 3), tensor(2, 4, 3, 3), tensor(6, 6)
GROUPED, TRANSPOSED = tensor(4, 2, 3, 3), tensor(2, 3, 2, 2)

MODELS = {
    "padded_conv_pool": (
        lambda x: x.conv2d(W1, padding=1).relu().conv2d(W2, dilation=2).max_pool2d(2),
        (1, 1, 9, 9),
    ),
    "grouped_conv": (lambda x: x.conv2d(GROUPED, groups=2, stride=2), (1, 4, 7, 7)),
    "transposed_conv": (lambda x: x.conv_transpose2d(TRANSPOSED, stride=2), (1, 2, 3, 3)),
    "gelu_layernorm": (lambda x: x.linear(SQUARE).gelu().layernorm(), (3, 6)),
    "attention": (lambda x: (x @ x.linear(SQUARE).transpose(-1, -2)).softmax(-1) @ x, (3, 6)),
    "clip_flip_cat": (lambda x: x.silu().clip(-0.5, 0.7).flip(1).cat(x, dim=1), (2, 3)),
    "pool_argmax": (lambda x: x.leaky_relu().pad((1, 1)).avg_pool2d((1, 2)).argmax(1), (1, 3, 2, 6)),
}


@pytest.mark.parametrize("name", MODELS)
def test_numpy_and_the_function_give_what_tinygrad_gives(name: str) -> None:
    model, shape = MODELS[name]
    graph = tensor_graph(model, np.zeros(shape, np.float32))
    samples = RNG.normal(size=(3, *shape)).astype(np.float32)
    found = evaluate_graph(graph, [samples])[0]
    function = TensorFunction(graph)
    for sample, value in zip(samples, found, strict=True):
        expected = model(Tensor(sample)).numpy()
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(function(Tensor(sample)).numpy(), expected, rtol=1e-6, atol=1e-6)


def test_embedding_of_integers() -> None:
    embedding = nn.Embedding(5, 3)
    embedding.weight = tensor(5, 3)
    graph = tensor_graph(embedding, np.zeros((1, 4), np.int32))
    tokens = RNG.integers(0, 5, (6, 1, 4)).astype(np.int32)
    found = evaluate_graph(graph, [tokens])[0]
    np.testing.assert_array_equal(found, embedding.weight.numpy()[tokens])


def test_integer_sums_beyond_doubles_are_exact() -> None:
    weights = Tensor(np.full((2, 3), 3_000_000_001, np.int64))
    graph = tensor_graph(lambda x: (x * weights).sum(1), np.zeros((2, 3), np.int64))
    x = np.array([[[3_000_000_019, 1, 1], [1, 1, 2]]], np.int64)
    assert evaluate_graph(graph, [x])[0].tolist() == [
        [int(r.sum()) * 3_000_000_001 for r in x[0].astype(object)]
    ]


def test_weights_keep_their_names_and_outputs_their_structure() -> None:
    class Model:
        def __init__(self) -> None:
            self.layer = tensor(6, 2)

        def __call__(self, x: Tensor) -> dict[str, Tensor]:
            return {"y": x @ self.layer, "z": x.sum(1)}

    model = Model()
    graph = tensor_graph(model, np.zeros((3, 6), np.float32))
    assert "layer" in {n.label for n in graph.nodes if n.op == "const"}
    outputs = TensorFunction(graph)(Tensor(np.ones((3, 6), np.float32)))
    assert set(outputs) == {"y", "z"}
    assert outputs["z"].tolist() == [6, 6, 6]


def test_a_model_that_computes_while_it_runs_is_refused() -> None:
    with pytest.raises(
        (UnsupportedError, InputError), match=r"computes tensors while it runs|without contents"
    ):
        tensor_graph(lambda x: (x + 1).realize() * 2, np.zeros(3, np.float32))


LITERALS = {
    "weakfloat": (lambda: Tensor(0.5), np.float32(0.5)),
    "weakint": (lambda: Tensor(3), np.int32(3)),
    "bool": (lambda: Tensor(True), np.bool_(True)),
    "half": (lambda: Tensor(np.array(0.5, np.float16)), np.float16(0.5)),
    "int8": (lambda: Tensor(np.array(-3, np.int8)), np.int8(-3)),
    "computed": (lambda: Tensor(0.5).reshape(1, 1).expand(2, 3) * 3, np.full((2, 3), 1.5, np.float32)),
}


@pytest.mark.parametrize("name", LITERALS)
def test_tensors_without_storage_have_contents(name: str) -> None:
    make, expected = LITERALS[name]
    kept = make()
    found = numpy_of(kept)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    (own,) = own_result(lambda x: kept, np.zeros(1, np.float32))
    assert own.dtype == expected.dtype
    np.testing.assert_array_equal(own, expected)
    shape = np.broadcast_shapes((2, 3), expected.shape)
    graph = tensor_graph(lambda x: x + kept.cast("float32"), np.zeros(shape, np.float32))
    np.testing.assert_array_equal(
        evaluate_graph(graph, [np.ones((1, *shape))])[0][0], np.broadcast_to(expected + 1.0, shape)
    )
