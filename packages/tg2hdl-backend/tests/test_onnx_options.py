"""Options and operands of ONNX operators against ONNX Runtime, where results or shapes were wrong or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

from onnx import helper  # noqa: E402

from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

Array = npt.NDArray[Any]
INF, NAN = np.inf, np.nan
BASES = np.float32([0, -0.0, 1, -1, 2, -2, 0.5, INF, -INF, NAN, -8, -3.5])
EXPONENTS = np.float32([0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, INF, -INF, NAN, 1e10, 16777217])


def _results(
    folder: Path,
    operator: str,
    inputs: dict[str, Array],
    weights: dict[str, Array],
    names: list[str],
    **options: Any,
) -> tuple[Array, Array]:
    node = helper.make_node(operator, names, ["y"], **options)
    given = [(n, a.dtype, a.shape) for n, a in inputs.items()]
    path = write(folder / "m.onnx", [node], given, [("y", np.float32, None)], weights, {"": 19})
    return golden(OnnxModel(path), *inputs.values())[0], runtime(path, **inputs)[0]


def _same_numbers(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    zero_or_infinite = (wanted == 0) | np.isinf(wanted)
    np.testing.assert_array_equal(np.signbit(found[zero_or_infinite]), np.signbit(wanted[zero_or_infinite]))


def test_powers_of_special_numbers(tmp_path: Path) -> None:
    a, b = (m.reshape(-1) for m in np.meshgrid(BASES, EXPONENTS))
    _same_numbers(*_results(tmp_path, "Pow", {"a": a, "b": b}, {}, ["a", "b"]))


@pytest.mark.parametrize("exponent", EXPONENTS[:14])
def test_known_powers_of_special_numbers(exponent: float, tmp_path: Path) -> None:
    found, wanted = _results(tmp_path, "Pow", {"a": BASES}, {"b": np.array(exponent)}, ["a", "b"])
    if exponent in (0.5, 2.5):  # A square root keeps the sign of zero.
        found = np.where(found == 0, 0, found)
    _same_numbers(found, wanted)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize(("length", "size"), [(20, 6), (33, 10), (35, 10), (59, 22)])
def test_nearest_positions_beside_the_middle(
    length: int, size: int, mode: str, rounding: str, tmp_path: Path
) -> None:
    x = np.arange(length, dtype=np.float32).reshape(1, 1, length)
    options = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    sizes = {"s": np.array([1, 1, size])}
    np.testing.assert_array_equal(
        *_results(tmp_path, "Resize", {"x": x}, sizes, ["x", "", "", "s"], **options)
    )


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("strides", "padding"), [([2, 3], [1, 0]), ([3, 3], [2, 1]), ([2, 2], [0, 0])])
def test_sizes_of_transposed_convolutions(
    mode: str, strides: list[int], padding: list[int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((1, 2, 5, 4), (2, 3, 3, 3)))
    options = {"auto_pad": mode, "strides": strides, "output_padding": padding}
    found, wanted = _results(tmp_path, "ConvTranspose", {"x": x}, {"w": w}, ["x", "w"], **options)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("pads", [[0, 5, 0, 7], [3, 0, 5, 2], [0, 3, 0, 3], [1, -1, 0, 7], [0, -1, 0, 2]])
def test_padding_that_wraps_more_than_once(pads: list[int], tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(
        *_results(tmp_path, "Pad", {"x": x}, {"p": np.array(pads)}, ["x", "p"], mode="wrap")
    )


@pytest.mark.parametrize(("size", "window", "stride"), [(1, 1, 2), (3, 2, 3), (4, 1, 2), (3, 1, 3)])
@pytest.mark.parametrize("output_padding", [0, 1])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_transposed_windows_with_gaps_have_no_padding(
    size: int, window: int, stride: int, mode: str, output_padding: int, tmp_path: Path
) -> None:
    x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, size)
    w = np.arange(1, window + 1, dtype=np.float32).reshape(1, 1, window)
    options = {
        "auto_pad": mode,
        "strides": [stride],
        "kernel_shape": [window],
        "output_padding": [output_padding],
    }
    np.testing.assert_array_equal(
        *_results(tmp_path, "ConvTranspose", {"x": x}, {"w": w}, ["x", "w"], **options)
    )
