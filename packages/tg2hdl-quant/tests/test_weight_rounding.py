"""Codes of weights by methods that look at samples."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import DType, InputError, QuantizerDef
from tg2hdl_ir.tensors import GraphBuilder, TensorGraph
from tg2hdl_quant.graph import QuantizeOptions, quantize_graph
from tg2hdl_quant.graph.weight_codes import WeightRounding
from tg2hdl_quant.methods import compensated, nearest
from tg2hdl_quant.plugin import tg2hdl_quantizers
from tg2hdl_quant.testing import check_quantizer


def correlated(groups: int, rows: int, terms: int) -> np.ndarray:
    rng = np.random.default_rng(terms)
    sources = rng.normal(size=(groups, rows, 3)) @ rng.normal(size=(groups, 3, terms))
    return sources + rng.normal(size=(groups, rows, terms)) * 0.1


def test_the_sums_err_less_than_with_nearest_codes() -> None:
    x, weights = correlated(2, 500, 24), np.random.default_rng(0).normal(size=(2, 8, 24))
    scale = np.abs(weights).max(2, keepdims=True) / 7
    expected = x @ weights.transpose(0, 2, 1)

    def error(codes: np.ndarray) -> float:
        return float(np.square(x @ (codes * scale).transpose(0, 2, 1) - expected).mean())

    chosen = compensated(weights, scale, 7, x)
    assert np.array_equal(chosen, np.rint(chosen))
    assert np.abs(chosen).max() <= 7
    assert error(chosen) < 0.4 * error(nearest(weights, scale, 7, x))


def test_codes_that_are_exact_stay_what_they_are() -> None:
    codes = np.random.default_rng(0).integers(-7, 8, (1, 5, 12)).astype(float)
    x = np.pad(correlated(1, 100, 10), ((0, 0), (0, 0), (0, 2)))
    np.testing.assert_array_equal(compensated(codes * 0.25, np.full((1, 5, 1), 0.25), 7, x), codes)


def depthwise() -> tuple[TensorGraph, np.ndarray]:
    """Products of shape (1, channel, row, output, tap) from windows (1, channel, row, 1, tap), as a convolution has."""
    build = GraphBuilder()
    weights = np.random.default_rng(1).normal(size=(1, 3, 1, 2, 9)).astype(np.float32)
    source = build.add("input", (), (1, 3, 4, 1, 9), DType.FP32, 0, "x")
    product = build.elementwise("MUL", source, build.const(weights, DType.FP32, "w"), dtype=DType.FP32)
    total = build.reduce("sum", product, (4,), DType.FP32)
    return TensorGraph("depthwise", tuple(build.nodes), (source,), (total,), ("x",)), weights


def test_each_channel_of_a_depthwise_layer_is_a_group() -> None:
    graph, weights = depthwise()
    x = correlated(3, 4 * 50, 9).reshape(3, 50, 4, 9).transpose(1, 0, 2, 3)[:, None, :, :, None]
    scale = np.abs(weights).max(4, keepdims=True) / 7
    rounding = WeightRounding("compensated", graph, [x])
    found = rounding.codes(weights, scale, 7, graph.inputs[0], np.ones(()), (1, 3, 4, 2, 9), (4,), "layer w")
    for channel in range(3):
        rows = x[:, 0, channel].transpose(0, 1, 2, 3).reshape(1, -1, 9)
        expected = compensated(weights[:, channel, 0], scale[:, channel, 0], 7, rows)
        np.testing.assert_array_equal(found[:, channel, 0], expected)


def test_a_quantized_graph_errs_less() -> None:
    graph, _ = depthwise()
    x = correlated(3, 4 * 50, 9).reshape(3, 50, 4, 9).transpose(1, 0, 2, 3)[:, None, :, :, None]
    first, second = (
        quantize_graph(
            graph, [x.astype(np.float32)], QuantizeOptions(bits=12, weight_bits=4, weight_rounding=name)
        )
        for name in ("nearest", "compensated")
    )
    assert second.report.output_sqnr > first.report.output_sqnr + 3


def test_an_unknown_method_is_refused_by_name() -> None:
    graph, _ = depthwise()
    with pytest.raises(
        InputError, match="no method 'best' that rounds weights\n  note: registered: compensated, nearest"
    ):
        WeightRounding("best", graph, [])


def test_the_built_in_methods_pass_the_conformance_suite() -> None:
    methods = [q for q in tg2hdl_quantizers() if q.round_weights is not None]
    assert {q.name for q in methods} == {"nearest", "compensated"}
    for method in methods:
        check_quantizer(method)


def test_the_conformance_suite_finds_codes_beyond_the_limit() -> None:
    method = QuantizerDef("wide", "", round_weights=lambda w, scale, limit, x: np.rint(w / scale) * 2)
    with pytest.raises(AssertionError, match="quantizer wide: normal numbers have codes beyond 1"):
        check_quantizer(method)
