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


@pytest.mark.parametrize("op", ["Abs", "Celu", "Round", "Selu"])
def test_signs_of_zeros_are_those_of_the_runtime(op: str, tmp_path: Path) -> None:
    x = np.float32([0.0, -0.0, 0.3, -0.3, 0.5, -0.5, 1.5, -2.5, INF, -INF, NAN, 1e-42, -1e-42])
    x = x[:-1] if op in ("Celu", "Selu") else x  # there ONNX Runtime loses subnormal results
    got = _result(tmp_path, op, x)
    expected = runtime(tmp_path / "m.onnx", x=x)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-6 if op in ("Celu", "Selu") else 0)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_index_of_nan(op: str, last: int, dtype: Any, tmp_path: Path) -> None:
    rows = [
        [NAN] * 5,
        [2, NAN, 7, NAN, 1],
        [NAN, 2, 7, NAN, 7],
        [0.0, -0.0, -1, -0.0, 0.0],
        [INF, -INF, INF, -INF, 3],
        [-2, -3, -3, -2, -2.5],
    ]
    x = np.array(rows, dtype)
    node = helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
    path = write(
        tmp_path / "m.onnx", [node], [("x", dtype, x.shape)], [("y", np.int64, [6])], opsets={"": 18}
    )
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((4, 37), -1), ((9, 4, 3), 0), ((2, 6, 5), 1)])
def test_index_where_nan_is_among_numbers(
    op: str, last: int, shape: tuple[int, ...], axis: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(axis + 1)
    x = rng.choice(np.float32([NAN, NAN, INF, -INF, 1, 2, -0.0, 0.0, -5]), shape)
    node = helper.make_node(op, ["x"], ["y"], axis=axis, select_last_index=last)
    path = write(
        tmp_path / "m.onnx", [node], [("x", np.float32, shape)], [("y", np.int64, None)], opsets={"": 18}
    )
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


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


SPECIAL = np.float32([NAN, INF, -INF, 3e38, -3e38, -0.0, 0.0, 2.5, -1.5, NAN, 1.0, -INF])


def _node(op: str, *inputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, ["x", *inputs], ["y"], **attributes)


def _both(
    folder: Path, node: Any, x: np.ndarray, opset: int = 18, **weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Result of the golden model, and ONNX Runtime's."""
    path = write(
        folder / "m.onnx", [node], [("x", x.dtype, x.shape)], [("y", x.dtype, None)], weights, {"": opset}
    )
    with np.errstate(all="ignore"):
        return golden(OnnxModel(path), x)[0], runtime(path, x=x)[0]


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_of_one_element(op: str, opset: int, tmp_path: Path) -> None:
    got, want = _both(tmp_path, _node(op, axis=1), SPECIAL[:, None], opset)
    np.testing.assert_array_equal(got, want)


ONE = np.float32([[NAN], [INF], [-INF], [2]])
CONSTANT = np.float32([0.5])
BEHIND = {
    "LayerNormalization": (_node("LayerNormalization", "s", "b"), ONE, {"s": CONSTANT, "b": CONSTANT}),
    "InstanceNormalization": (
        _node("InstanceNormalization", "s", "b"),
        ONE[:, None],
        {"s": CONSTANT, "b": CONSTANT},
    ),
    "x - x": (_node("Sub", "x"), SPECIAL, {}),
    "x / x": (_node("Div", "x"), SPECIAL, {}),
    "x * 0": (_node("Mul", "z"), SPECIAL, {"z": np.float32(0)}),
    "0 / x": (helper.make_node("Div", ["z", "x"], ["y"]), SPECIAL, {"z": np.float32(0)}),
    "Softplus": (_node("Softplus"), SPECIAL, {}),
    "Acosh": (_node("Acosh"), np.float32([NAN, INF, -INF, -5, -1, 0, 0.5, 1, 2]), {}),
}


SLOPES = np.float32([INF, NAN, -INF, 0, 2, -0.0, 3, NAN, -1, 2, NAN, 0])
BEHIND |= {
    "PRelu": (_node("PRelu", "s"), SPECIAL, {"s": SLOPES}),
    "least of NaN": (_node("Min", "s"), SPECIAL, {"s": np.float32(NAN)}),
    "largest of NaN": (_node("Max", "s", "x"), SPECIAL, {"s": np.float32(NAN)}),
}


@pytest.mark.parametrize("case", BEHIND)
def test_operands_are_not_taken_for_finite(case: str, tmp_path: Path) -> None:
    node, x, weights = BEHIND[case]
    got, want = _both(tmp_path, node, x, **weights)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("low", [None, -1.0, -INF])
@pytest.mark.parametrize("high", [None, 2.0])
def test_clip_begins_at_the_largest_finite_number(
    dtype: Any, low: float | None, high: float | None, tmp_path: Path
) -> None:
    limits = {n: dtype(v) for n, v in (("low", low), ("high", high)) if v is not None}
    node = _node("Clip", *(n if n in limits else "" for n in ("low", "high")))
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtype)
    np.testing.assert_array_equal(*_both(tmp_path, node, x, **limits))


def test_clip_of_version_6(tmp_path: Path) -> None:
    np.testing.assert_array_equal(*_both(tmp_path, _node("Clip", min=-1.0), SPECIAL, 7))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("op", ["MaxPool", "GlobalMaxPool"])
def test_pools_of_infinities(op: str, dtype: Any, tmp_path: Path) -> None:
    windows = [[-INF] * 4, [INF, -INF, 1, 2], [-0.0] * 4, [-INF, -INF, -60000, -INF], [NAN] * 4]
    x = np.array(windows, dtype).reshape(1, 5, 2, 2)
    attributes = {"kernel_shape": [2, 2]} if op == "MaxPool" else {}
    got, want = _both(tmp_path, _node(op, **attributes), x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[0, 2]), True)


PADDED: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}


@pytest.mark.parametrize("op", ["MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"])
def test_extremes_pass_nan_on(op: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 6, 6)).astype(np.float32)
    for special in (NAN, INF, -INF):
        x[rng.random(x.shape) < 0.015] = special
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-INF)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    # numpy's, as PyTorch has it; ONNX Runtime's depends on where in the window NaN is.
    want = {
        "MaxPool": windows.max((4, 5)),
        "GlobalMaxPool": x.max((2, 3), keepdims=True),
        "ReduceMax": x.max((1, 3)),
        "ReduceMin": x.min((1, 3)),
    }[op]
    axes = {"a": np.array([1, 3])} if op.startswith("Reduce") else {}
    node = _node(op, *axes, **(PADDED if op == "MaxPool" else {"keepdims": 0} if axes else {}))
    got, _ = _both(tmp_path, node, x, **axes)
    np.testing.assert_array_equal(got, want)
    assert np.isnan(want).any()
    assert np.isfinite(want).any()


@pytest.mark.parametrize("sizes", [(10, 12), (3, 4), (7, 3)])
@pytest.mark.parametrize("how", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_counts_only_elements_with_a_weight(
    mode: str, how: str, sizes: tuple[int, int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 4, 5, 6)).astype(np.float32)
    chosen = rng.random(x.shape) < 0.15
    x[chosen] = rng.choice([NAN, INF, -INF], int(chosen.sum()))
    node = _node("Resize", "", "", "sizes", mode=mode, coordinate_transformation_mode=how)
    got, want = _both(tmp_path, node, x, sizes=np.array([1, 4, *sizes]))
    # ONNX Runtime multiplies some neighbours by 0, onnx.reference others.
    np.testing.assert_allclose(got[~np.isnan(want)], want[~np.isnan(want)], rtol=1e-5, atol=1e-5)
    assert np.isfinite(want).any()


def test_a_resized_border_is_not_made_of_nan(tmp_path: Path) -> None:
    x = np.float32([NAN, 1, 2, 4])[None, None, None]
    node = _node(
        "Resize",
        "roi",
        "",
        "sizes",
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    area = np.float32([0, 0, 0, 0.5, 1, 1, 1, 1.5])
    got, want = _both(tmp_path, node, x, roi=area, sizes=np.array([1, 1, 1, 5]))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert (got == 7).any()


def test_normalization_of_channels_counts_the_window_only(tmp_path: Path) -> None:
    x = np.float32([1, NAN, 2, 3, INF, -1, 0.5]).reshape(1, 7, 1, 1)
    got, _ = _both(tmp_path, _node("LRN", size=3, alpha=1.0), x)
    # ONNX Runtime's running sum keeps NaN for all channels behind it.
    padded = np.pad(x[0, :, 0, 0].astype(np.float64), 1)
    sums = np.lib.stride_tricks.sliding_window_view(padded**2, 3).sum(1)
    with np.errstate(invalid="ignore"):
        want = x[0, :, 0, 0] / (1 + sums / 3) ** 0.75
    np.testing.assert_allclose(got[0, :, 0, 0], want, rtol=1e-5)


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


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("count", [4, 16])
def test_of_zeros_the_last_operand_decides(op: str, count: int, tmp_path: Path) -> None:
    """ONNX Runtime's rule on x86; the sign tells when it is divided by."""
    one = np.resize(np.float32([0.0, -0.0, 0.0, -0.0, 3, -3]), count)
    two = np.resize(np.float32([0.0, 0.0, -0.0, -0.0]), count)
    got, want = _both(tmp_path, _node(op, "s"), one, s=two)
    assert got.tobytes() == np.where(one == two, two, want).tobytes()
