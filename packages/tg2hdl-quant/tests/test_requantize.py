"""Requantization by multipliers: how far results are from the exact quotient, and how wide the sums become."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, UnsupportedError
from tg2hdl_ir.tensors import TensorGraph, evaluate_graph
from tg2hdl_quant.graph import QuantizeOptions
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.requantize import requantize
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue


@pytest.mark.parametrize("rounding", ["half_up", "half_even"])
@pytest.mark.parametrize(
    ("reach", "exponents", "low", "high"),
    [
        (417_945, (-11.05, -8.09), 0, 255),
        (6_627_960, (-15.02, -11.9), -127, 127),
        (1_086_045, (-2.89, -1.54), -32767, 32767),
        (59_925, (1.25, 2.28), -32767, 32767),
        (30_000, (-7.0, -7.0), -127, 127),
        (3_769_155, (-11.9, -8.84), 0, 255),
    ],
)
def test_sums_of_32_bits_err_by_a_quarter_of_a_step_at_most(
    reach: int, exponents: tuple[float, float], low: int, high: int, rounding: str
) -> None:
    rng = np.random.default_rng(0)
    ratio = np.exp2(np.linspace(*exponents, 20) + 1e-4)
    offset = rng.uniform(-0.01, 0.01, 20) * high
    builder = IntegerBuilder()
    sums = builder.add("input", (), (20,), DType.INT32, 0, "x")
    total = IntegerSum((IntegerValue(sums, ratio, -reach, reach),), offset, (20,))
    options = QuantizeOptions(requantization="multiplier", rounding=rounding)
    made = requantize(builder, total, 1.0, low, high, options, "layer x")
    graph = TensorGraph("g", tuple(builder.nodes), (sums,), (made,), ("x",), None)
    assert max(node.dtype.bit_width for node in graph.nodes) == 32
    spread = np.minimum(reach, 1.1 * high / ratio)
    x = np.rint(rng.uniform(-1, 1, (2000, 20)) * spread).astype(np.int32)
    x[:2] = np.array([[-reach], [reach]])
    exact = np.clip(x * ratio + offset, low, high)
    wrong = evaluate_graph(graph, [x])[0] - exact
    tolerance = 1 / 4 if reach == 3_769_155 else 1 / 8
    assert np.abs(wrong).max() <= 0.5 + max(tolerance, high / 2048)
    if high < 1000:
        inside = (exact > low + 1) & (exact < high - 1)
        assert abs(wrong[inside].mean()) < 0.02, "no bias"


def test_sums_beyond_64_bits_are_refused() -> None:
    builder = IntegerBuilder()
    assert builder.fitting(-(1 << 63), (1 << 63) - 1, "layer x") is DType.INT64
    with pytest.raises(UnsupportedError) as caught:
        builder.fitting(0, 1 << 63, "layer x")
    assert str(caught.value) == (
        "unsupported: a sum needs more than 64 bits\n"
        "  at: layer x\n"
        "  hint: quantize to fewer bits, or use requantization='shift' where tg2hdl chooses the scales"
    )


@pytest.mark.parametrize("ratio", [0.0371, 1.31e-3])
def test_multipliers_of_24_bits_keep_all_of_sixteen_bits(ratio: float) -> None:
    builder, reach = IntegerBuilder(), 1 << 25
    sums = builder.add("input", (), (1,), DType.INT32, 0, "x")
    total = IntegerSum((IntegerValue(sums, np.asarray(ratio), -reach, reach),), np.zeros(()), (1,))
    options = QuantizeOptions(requantization="multiplier", rounding="half_even", multiplier_bits=24)
    made = requantize(builder, total, 1.0, -32768, 32767, options, "layer x")
    graph = TensorGraph("g", tuple(builder.nodes), (sums,), (made,), ("x",), None)
    x = np.random.default_rng(0).integers(-reach, reach, (5000, 1), dtype=np.int32)
    wrong = evaluate_graph(graph, [x])[0] - np.clip(x * ratio, -32768, 32767)
    assert np.abs(wrong).max() <= 0.5 + 1 / 16
