"""Errors of files by their full texts; those of operators are tested beside them."""

from pathlib import Path

import pytest
from tinygrad import Tensor, dtypes

from tg2hdl_ir import Tg2hdlError
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import Network


def network(kind="INT8", output="INT8", outputs=True):
    """A file of one ReLU."""
    net = Network()
    x = net.tensor((1, 3), kind, scale=0.5, name="x")
    y = net.tensor((1, 3), output, scale=0.5, name="y")
    net.operator("RELU", [x], [y])
    return net.finish([x], [y] if outputs else [])


def load(folder, data):
    path = folder / "net.tflite"
    path.write_bytes(data)
    return TfliteModel(path)


def cut(folder):
    data = bytearray(network())
    data[:4] = (1 << 20).to_bytes(4, "little")
    load(folder, data)


def unread(kind="INT8"):
    """A file without operators, whose output nothing computes."""
    net = Network()
    x = net.tensor((1, 3), "INT8", scale=0.5, name="x")
    y = net.tensor((1, 3), kind, scale=0.5, name="y")
    return net.finish([x], [y])


def sparse(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tflite.Tensor.Sparsity", lambda tensor: True)
        load(folder, network())


CASES = {
    "path": (
        lambda folder: TfliteModel(3),
        "bad input: 3 is not a path of a TFLite file\n  hint: give e.g. 'model.tflite'",
    ),
    "damaged": (
        cut,
        "bad input: net.tflite is damaged: an offset leads out of the file\n"
        "  at: ~/net.tflite\n"
        "  hint: copy or export the file again",
    ),
    "no output": (
        lambda folder: load(folder, network(outputs=False)),
        "bad input: net.tflite has no output\n"
        "  at: ~/net.tflite\n"
        "  hint: export the model with its results as outputs",
    ),
    "type of an input": (
        lambda folder: load(folder, network("COMPLEX64")),
        "unsupported: input 'x' of net.tflite is COMPLEX64\n"
        "  at: ~/net.tflite\n"
        "  hint: export the model with inputs of int8 or float32",
    ),
    "type of an output": (
        lambda folder: load(folder, unread("COMPLEX64")),
        "unsupported: output 'y' is COMPLEX64\n"
        "  at: net\n"
        "  hint: export the model with outputs of int8 or float32",
    ),
    "sparse tensor": (
        sparse,
        "bad input: x of net.tflite is a sparse tensor\n  hint: export the model with dense weights",
    ),
    "number of inputs": (
        lambda folder: load(folder, network())(),
        "bad input: 0 inputs for a model of 1\n  at: net\n  hint: pass x (1, 3) int8",
    ),
    "shape of an input": (
        lambda folder: load(folder, network())(Tensor.zeros(1, 4)),
        "bad input: input 'x' has shape (1, 4) and type dtypes.float\n"
        "  at: net\n"
        "  hint: the file declares the shape (1, 3) and the type int8",
    ),
    "output without a value": (
        lambda folder: load(folder, unread())(Tensor.zeros(1, 3, dtype=dtypes.int8)),
        "unsupported: output 'y' has no value\n  at: net\n  hint: export the model again",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path: Path, make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "~") == text
