"""Zeros, NaN and remainders in ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

from onnx import helper  # noqa: E402

from tg2hdl_backend.onnx import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

INF, NAN = np.inf, np.nan


def _result(folder: Path, op: str, x: np.ndarray) -> np.ndarray:
    value = ("x", np.float32, x.shape)
    path = write(
        folder / "m.onnx", [helper.make_node(op, ["x"], ["y"])], [value], [("y", *value[1:])], opsets={"": 20}
    )
    return golden(OnnxModel(path), x)[0]


@pytest.mark.parametrize("op", ["Asin", "Asinh", "Atan", "Atanh", "Erf", "Gelu", "Mish", "Sinh", "Tanh"])
def test_zeros_keep_their_sign_and_nan_stays(op: str, tmp_path: Path) -> None:
    got = _result(tmp_path, op, np.float32([0.0, -0.0, np.nan]))
    np.testing.assert_array_equal(np.signbit(got[:2]), [False, True])
    assert np.isnan(got[2])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_index_of_nan(op: str, last: int, dtype: Any, tmp_path: Path) -> None:
    rows = [
        [NAN] * 5,
        [2, NAN, 7, NAN, 1],
        [0.0, -0.0, -1, -0.0, 0.0],
        [INF, -INF, INF, -INF, 3],
        [-2, -3, -3, -2, -2.5],
    ]
    x = np.array(rows, dtype)
    node = helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
    path = write(
        tmp_path / "m.onnx", [node], [("x", dtype, x.shape)], [("y", np.int64, [5])], opsets={"": 18}
    )
    # numpy's, as the standard's reference has it; ONNX Runtime's depends on where in the row NaN is.
    find = np.argmax if op == "ArgMax" else np.argmin
    want = 4 - find(x[:, ::-1], 1) if last else find(x, 1)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], want)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_top_of_nan(largest: int, count: int, tmp_path: Path) -> None:
    x = np.float32(
        [[1, NAN, 3, INF, INF, -INF, 3, 3, NAN], [-1, -2, 0.5, -0.5, 1e-40, -1e-40, -2, 3, -3], [NAN] * 9]
    )
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], largest=largest)
    outputs = [("v", np.float32, [3, count]), ("i", np.int64, [3, count])]
    path = write(
        tmp_path / "m.onnx", [node], [("x", np.float32, x.shape)], outputs, {"k": np.array([count])}, {"": 18}
    )
    for got, want in zip(golden(OnnxModel(path), x), runtime(path, x=x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_place_of_a_maximum_of_nan_is_inside_the_image(tmp_path: Path) -> None:
    x = np.full((1, 2, 2, 2), NAN, np.float32)
    node = helper.make_node("MaxPool", ["x"], ["v", "i"], kernel_shape=[2, 2])
    outputs = [("v", np.float32, [1, 2, 1, 1]), ("i", np.int64, [1, 2, 1, 1])]
    path = write(tmp_path / "m.onnx", [node], [("x", np.float32, x.shape)], outputs, opsets={"": 18})
    places = golden(OnnxModel(path), x)[1].reshape(-1)
    assert 0 <= places[0] < 4 <= places[1] < 8


def test_dynamic_quantization_of_zeros(tmp_path: Path) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    outputs = [("y", np.uint8, [5]), ("s", np.float32, []), ("z", np.uint8, [])]
    path = write(tmp_path / "m.onnx", [node], [("x", np.float32, [5])], outputs, opsets={"": 18})
    codes, scale, zero = golden(OnnxModel(path), np.zeros(5, np.float32))
    assert not codes.any()
    assert (scale, zero) == (1, 0)


def test_float_remainder_is_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (2, 4000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    a = np.concatenate(
        [bits[0], np.arange(64, dtype=np.float32) * np.float32(0.1), np.float32([1, np.inf, -3, 0])]
    )
    b = np.concatenate([bits[1], np.full(64, 0.1, np.float32), np.float32([np.inf, 1, 0, 5])])
    node = helper.make_node("Mod", ["a", "b"], ["y"], fmod=1)
    value = ("y", np.float32, a.shape)
    path = write(tmp_path / "m.onnx", [node], [(n, *value[1:]) for n in ("a", "b")], [value], opsets={"": 18})
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(golden(OnnxModel(path), a, b)[0], np.fmod(a, b))
