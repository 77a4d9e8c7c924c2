"""Rows of a table at indices of a run, padded: the index of a row in the padding is not read."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(11)
TABLE = RNG.standard_normal((6, 4)).astype(np.float32)
ORDER = np.array([4, 1, 0, 5, 3], np.int32)
IDS = np.array([4, 0, 3], np.int32)
ROWS, ALL = ((1, 2), (0, 0)), ((1, 1), (2, 1))

PROGRAMS = {
    "rows": (lambda t, o, i: t[i].pad(ROWS), lambda t, o, i: np.pad(t[i], ROWS)),
    "both axes": (lambda t, o, i: t[i].pad(ALL), lambda t, o, i: np.pad(t[i], ALL)),
    "another value": (
        lambda t, o, i: (t[i] * 2).pad(ALL, value=3.0),
        lambda t, o, i: np.pad(t[i] * 2, ALL, constant_values=3),
    ),
    "an index of an index": (lambda t, o, i: t[o[i]].pad(ALL), lambda t, o, i: np.pad(t[o[i]], ALL)),
    "two paddings": (
        lambda t, o, i: t[i].pad(((1, 2), (0, 0))) + t[i].pad(((2, 1), (0, 0))),
        lambda t, o, i: np.pad(t[i], ((1, 2), (0, 0))) + np.pad(t[i], ((2, 1), (0, 0))),
    ),
    "padded and not": (
        lambda t, o, i: t[i].pad(ROWS).cat(t[i]),
        lambda t, o, i: np.concatenate([np.pad(t[i], ROWS), t[i]]),
    ),
}


@pytest.mark.parametrize("weights", ["rom", "loadable"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_padded_rows(name, weights):
    function, reference = PROGRAMS[name]
    table, order = Tensor(TABLE), Tensor(ORDER)
    accelerator = tg2hdl.compile(lambda i: function(table, order, i), IDS, weights=weights)
    expected = reference(TABLE, ORDER, IDS)
    np.testing.assert_array_equal(accelerator.golden(IDS), expected)
    np.testing.assert_array_equal(accelerator.simulate(IDS, engine="amaranth").output, expected)


def test_gather_and_pad_of_a_file(tmp_path):
    nodes = [helper.make_node("Gather", ["t", "i"], ["r"]), helper.make_node("Pad", ["r", "p"], ["y"])]
    held = {"t": TABLE, "p": np.array([1, 0, 2, 1], np.int64)}
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    session = runtime_session(model.SerializeToString())
    (expected,) = session.run(None, {"i": IDS})
    accelerator = tg2hdl.compile(tmp_path / "m.onnx", IDS)
    np.testing.assert_array_equal(accelerator.golden(IDS), expected)
    np.testing.assert_array_equal(accelerator.simulate(IDS, engine="amaranth").output, expected)
