"""Zeros, NaN and remainders in ONNX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from tg2hdl_backend.onnx import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, write  # noqa: E402


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
def test_index_of_nan_is_inside_the_axis(op: str, last: int, tmp_path: Path) -> None:
    node = helper.make_node(op, ["x"], ["y"], axis=0, keepdims=0, select_last_index=last)
    path = write(
        tmp_path / "m.onnx", [node], [("x", np.float32, [61])], [("y", np.int64, [])], opsets={"": 18}
    )
    assert golden(OnnxModel(path), np.full(61, np.nan, np.float32))[0] == 0


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
