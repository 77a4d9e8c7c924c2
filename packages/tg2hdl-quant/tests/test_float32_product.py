"""Rounding as ONNX Runtime's: integer operations against float32 arithmetic of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.tensors import TensorGraph, evaluate_graph
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.requantize import requantize
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue

OPTIONS = QuantizeOptions(requantization="multiplier", rounding="onnxruntime")
REACH = (1 << 24) - 1


def results(sums: np.ndarray, ratio: float, low: int, high: int, reach: int = REACH) -> np.ndarray:
    builder = IntegerBuilder()
    source = builder.add("input", (), (), DType.INT32, 0)
    total = IntegerSum(
        (IntegerValue(source, np.float64(np.float32(ratio)).reshape(()), -reach, reach),), np.zeros(()), ()
    )
    made = requantize(builder, total, 1.0, low, high, OPTIONS, "layer x")
    graph = TensorGraph("requantization", tuple(builder.nodes), (source,), (made,), ("x",))
    return evaluate_graph(graph, [sums])[0]


def expected(sums: np.ndarray, ratio: float, low: int, high: int) -> np.ndarray:
    product = sums.astype(np.float32) * np.float32(ratio)
    return np.clip(np.rint(product), low, high).astype(np.int64)


@pytest.mark.parametrize(("low", "high"), [(-127, 127), (0, 255), (-2047, 2047)])
def test_random_multipliers_and_all_near_ties(low: int, high: int) -> None:
    rng = np.random.default_rng(0)
    count = 0
    for ratio in np.exp2(-rng.uniform(0.01, 16, 60)).astype(np.float32):
        sums = rng.integers(-REACH, REACH, 20_000)
        ties = (np.arange(-high - 3, high + 3) + 0.5) / float(ratio)
        near = (np.rint(ties)[:, None] + np.arange(-2, 3)).reshape(-1)
        sums = np.concatenate([sums, near[np.abs(near) < REACH], [0, 1, -1, REACH, -REACH]]).astype(np.int64)
        np.testing.assert_array_equal(results(sums, ratio, low, high), expected(sums, ratio, low, high))
        count += len(sums)
    assert count > 1_000_000


def test_products_that_float32_rounds_onto_a_tie() -> None:
    """Float32 arithmetic differs from exact arithmetic here, and the integers follow float32."""
    differing = 0
    for ratio in np.random.default_rng(1).uniform(2.0**-17, 2.0**-16, 50).astype(np.float32):
        sums = np.rint((np.arange(-100, 100) + 0.5) / float(ratio)).astype(np.int64)
        found = results(sums, ratio, -127, 127)
        np.testing.assert_array_equal(found, expected(sums, ratio, -127, 127))
        exact = np.rint(sums.astype(np.longdouble) * np.longdouble(ratio))
        differing += int((found != exact).sum())
    assert differing > 10


@pytest.mark.parametrize("high", [127, 32767])
def test_multipliers_of_one_and_more(high: int) -> None:
    """Outputs of 16 bits may have finer steps than the sums."""
    rng = np.random.default_rng(2)
    for ratio in np.exp2(rng.uniform(0, 9, 10)).astype(np.float32):
        sums = np.concatenate([rng.integers(-REACH, REACH, 5_000), np.arange(-40_000, 40_000, 3)])
        np.testing.assert_array_equal(results(sums, ratio, -high, high), expected(sums, ratio, -high, high))


def test_sums_that_float32_does_not_hold_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"cannot be rounded as ONNX Runtime does[\s\S]*layer x"):
        results(np.zeros(1, np.int64), 0.3e-3, -32767, 32767, reach=REACH << 4)
