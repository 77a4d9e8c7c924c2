"""Capture of models with state: tensors that runs update, and updates that wait when the model is captured."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

from tg2hdl_backend import capture
from tg2hdl_ir import InputError, evaluate_program

X = np.arange(8, dtype=np.float32).reshape(1, 8)


def golden_runs(model, x, count=3):
    captured = capture(model, x)
    program, found = captured.program, []
    state = {}
    for _ in range(count):
        result = evaluate_program(program, captured.bind(x), state=state)
        found.append(result[program.buffers[program.outputs[0]].name].reshape(-1))
    return found


def test_state_keeps_its_contents_and_is_updated_in_place():
    state = Tensor(np.full(8, 5, np.float32)).contiguous().realize()

    def step(x: Tensor) -> Tensor:
        state.assign(state + x[0])
        return state * 2

    captured = capture(step, X)
    (buffer,) = [b for b in captured.program.buffers if b.name == "state"]
    assert buffer.role == "temporary"
    assert buffer.initial is not None
    assert buffer.initial.tolist() == [5.0] * 8
    np.testing.assert_array_equal(golden_runs(step, X, 1)[0], (5 + X[0]) * 2)
    assert state.tolist() == [5.0] * 8


def test_an_update_that_waits_when_the_model_is_captured_is_made_once():
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    weight, part = Tensor(rows).realize(), Tensor(rows).realize()
    weight += 1
    weight *= 2
    part[0:2] = part[1:3] * 3
    x = np.ones((1, 3), np.float32)
    expected = rows.copy()
    expected[:2] = 3 * rows[1:3]
    for found in golden_runs(lambda x: x @ weight, x):
        np.testing.assert_array_equal(found, (x @ ((rows + 1) * 2)).reshape(-1))
    held = [{"part": part}]
    for found in golden_runs(lambda x: (lambda: x @ held[0]["part"])(), x):
        np.testing.assert_array_equal(found, (x @ expected).reshape(-1))
    np.testing.assert_array_equal(weight.numpy(), (rows + 1) * 2)


@pytest.mark.parametrize("returns_state", [False, True], ids=["read by the result", "the result itself"])
def test_an_update_that_waits_comes_before_those_of_the_runs(returns_state):
    class Counter:
        def __init__(self):
            self.count = Tensor.zeros(2).contiguous().realize()
            self.count += 5

        def __call__(self, x):
            self.count.assign(self.count * 2)
            return self.count if returns_state else x + self.count

    found = golden_runs(Counter(), np.zeros(2, np.float32))
    assert [result.tolist() for result in found] == [[10, 10], [20, 20], [40, 40]]


def test_a_result_that_is_an_updated_tensor_has_its_contents():
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    weight = Tensor(rows).realize()
    weight += 1
    x = np.ones((1, 3), np.float32)
    captured = capture(lambda x: (x @ weight, weight, weight[1]), x)
    state = {}
    for _ in range(2):
        result = evaluate_program(captured.program, captured.bind(x), state=state)
        product, whole, part = (
            result[captured.program.buffers[n].name].reshape(-1) for n in captured.program.outputs
        )
        np.testing.assert_array_equal(product, (x @ (rows + 1)).reshape(-1))
        np.testing.assert_array_equal(whole, (rows + 1).reshape(-1))
        np.testing.assert_array_equal(part, rows[1] + 1)


def test_random_weights_stay_when_tinygrad_has_made_random_numbers_before():
    """The counter of random numbers is then a buffer, which each run advanced."""
    Tensor.rand(3).realize()
    layers = [nn.Linear(4, 4), nn.Linear(4, 2)]

    def model(x):
        return layers[1](layers[0](x).relu())

    x = np.ones((1, 4), np.float32)
    first, *others = golden_runs(model, x)
    assert len(capture(model, x).program.calls) == 2
    for other in others:
        np.testing.assert_array_equal(first, other)
    np.testing.assert_allclose(first, model(Tensor(x)).numpy().reshape(-1), rtol=1e-5, atol=1e-6)


def test_random_numbers_of_the_model_itself_change_from_run_to_run():
    Tensor.rand(3).realize()
    layer = nn.Linear(4, 4)
    first, second, _ = golden_runs(lambda x: layer(x) + Tensor.rand(1, 4), np.zeros((1, 4), np.float32))
    assert (first != second).all()


@pytest.mark.parametrize("initial", ["numpy", "expression", "random", "zeros", "constant"])
def test_state_that_is_not_computed_yet_starts_once_and_then_continues(initial):
    def make():
        Tensor.manual_seed(7)
        if initial == "numpy":
            return Tensor(np.full(8, 5, np.float32))
        if initial in ("zeros", "constant"):
            return Tensor.zeros(8).contiguous() if initial == "zeros" else Tensor.zeros(8)
        return Tensor.uniform(8) if initial == "random" else Tensor.arange(8).cast("float32") * 2 + 1

    class Counter:
        def __init__(self):
            self.total = make()

        def __call__(self, x):
            self.total.assign(self.total * 0.5 + x[0]).realize()
            return self.total * 2

    captured = capture(Counter(), X)
    (buffer,) = [b for b in captured.program.buffers if b.name == "total"]
    assert buffer.initial is not None
    check_sums(captured, make())


def check_sums(captured, start):
    """Whether each run halves a sum, adds a row of `X`, and returns twice the sum."""
    state: dict[str, np.ndarray] = {}
    expected = start.numpy()
    for _ in range(3):
        expected = expected * np.float32(0.5) + X[0]
        results = evaluate_program(captured.program, {"x": X}, state=state)
        np.testing.assert_array_equal(results["output"].reshape(-1), expected * 2)


class Accumulating:
    def __init__(self, start):
        self.total = start

    def __call__(self, x):
        new = self.total * 0.5 + x[0]
        self.total.assign(new)
        return new * 2


@pytest.mark.parametrize("make", [lambda: Tensor(np.full(8, 5, np.float32)), lambda: Tensor.zeros(8)])
def test_an_update_that_no_output_reads_is_part_of_each_run(make):
    check_sums(capture(Accumulating(make()), X), make())


def test_a_tensor_in_the_place_of_another_one_is_refused():
    class Rebinding(Accumulating):
        def __call__(self, x):
            self.total = self.total * 0.5 + x[0]
            return self.total * 2

    with pytest.raises(InputError, match="puts another tensor in the place of total") as refused:
        capture(Rebinding(Tensor(X[0]).realize()), X)
    assert refused.value.hint == "update it in place: total.assign(...)"


def test_a_buffer_that_the_model_itself_makes_starts_again_in_each_run():
    def model(x):
        total = Tensor.ones(8).contiguous()
        total.assign(total + x[0]).realize()
        return total * 2

    captured = capture(model, X)
    state: dict[str, np.ndarray] = {}
    for _ in range(2):
        results = evaluate_program(captured.program, {"x": X}, state=state)
        np.testing.assert_array_equal(results["output"].reshape(-1), (1 + X[0]) * 2)
