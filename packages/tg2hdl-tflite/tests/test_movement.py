"""Operators that place codes, reduce them, or lead to and from them, against TensorFlow Lite Micro."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

SHAPE = (1, 4, 6, 3)
CODES = np.random.default_rng(5).integers(-128, 128, (2, *SHAPE)).astype(np.int8)


def compare(data: bytes, x: np.ndarray, outputs: int = 1) -> None:
    wanted, found = run_micro(data, x, outputs=outputs), run_golden(data, x)
    for want, have in zip(wanted, found, strict=True):
        for one, other in zip(want, have, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def network(
    name: str,
    shapes: list[tuple[int, ...]],
    constants: list[Any] = (),  # type: ignore[assignment]
    options: str | None = None,
    first: bool = True,
    out_scale: float = 0.5,
    version: int = 1,
    **fields: Any,
) -> tuple[bytes, int]:
    net = Network()
    x = net.tensor(SHAPE, "INT8", scale=0.5, zero_point=-3, name="x")
    given = [net.constant(np.array(c, np.int32)) for c in constants]
    results = [net.tensor(s, "INT8", scale=out_scale, zero_point=-3) for s in shapes]
    net.operator(name, [x, *given] if first else [*given, x], results, options, version, **fields)
    return net.finish([x], results), len(results)


@pytest.mark.parametrize(
    "case",
    [
        network("SPLIT", [(1, 4, 2, 3)] * 3, [2], "SplitOptions", first=False, NumSplits=3),
        network("SPLIT_V", [(1, 4, 1, 3), (1, 4, 5, 3)], [[1, 5], 2], "SplitVOptions", NumSplits=2),
        network("SLICE", [(1, 2, 5, 3)], [[0, 1, 1, 0], [1, 2, -1, 3]], "SliceOptions"),
        network("GATHER", [(1, 4, 3, 3)], [[5, 0, 2]], "GatherOptions", Axis=2),
        network("GATHER", [(1, 4, 3, 3)], [[1, 3, 5]], "GatherOptions", Axis=2),
        network("UNPACK", [(1, 6, 3)] * 4, [], "UnpackOptions", Num=4, Axis=1),
        network("SQUEEZE", [(4, 6, 3)], [], "SqueezeOptions"),
        network("EXPAND_DIMS", [(1, 4, 1, 6, 3)], [2], "ExpandDimsOptions"),
        network("RESHAPE", [(8, 9)], [[8, 9]], "ReshapeOptions"),
        network("MIRROR_PAD", [(1, 7, 6, 3)], [[[0, 0], [2, 1], [0, 0], [0, 0]]], "MirrorPadOptions"),
        network("SUM", [(1, 4, 3)], [[2]], "ReducerOptions", out_scale=2.25),
        network("REDUCE_MAX", [(1, 1, 1, 3)], [[1, 2]], "ReducerOptions", KeepDims=True),
        network("TRANSPOSE", [(1, 6, 3, 4)], [[0, 2, 3, 1]], "TransposeOptions"),
    ],
    ids=lambda case: "",
)
def test_codes_keep_their_values(case: tuple[bytes, int]) -> None:
    compare(case[0], CODES, case[1])


def test_tensors_along_a_new_axis() -> None:
    net = Network()
    x = net.tensor(SHAPE, "INT8", scale=0.5, name="x")
    y = net.tensor((1, 4, 2, 6, 3), "INT8", scale=0.5)
    net.operator("PACK", [x, x], [y], "PackOptions", ValuesCount=2, Axis=2)
    compare(net.finish([x], [y]), CODES)


@pytest.mark.parametrize(("scale", "zero"), [(0.25, -128), (0.1, 5), (0.013, 127)])
def test_numbers_to_codes_and_back(scale: float, zero: int) -> None:
    """Halves, neighbours of halves, and numbers beyond all codes (TFLM overflows beyond 2^31 steps)."""
    steps = np.concatenate([np.arange(-300, 300) + 0.5, np.random.default_rng(1).normal(0, 90, 400)])
    x = (steps * np.float32(scale)).astype(np.float32)
    x = np.concatenate(
        [
            x,
            np.nextafter(x, np.float32(9e9)),
            np.nextafter(x, np.float32(-9e9)),
            np.float32([0, -0.0, 1e6, -1e6, 1e-30]),
        ]
    )
    net = Network()
    a = net.tensor(x.shape, "FLOAT32", name="x")
    codes = net.tensor(x.shape, "INT8", scale=scale, zero_point=zero)
    back = net.tensor(x.shape, "FLOAT32", name="y")
    net.operator("QUANTIZE", [a], [codes], "QuantizeOptions")
    net.operator("DEQUANTIZE", [codes], [back], "DequantizeOptions")
    compare(net.finish([a], [codes, back]), x[None], 2)


@pytest.mark.parametrize("name", ["LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "LESS", "EQUAL"])
def test_truth_values(name: str) -> None:
    """Of truth values, or of codes of one scale."""
    kind = "BOOL" if name.startswith("LOGICAL") else "INT8"
    scale = None if kind == "BOOL" else 0.5
    net = Network()
    x = net.tensor(SHAPE, kind, scale=scale, zero_point=0 if scale is None else 3, name="x")
    values = CODES < 0 if kind == "BOOL" else CODES // 64
    other = (CODES[0] % 2 == 0) if kind == "BOOL" else (CODES[1] // 64)
    more = [] if name == "LOGICAL_NOT" else [net.constant(other, scale=scale, zero_point=3)]
    y = net.tensor(SHAPE, "BOOL")
    net.operator(name, [x, *more], [y])
    compare(net.finish([x], [y]), values)
