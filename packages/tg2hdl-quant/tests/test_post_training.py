import numpy as np
import pytest

from tg2hdl_ir import InputError
from tg2hdl_quant import Conv2D, Dense, Flatten, MaxPool2D, ReLU, quantize_network, run_float

RNG = np.random.default_rng(7)


def mlp(inputs=20, hidden=16, outputs=4):
    return [
        Dense(RNG.normal(size=(inputs, hidden)), RNG.normal(size=hidden)),
        ReLU(),
        Dense(RNG.normal(size=(hidden, outputs)), RNG.normal(size=outputs)),
    ]


def cnn():
    return [
        Conv2D(RNG.normal(size=(4, 1, 3, 3)), RNG.normal(size=4)),
        ReLU(),
        MaxPool2D(2),
        Conv2D(RNG.normal(size=(3, 4, 3, 3)), RNG.normal(size=3)),
        Flatten(),
        Dense(RNG.normal(size=(3 * 16, 5)), RNG.normal(size=5)),
    ]


def in_python_integers(network, sample):
    """One sample through an MLP, with Python's unbounded integers, straight from the definition."""
    value = [int(v) for v in sample]
    for step in network.layers:
        weight, bias = step.layer.weight, step.layer.bias
        sums = [
            sum(v * int(weight[k, o]) for k, v in enumerate(value)) + int(bias[o]) for o in range(len(bias))
        ]
        if step.relu:
            sums = [max(s, 0) for s in sums]
        value = sums if step.shift is None else [min(max(s >> step.shift, -128), 127) for s in sums]
    return value


def test_mlp_computes_what_the_definition_says():
    network = quantize_network(mlp(), RNG.normal(size=(50, 20)))
    x = network.quantize_input(RNG.normal(size=(8, 20)))
    result = network(x)
    assert result.dtype == np.int32
    assert result.tolist() == [in_python_integers(network, sample) for sample in x]


@pytest.mark.parametrize(("make", "shape"), [(mlp, (20,)), (cnn, (1, 8, 8))])
def test_scores_follow_the_float_network(make, shape):
    layers, samples = make(), RNG.normal(size=(200, *shape))
    network = quantize_network(layers, samples)
    scores = network(network.quantize_input(samples)) * network.layers[-1].scale
    reference = run_float(layers, samples)
    assert np.corrcoef(scores.ravel(), reference.ravel())[0, 1] > 0.998
    assert np.mean(scores.argmax(1) == reference.argmax(1)) > 0.95


def test_convolution_agrees_with_direct_sums():
    layer = Conv2D(RNG.integers(-9, 9, (2, 3, 3, 5)), RNG.integers(-9, 9, 2))
    x = RNG.integers(-9, 9, (1, 3, 4, 6))
    expected = np.zeros((1, 2, 4, 6))
    for o, r, c in np.ndindex(2, 4, 6):
        total = layer.bias[o]
        for i, dr, dc in np.ndindex(3, 3, 5):
            row, column = r + dr - 1, c + dc - 2
            if 0 <= row < 4 and 0 <= column < 6:
                total += x[0, i, row, column] * layer.weight[o, i, dr, dc]
        expected[0, o, r, c] = total
    np.testing.assert_array_equal(run_float([layer], x), expected)


def test_the_same_arguments_give_the_same_integers():
    layers, samples = mlp(), RNG.normal(size=(50, 20))
    first, second = (quantize_network(layers, samples) for _ in range(2))
    for a, b in zip(first.layers, second.layers, strict=True):
        np.testing.assert_array_equal(a.layer.weight, b.layer.weight)
        np.testing.assert_array_equal(a.layer.bias, b.layer.bias)
        assert (a.shift, a.relu, a.scale) == (b.shift, b.relu, b.scale)


def test_hardware_form_of_the_layers():
    network = quantize_network(mlp(), RNG.normal(size=(50, 20)), input_scale=0.05)
    first, last = network.layers
    assert network.input_scale == 0.05
    assert first.relu
    assert first.shift >= 0
    assert (last.relu, last.shift) == (False, None)
    for step in network.layers:
        assert step.layer.weight.dtype == np.int8
        assert step.layer.bias.dtype == np.int32


REFUSED = [
    (
        lambda: quantize_network([ReLU()], np.ones((1, 2))),
        "bad input: the network has no Dense or Conv2D layer last\n"
        "  hint: end with the layer that gives the result",
    ),
    (
        lambda: quantize_network([ReLU(), Dense(np.ones((2, 1)), np.ones(1))], np.ones((1, 2))),
        "bad input: layer 0 is a ReLU that follows no Dense or Conv2D\n  hint: put it directly after one",
    ),
    (
        lambda: quantize_network([Dense(np.ones((2, 1)), np.ones(1))], np.ones((1, 2)), input_scale=-1.0),
        "bad input: input_scale -1.0 is not a positive finite number\n  hint: e.g. 1 / 127",
    ),
    (
        lambda: quantize_network(
            [Dense(np.full((2, 1), 127), np.array([2.0**31]))], np.ones((1, 2)), input_scale=1
        ),
        "bad input: sums of layer 0 can reach 2147516160, more than an int32 holds\n"
        "  hint: use fewer inputs per output, or scale its bias down",
    ),
    (
        lambda: quantize_network([Dense(np.ones((2, 1)), np.ones(1))], np.ones((0, 2))),
        "bad input: quantize_network got an empty array of shape (0, 2)\n"
        "  hint: a scale needs at least one element",
    ),
    (
        lambda: quantize_network([Dense(np.ones((2, 1)), np.ones(1))], np.ones((1, 2)))(np.ones((1, 2))),
        "bad input: a quantized network takes int8, got float64\n  hint: use quantize_input first",
    ),
    (
        lambda: Dense(np.ones(3), np.ones(1)),
        "bad input: Dense weight has shape (3,)\n  hint: expected (inputs, outputs)",
    ),
    (
        lambda: Dense(np.ones((3, 2)), np.ones(3)),
        "bad input: Dense bias has shape (3,) for 2 outputs\n  hint: expected (2,)",
    ),
    (
        lambda: Conv2D(np.ones((1, 1, 2, 3)), np.ones(1)),
        "bad input: Conv2D kernel of 2x3 has no centre\n  hint: SAME padding needs odd kernel sizes",
    ),
    (
        lambda: run_float([MaxPool2D(2)], np.ones((1, 1, 3, 4))),
        "bad input: MaxPool2D of size 2 does not divide 3x4\n  hint: pad or crop the input",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_refusals(call, text):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == text
