"""Quantization of whole models: golden model, hardware, numpy and a hand-written reference agree bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl
from tg2hdl_backend.onnx_runtime import runtime_session
from tg2hdl_ir import InputError, UnsupportedError
from tg2hdl_ir.tensors import evaluate_nodes

RNG = np.random.default_rng(0)


def tensor(*shape: int, scale: float = 1.0) -> Tensor:
    return Tensor((RNG.normal(size=shape) * scale).astype(np.float32))


W1, B1, W2, B2 = tensor(12, 16), tensor(16), tensor(16, 5), tensor(5)
CONV, BIAS, DEPTHWISE, SQUARE = tensor(4, 1, 3, 3), tensor(4), tensor(4, 1, 3, 3), tensor(6, 6)
GROUPED, TRANSPOSED = tensor(4, 2, 3, 3), tensor(4, 3, 2, 2)
NORM = nn.BatchNorm(4)
NORM.running_mean, NORM.running_var = tensor(4), tensor(4).abs() + 0.5
NORM.weight, NORM.bias = tensor(4), tensor(4)
CELL = nn.LSTMCell(6, 4)
for _name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
    setattr(CELL, _name, tensor(*getattr(CELL, _name).shape, scale=0.5))


def mlp(x: Tensor) -> Tensor:
    return (x @ W1 + B1).relu() @ W2 + B2


def residual(x: Tensor) -> Tensor:
    y = NORM(x.conv2d(CONV, BIAS, padding=1)).relu()
    return (y.conv2d(DEPTHWISE, groups=4, padding=2, dilation=2) + y).relu6().max_pool2d(2).mean((2, 3))


def attention(x: Tensor) -> Tensor:
    return ((x.linear(SQUARE) @ x.transpose(-1, -2)) * 0.3).softmax(-1) @ x


def recurrent(x: Tensor) -> Tensor:
    state = CELL(x[:, 0])
    return CELL(x[:, 1], state)[0]


MODELS = {
    "mlp": (mlp, (12,), 35),
    "residual": (residual, (1, 8, 8), 30),
    "attention": (attention, (3, 6), 30),
    "recurrent": (recurrent, (2, 6), 30),
    "gelu_layernorm": (lambda x: x.linear(SQUARE).gelu().layernorm(), (3, 6), 25),
    "cat_pad_leaky": (lambda x: x.leaky_relu().cat(x.sigmoid() * 2, dim=2).pad((1, 1)), (2, 3), 30),
    "grouped_then_transposed": (
        lambda x: x.conv2d(GROUPED, groups=2, stride=2).relu().conv_transpose2d(TRANSPOSED, stride=2),
        (4, 7, 7),
        30,
    ),
    "maximum": (lambda x: x.maximum(x.flip(2)).silu(), (2, 3), 30),
}


@pytest.mark.parametrize("requantization", ["shift", "multiplier"])
@pytest.mark.parametrize("name", MODELS)
def test_tinygrad_golden_and_numpy_agree_bit_for_bit(name: str, requantization: str) -> None:
    model, shape, floor = MODELS[name]
    samples = RNG.normal(size=(96, *shape)).astype(np.float32)
    q = tg2hdl.quantize(model, samples, requantization=requantization)
    assert q.report.output_sqnr > floor
    assert q.report.in_float == ()
    accelerator = tg2hdl.compile(q, samples[0])
    floats = [
        op.dtype
        for call in accelerator.captured.program.calls
        for op in call.kernel.buffers
        if op.dtype.is_float
    ]
    assert floats == []
    for sample in samples[:4]:
        integers = q.quantize_input(sample)
        expected = q.reference(*integers)
        np.testing.assert_array_equal(accelerator.golden(sample), expected)
        np.testing.assert_array_equal(q(*(Tensor(i) for i in integers)).numpy(), expected)
        assert accelerator.golden(sample).dtype.kind in "iu"


@pytest.mark.parametrize("requantization", ["shift", "multiplier"])
def test_hardware_gives_the_bits_of_the_reference(requantization: str) -> None:
    samples = RNG.normal(size=(96, 12)).astype(np.float32)
    q = tg2hdl.quantize(mlp, samples, requantization=requantization)
    accelerator = tg2hdl.compile(q, samples[0], multipliers=4)
    for sample in samples[:3]:
        result = accelerator.simulate(sample, engine="amaranth")
        np.testing.assert_array_equal(result.output, q.reference(*q.quantize_input(sample)))
        assert result.cycles.compute == accelerator.predicted_cycles
        np.testing.assert_array_equal(q.dequantize(result.output), q(sample))


@pytest.mark.parametrize("rounding", ["half_up", "half_even"])
def test_a_layer_written_by_hand_has_the_same_bits(rounding: str) -> None:
    """Integers and shift are computed here from the scales of the report alone."""
    samples = RNG.normal(size=(200, 12)).astype(np.float32)
    q = tg2hdl.quantize(mlp, samples, rounding=rounding, per_channel=False)
    rows = {row.name: row for row in q.report.layers if row.kind != "weights"}
    weights = [row for row in q.report.layers if row.kind == "weights"]
    s_x, s_h = rows["x"].scale, next(r.scale for n, r in rows.items() if n.endswith("relu"))
    s_1, s_2 = weights[0].scale, weights[1].scale
    w1, w2 = (np.clip(np.rint(w.numpy() / s), -127, 127).astype(int) for w, s in ((W1, s_1), (W2, s_2)))
    x = np.clip(np.rint(samples / s_x), -127, 127).astype(int)
    total = x @ w1 + np.rint(B1.numpy() / (s_x * s_1)).astype(int)
    exact = total / (s_h / (s_x * s_1))
    rounded = np.floor(exact + 0.5) if rounding == "half_up" else np.rint(exact)
    hidden = np.clip(rounded, 0, 255).astype(int)
    expected = hidden @ w2 + np.rint(B2.numpy() / (s_h * s_2)).astype(int)
    found = np.array([q.reference(*q.quantize_input(s))[0] for s in samples])
    np.testing.assert_array_equal(found, expected)


def test_embedding_and_class_numbers_stay_integers() -> None:
    embedding = nn.Embedding(7, 6)
    embedding.weight = tensor(7, 6)
    tokens = RNG.integers(0, 7, (64, 4)).astype(np.int32)
    model = lambda t: embedding(t).mean(1).linear(SQUARE).argmax(1)  # noqa: E731
    q = tg2hdl.quantize(model, tokens)
    accelerator = tg2hdl.compile(q, tokens[0])
    expected = [model(Tensor(t[None])).item() for t in tokens]
    found = [int(accelerator.golden(t)[0]) for t in tokens]
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 62


def test_the_same_samples_give_the_same_bits() -> None:
    samples = RNG.normal(size=(64, 12)).astype(np.float32)
    first, second = (tg2hdl.quantize(mlp, samples, calibration="percentile") for _ in range(2))
    assert first.graph.format() == second.graph.format()
    for a, b in zip(first.graph.nodes, second.graph.nodes, strict=True):
        assert a.op != "const" or np.array_equal(a.arg, b.arg)
    assert str(first.report) == str(second.report)


def test_report_names_layers_and_measures_accuracy() -> None:
    samples = RNG.normal(size=(80, 12)).astype(np.float32)
    labels = np.array([mlp(Tensor(s[None])).numpy().argmax() for s in samples])
    report = tg2hdl.quantize(mlp, samples, labels=labels).report
    assert report.float_accuracy == 1.0
    assert report.accuracy == report.agreement > 0.9
    text = str(report)
    for part in ("W1", "W2", "SQNR", "left in float: nothing", "agreement with the float model"):
        assert part in text


def _tflite(total: int, real: float) -> int:
    """MultiplyByQuantizedMultiplier as TensorFlow Lite's C++ has it, with its truncating division."""
    fraction, exponent = math.frexp(real)
    factor = math.floor(fraction * (1 << 31) + 0.5)
    product = (total << max(exponent, 0)) * factor
    nudge = 1 << 30 if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) // (1 << 31) * (1 if product + nudge >= 0 else -1)
    right = max(-exponent, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


@pytest.mark.parametrize("per_channel", [False, True])
def test_tflite_rounding_is_that_of_its_reference_code(per_channel: bool) -> None:
    samples = RNG.normal(size=(300, 12)).astype(np.float32)
    hidden = tensor(16, 6)
    q = tg2hdl.quantize(
        lambda x: (x @ W1 + B1) @ hidden, samples, rounding="tflite", per_channel=per_channel, weight_bits=6
    )
    weights = W1.numpy().astype(np.float64)
    consts = [n for n in q.graph.nodes if n.op == "const" and n.label.endswith("W1")]
    codes = consts[0].arg.reshape(16, 12).T.astype(np.int64)
    rows = {row.name: row.scale for row in q.report.layers if row.kind != "weights"}
    s_x, s_h = rows["x"], next(v for n, v in rows.items() if n.startswith("W1"))
    used = codes != 0
    # A scale is what the float weights and their codes have in common; float32, as files have it.
    ratios = np.where(used, weights / np.where(used, codes, 1), np.nan)
    axis = 0 if per_channel else None
    assert np.all(np.nanmax(np.abs(codes), axis) == 31)
    s_w = np.broadcast_to(np.abs(weights).max(axis) / 31, 16).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(np.nanmedian(ratios, 0), s_w, rtol=0.1)
    integers = np.concatenate([q.quantize_input(s)[0] for s in samples]).astype(np.int64)
    totals = integers @ codes + np.rint(B1.numpy() / (s_x * s_w)).astype(np.int64)
    expected = [[_tflite(int(t), s_x * s / s_h) for t, s in zip(r, s_w, strict=True)] for r in totals]
    stored = next(
        n for n, node in enumerate(q.graph.nodes) if node.shape == (1, 16) and node.dtype.name == "int8"
    )
    found = evaluate_nodes(q.graph, [integers[:, None].astype(np.int8)], [stored])[stored][:, 0]
    np.testing.assert_array_equal(found, np.clip(expected, -127, 127))


def test_fewer_than_six_bits_take_multipliers_unless_told() -> None:
    samples = RNG.normal(size=(64, 12)).astype(np.float32)

    def scales(**options: object) -> list[float]:
        return [row.scale for row in tg2hdl.quantize(mlp, samples, **options).report.layers]

    def powers(values: list[float]) -> bool:
        return all(math.frexp(v)[0] == 0.5 for v in values)

    assert powers(scales())
    assert powers(scales(weight_bits=6))
    assert powers(scales(weight_bits=4, requantization="shift"))
    for low in ({"bits": 5}, {"weight_bits": 5}, {"bits": {"W2": 4}}):
        assert not powers(scales(**low))


def test_widths_of_single_layers() -> None:
    samples = RNG.normal(size=(64, 12)).astype(np.float32)
    q = tg2hdl.quantize(mlp, samples, bits={"W2": 4})
    assert {r.name: r.bits for r in q.report.layers if r.kind == "weights"} == {"W1": 8, "W2": 4}
    codes = next(n.arg for n in q.graph.nodes if n.op == "const" and n.label.endswith("W2"))
    assert np.abs(codes).max() == 7
    assert "no layer 'W3' with integer weights" in _refused(samples, bits={"W3": 4})


def test_sixteen_bits_keep_what_eight_lose() -> None:
    samples = RNG.normal(size=(64, 12)).astype(np.float32)
    eight, wide = tg2hdl.quantize(mlp, samples), tg2hdl.quantize(mlp, samples, bits=16, weight_bits=16)
    assert wide.report.output_sqnr > 80 > 50 > eight.report.output_sqnr
    assert {n.dtype.name for n in wide.graph.nodes if n.op == "input"} == {"int16"}
    accelerator = tg2hdl.compile(wide, samples[0])
    for sample in samples[:3]:
        expected = wide.reference(*wide.quantize_input(sample))
        np.testing.assert_array_equal(accelerator.golden(sample), expected)


def test_sums_of_more_than_32_bits_are_narrowed_after_their_bits_are_dropped() -> None:
    """The mean of squares of 16-bit codes has 38 bits; a multiplier of 15 takes its highest."""
    samples = np.random.default_rng(5).normal(size=(40, 64)).astype(np.float32)
    found = tg2hdl.quantize(lambda x: (x * x).mean(-1), samples, activations=16)
    values = found.evaluate(samples).reshape(-1)
    exact = np.square(samples.astype(np.float64)).mean(1)
    np.testing.assert_allclose(values, exact, rtol=1e-3)


def test_a_preset_of_widths_has_scales_of_any_value() -> None:
    samples = np.random.default_rng(6).normal(size=(64, 12)).astype(np.float32)
    preset = tg2hdl.quantize(mlp, samples, weights=9, activations=16)
    spelled = tg2hdl.quantize(mlp, samples, weight_bits=9, bits=16, requantization="multiplier")
    assert preset.report == spelled.report
    np.testing.assert_array_equal(preset.evaluate(samples), spelled.evaluate(samples))
    assert tg2hdl.quantize(mlp, samples, activations="affine").report != preset.report
    twice = _refused(samples, activations=16, bits=8)
    assert "bits is given twice" in twice
    assert "give weights= and activations=, or bits= and weight_bits=" in twice
    assert "weight_bits is given twice" in _refused(samples, weights=9, weight_bits=8)
    assert "weight_bits=1 is not a width" in _refused(samples, weights=1)


@pytest.mark.parametrize("options", [{}, {"requantization": "shift"}, {"weight_rounding": "compensated"}])
def test_groups_of_weights_have_scales_of_their_own(options: dict[str, str]) -> None:
    rng = np.random.default_rng(2)
    w = (rng.normal(size=(16, 5)) * np.repeat([1.0, 0.1, 0.4, 1.5], 4)[:, None]).astype(np.float32)
    weight = Tensor(w)
    samples = rng.normal(size=(64, 16)).astype(np.float32) / np.repeat([1.0, 0.1, 0.4, 1.5], 4).astype(
        np.float32
    )

    def model(x: Tensor) -> Tensor:
        return x @ weight

    row, group = (
        tg2hdl.quantize(model, samples, weights=4, activations=16, group=size, **options)
        for size in (None, 4)
    )
    assert group.report.output_sqnr > row.report.output_sqnr + 4
    constants = {n.label: n.arg for n in group.graph.nodes if n.op == "const"}
    codes = next(array for label, array in constants.items() if label.endswith("weight"))
    assert np.abs(codes).max() == 7
    accelerator = tg2hdl.compile(group, samples[0], multipliers=2)
    for sample in samples[:3]:
        expected = group.reference(*group.quantize_input(sample))
        np.testing.assert_array_equal(accelerator.golden(sample), expected)
    np.testing.assert_array_equal(accelerator.simulate(samples[0]).output, accelerator.golden(samples[0]))


def test_a_group_that_is_not_a_number_of_weights() -> None:
    samples = np.zeros((8, 12), np.float32)
    one = _refused(samples, group=1)
    assert "group=1 is not a number of weights with a scale" in one
    assert "give 2 or more, such as group=32, with per_channel=True" in one
    assert "group=4 is not a number" in _refused(samples, group=4, per_channel=False)


def _classifier(x: Tensor) -> Tensor:
    return (x.linear(SQUARE).silu().layernorm().sum(1).linear(SQUARE)).softmax(-1)


FLOAT_CHOICES = {
    "softmax": ("softmax",),
    "layernorm and silu": ("layernorm", "silu"),
    "a layer by its weight": ("SQUARE",),
}


@pytest.mark.parametrize("chosen", FLOAT_CHOICES.values(), ids=FLOAT_CHOICES)
def test_what_is_chosen_stays_in_float_and_is_named(chosen: tuple[str, ...]) -> None:
    samples = RNG.normal(size=(64, 2, 6)).astype(np.float32)
    q = tg2hdl.quantize(_classifier, samples, float_layers=chosen)
    assert set(q.report.in_float) == set(chosen)
    assert f"left in float: {', '.join(q.report.in_float)}" in str(q.report)
    assert q.report.output_sqnr > 15
    accelerator = tg2hdl.compile(q, samples[0])
    for sample in samples[:2]:
        expected, found = q.reference(*q.quantize_input(sample)), accelerator.golden(sample)
        if "softmax" in chosen:
            # Outputs are float: numpy adds up in another order.
            np.testing.assert_allclose(found, expected, rtol=2e-6)
        else:
            np.testing.assert_array_equal(found, expected)


def test_float_parts_in_hardware() -> None:
    samples = RNG.normal(size=(64, 6)).astype(np.float32)
    columns = tensor(6, 4)
    q = tg2hdl.quantize(lambda x: x.linear(columns).softmax(-1), samples, float_layers="softmax")
    accelerator = tg2hdl.compile(q, samples[0])
    result = accelerator.simulate(samples[1])
    np.testing.assert_array_equal(result.output, accelerator.golden(samples[1]))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_what_has_no_integer_form_is_refused_or_named() -> None:
    samples = (RNG.normal(size=(64, 3, 6)) * 4).astype(np.float32)
    model = lambda x: x.cast("int32").cast("float32").linear(SQUARE)  # noqa: E731
    assert "allow_float=True" in _refused(samples, model=model)
    q = tg2hdl.quantize(model, samples, allow_float=True)
    assert q.report.in_float == ("cast",)
    for sample in samples[:3]:
        expected = np.trunc(sample) @ SQUARE.numpy()
        assert np.abs(q(sample[None])[0] - expected).max() < 0.2
        golden = tg2hdl.compile(q, samples[0]).golden(sample)
        np.testing.assert_array_equal(golden, q.reference(*q.quantize_input(sample)))


def test_an_unknown_name_left_in_float_is_refused() -> None:
    message = _refused(np.zeros((4, 12), np.float32), float_layers="softmax")
    assert "no layer or method 'softmax' to leave in float" in message
    assert "W1, W2" in message


def _refused(samples: object, **options: object) -> str:
    with pytest.raises((InputError, UnsupportedError)) as caught:
        tg2hdl.quantize(options.pop("model", mlp), samples, **options)
    return str(caught.value)


def test_refusals_name_the_input() -> None:
    good = np.zeros((10, 12), np.float32)
    bad = good.copy()
    bad[3, 4] = np.nan
    assert "samples of input 'x' have NaN at index (3, 0, 4)" in _refused(bad)
    bad[3, 4] = -np.inf
    assert "an infinity at index (3, 0, 4)" in _refused(bad)
    assert "labels of shape (9,) for 10 samples" in _refused(good, labels=np.zeros(9, int))
    assert "no calibration method 'median'" in _refused(good, calibration="median")
    assert "no option 'bit'" in _refused(good, bit=3)
    assert "bits=1 is not a width" in _refused(good, bits=1)
    assert "hold none" in _refused(good[:0])
    assert "fails" in _refused(np.zeros((10, 13), np.float32)) or "failed" in _refused(
        np.zeros((10, 13), np.float32)
    )


def test_an_operation_without_integer_form_is_named() -> None:
    message = _refused(RNG.normal(size=(8, 6)).astype(np.float32), model=lambda x: x.cast("int32") * 2)
    assert "cast of int32[1, 6] has no integer form" in message


def test_constant_and_saturating_tensors_are_warned_of() -> None:
    report = tg2hdl.quantize(mlp, np.full((10, 12), 0.5, np.float32)).report
    assert any("x is constant (0.5) on all samples" in w for w in report.warnings)


def test_features_of_different_ranges_have_scales_of_their_own() -> None:
    ranges = np.geomspace(1e-3, 1e3, 12)
    samples = (RNG.uniform(0.5, 1, (300, 12)) * ranges).astype(np.float32)
    weights = Tensor((RNG.normal(size=(12, 5)) / ranges[:, None]).astype(np.float32))
    model = lambda x: (x @ weights).relu()  # noqa: E731
    q = tg2hdl.quantize(model, samples)
    one = tg2hdl.quantize(model, samples, input_scales="one")
    assert q.report.output_sqnr > 35 > 15 > one.report.output_sqnr
    np.testing.assert_array_equal(
        tg2hdl.compile(q, samples[0]).golden(samples[5]), q.reference(*q.quantize_input(samples[5]))
    )


def test_bias_correction_takes_the_mean_error_of_each_channel_away() -> None:
    samples = RNG.uniform(0, 1, (400, 2, 6, 6)).astype(np.float32)
    kernel = Tensor(RNG.normal(size=(5, 2, 3, 3)).astype(np.float32))
    model = lambda x: x.conv2d(kernel, padding=1)  # noqa: E731

    def mean_error(**options: object) -> float:
        q = tg2hdl.quantize(model, samples, weight_bits=3, **options)
        expected = np.stack([model(Tensor(s[None])).numpy()[0] for s in samples[:40]])
        error = q.evaluate(samples[:40]).reshape(expected.shape) - expected
        return float(np.abs(error.mean((0, 2, 3))).max())

    assert mean_error(bias_correction=True) < 0.15 * mean_error()


def test_a_layer_rounds_as_onnxruntime_does() -> None:
    pytest.importorskip("onnxruntime")
    helper = pytest.importorskip("onnx").helper
    samples = RNG.normal(size=(400, 12)).astype(np.float32)
    hidden = Tensor(RNG.normal(size=(16, 6)).astype(np.float32))
    q = tg2hdl.quantize(
        lambda x: (x @ W1) @ hidden,
        samples,
        requantization="multiplier",
        rounding="onnxruntime",
        per_channel=False,
    )
    weights = (
        next(n.arg for n in q.graph.nodes if n.op == "const" and n.label.endswith("W1")).reshape(16, 12).T
    )
    first = next(row for row in q.report.layers if row.kind == "weights")
    scales = {row.name: row.scale for row in q.report.layers if row.kind != "weights"}
    s_x, s_h = scales["x"], next(v for n, v in scales.items() if n.startswith("W1"))
    s_x, s_h, s_w = (np.float32(s) for s in (s_x, s_h, first.scale))
    names = ("x", "sx", "zx", "w", "sw", "zw", "sy", "zy")
    node = helper.make_node("QLinearMatMul", names, ["y"])
    zero = np.int8(0)
    values = {
        "sx": s_x,
        "zx": zero,
        "w": weights.astype(np.int8),
        "sw": s_w,
        "zw": zero,
        "sy": s_h,
        "zy": zero,
    }
    proto = helper.make_model(
        helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", 3, ["N", 12])],
            [helper.make_tensor_value_info("y", 3, ["N", 16])],
            [
                pytest.importorskip("onnx").numpy_helper.from_array(np.asarray(v), n)
                for n, v in values.items()
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    session = runtime_session(proto.SerializeToString())
    integers = np.concatenate([q.quantize_input(s)[0] for s in samples])
    expected = session.run(None, {"x": integers})[0]
    stored = next(
        n for n, node in enumerate(q.graph.nodes) if node.shape == (1, 16) and node.dtype.name == "int8"
    )
    found = evaluate_nodes(q.graph, [integers[:, None]], [stored])[stored][:, 0]
    np.testing.assert_array_equal(found, np.maximum(expected, -127))
    accelerator = tg2hdl.compile(q, samples[0])
    for sample in samples[:3]:
        np.testing.assert_array_equal(accelerator.golden(sample), q.reference(*q.quantize_input(sample)))


def test_a_tensor_that_the_model_creates_is_a_constant() -> None:
    rng = np.random.default_rng(12)
    weights = (rng.normal(size=(12, 12)) * 0.3).astype(np.float32)
    matrix = Tensor(weights)

    def model(x: Tensor) -> Tensor:
        state = Tensor.zeros(1, 12)
        for _ in range(2):
            state = (x + state).linear(matrix).tanh()
        return state.cat(Tensor.full((1, 2), 0.5), Tensor.ones(1, 1), dim=1)

    samples = rng.normal(size=(64, 12)).astype(np.float32)
    q = tg2hdl.quantize(model, samples)
    state = np.zeros((64, 12))
    for _ in range(2):
        state = np.tanh((samples + state) @ weights)
    found = q.evaluate(samples)[:, 0]
    assert np.sqrt(np.square(found[:, :12] - state).mean()) < 0.02
    np.testing.assert_allclose(found[:, 12:], np.tile([0.5, 0.5, 1.0], (64, 1)), atol=1e-4)


def test_interpolation_by_integer_indexes() -> None:
    rng = np.random.default_rng(13)
    samples = rng.normal(size=(16, 1, 4, 4)).astype(np.float32)
    q = tg2hdl.quantize(lambda x: x.interpolate((8, 8), mode="nearest"), samples)
    found = q.evaluate(samples)[:, 0]
    np.testing.assert_allclose(found, samples.repeat(2, 2).repeat(2, 3), atol=0.02)


def test_requantization_by_multipliers_needs_no_wide_products() -> None:
    rng = np.random.default_rng(14)
    first, second = (Tensor(rng.normal(size=s).astype(np.float32)) for s in ((64, 32), (32, 10)))
    samples = rng.normal(size=(64, 64)).astype(np.float32)
    q = tg2hdl.quantize(lambda x: (x @ first).relu() @ second, samples, requantization="multiplier")
    assert max(n.dtype.bit_width for n in q.graph.nodes) == 32
    assert q.report.output_sqnr > 35


@pytest.mark.parametrize("padding", [1, (0, 1, 0, 1)])
def test_a_depthwise_convolution_of_stride_two_keeps_its_multipliers_busy(
    padding: int | tuple[int, ...],
) -> None:
    rng = np.random.default_rng(18)
    weight = Tensor(rng.normal(size=(8, 1, 3, 3)).astype(np.float32))
    samples = np.abs(rng.normal(size=(20, 8, 12, 12))).astype(np.float32)
    q = tg2hdl.quantize(lambda x: x.conv2d(weight, groups=8, stride=2, padding=padding).relu(), samples)
    accelerator = tg2hdl.compile(q, samples[:1], multipliers=16)
    assert accelerator.predicted_cycles < 1.3 * 8 * 6 * 6 * 9 / 16
    result = accelerator.simulate(samples[:1])
    assert result.cycles.compute == accelerator.predicted_cycles
    np.testing.assert_array_equal(result.output, q.reference(*q.quantize_input(samples[:1])))


@pytest.mark.parametrize("weight_bits", [4, 8])
def test_long_sums_need_no_wide_products(weight_bits: int) -> None:
    rng = np.random.default_rng(16)
    # Channels whose ranges differ by 8, so that one scale serves all results badly.
    weight = rng.normal(size=(784, 32)).astype(np.float32) * np.exp2(rng.uniform(-3, 0, 32)).astype(
        np.float32
    )
    samples = np.maximum(rng.normal(size=(40, 784)), 0).astype(np.float32)
    q = tg2hdl.quantize(
        lambda x: (x @ Tensor(weight)).relu() @ Tensor(weight.T),
        samples,
        weight_bits=weight_bits,
        requantization="multiplier",
    )
    assert max(n.dtype.bit_width for n in q.graph.nodes) == 32
    assert q.report.output_sqnr > (30 if weight_bits == 8 else 12)
    accelerator = tg2hdl.compile(q, samples[0], multipliers=16)
    assert accelerator.predicted_cycles < 1.05 * 2 * 784 * 32 / 16
    np.testing.assert_array_equal(accelerator.golden(samples[0]), q.reference(*q.quantize_input(samples[0])))


@pytest.mark.parametrize("rounding", ["half_up", "half_even", "tflite"])
@pytest.mark.parametrize("weight_bits", [4, 8])
def test_a_bias_is_stored_once_for_each_channel(weight_bits: int, rounding: str) -> None:
    samples = np.abs(np.random.default_rng(2).normal(size=(20, 1, 6, 6))).astype(np.float32)
    model = lambda x: x.conv2d(CONV, BIAS, padding=1).relu()  # noqa: E731
    q = tg2hdl.quantize(model, samples, weight_bits=weight_bits, rounding=rounding)
    constants = [n.arg for n in q.graph.nodes if n.op == "const" and n.label != "weight"]
    assert max(c.size for c in constants if c.size != CONV.numel()) == 4


def test_ternary_weights_take_no_multiplier() -> None:
    rng = np.random.default_rng(17)
    weight = rng.normal(size=(24, 6)).astype(np.float32)
    samples = rng.normal(size=(50, 24)).astype(np.float32)
    options = {"weight_bits": 2, "per_channel": False, "requantization": "shift"}
    q = tg2hdl.quantize(lambda x: x @ Tensor(weight), samples, **options)
    accelerator = tg2hdl.compile(q, samples[0], multipliers=4)
    assert [k.multipliers for k in accelerator.kernels] == [0]
    assert accelerator.predicted_cycles < 24 * 6 / 4 + 20
    # One scale for all weights: the threshold above which a weight is one is half of it.
    scale = q.quantized.outputs[0].scale.item() / q.quantized.inputs[0].scale.item()
    ternary = (weight > scale / 2).astype(int) - (weight < -scale / 2)
    assert {-1, 0, 1} == set(ternary.flat)
    result = accelerator.simulate(samples[0])
    np.testing.assert_array_equal(
        result.output.reshape(-1), q.quantize_input(samples[0])[0].reshape(-1) @ ternary
    )
    assert result.cycles.compute == accelerator.predicted_cycles


def test_refusals_of_labels_and_options() -> None:
    good = np.random.default_rng(15).normal(size=(10, 12)).astype(np.float32)
    assert "labels of float64 that are not class numbers" in _refused(good, labels=np.full(10, np.nan))
    assert "that are not class numbers" in _refused(good, labels=np.full(10, 0.5))
    assert "that are not class numbers" in _refused(good, labels=np.full(10, -1))
    assert "label 5 for 5 scores" in _refused(good, labels=np.full(10, 5))
    assert "bits='8' is not a width" in _refused(good, bits="8")
    assert "float_layers=5 are not names" in _refused(good, float_layers=5)


def test_magnitudes_that_leave_nothing_are_named() -> None:
    good = np.random.default_rng(16).normal(size=(10, 12)).astype(np.float32)
    assert "all values of linear on the samples are beyond 1e+08" in _refused(
        good * 1e20, model=lambda x: x.linear(W1)
    )
    large = tg2hdl.quantize(lambda x: (x * 1e12).linear(W1) * 1e-12, good, float_layers=("__mul__", "linear"))
    assert large.report.output_sqnr > 100
    report = tg2hdl.quantize(mlp, good * 1e-30).report
    assert any("x keeps 0.0 dB of its signal" in w for w in report.warnings)


def test_a_layer_that_saturates_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    small = lambda name: lambda observed, bits: (0.1 * observed.low, 0.1 * observed.high)  # noqa: E731
    monkeypatch.setattr("tg2hdl_quant.graph.quantized.calibration_method", small)
    samples = np.random.default_rng(17).uniform(0.5, 1, (40, 12)).astype(np.float32)
    report = tg2hdl.quantize(lambda x: x.linear(W1.abs()).relu() @ W2, samples).report
    assert any("x saturates on 100% of its values" in w for w in report.warnings)
    assert any(w.startswith("W1") and "saturates on" in w for w in report.warnings)
