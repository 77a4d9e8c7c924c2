"""References that tinygrad computes by itself, and how results are compared with them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from tinygrad import Tensor, nn

from tg2hdl_backend import own_result, reference_device
from tg2hdl_backend.agreement import agreement, tolerance_of
from tg2hdl_ir import DType, InputError, UnsupportedError

X = np.arange(8, dtype=np.float32).reshape(1, 8)
DEVICES = [
    "PYTHON",
    pytest.param("CPU", marks=pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")),
]


@pytest.mark.parametrize("device", DEVICES)
def test_result_equals_numpy(device):
    weight = np.arange(24, dtype=np.float32).reshape(8, 3)
    held = [Tensor(weight).realize()]
    (result,) = own_result(lambda x: (x @ held[0] + Tensor.ones(3)).relu(), X, device=device)
    np.testing.assert_array_equal(result, X @ weight + 1)
    np.testing.assert_array_equal(held[0].numpy(), weight)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_in_a_file(device, tmp_path):
    weight = np.arange(24, dtype=np.float32)
    weight.tofile(tmp_path / "w.bin")
    lazy = Tensor(tmp_path / "w.bin").to("CPU").bitcast("float32").reshape(8, 3)
    np.testing.assert_array_equal(
        own_result(lambda x: x @ lazy, X, device=device)[0], X @ weight.reshape(8, 3)
    )


def test_state_is_as_before():
    state = Tensor(np.full(8, 5, np.float32)).realize()

    def count(x):
        state.assign(state + x.reshape(8)).realize()
        return state * 2

    for _ in range(2):
        np.testing.assert_array_equal(own_result(count, X)[0], (5 + X.reshape(8)) * 2)
    assert state.tolist() == [5] * 8


def test_gradients_are_as_before():
    layer = nn.Linear(8, 2)
    parameters = nn.state.get_parameters(layer)

    def step(x):
        layer(x).sum().backward()
        return layer.weight.grad

    for _ in range(2):
        np.testing.assert_array_equal(own_result(step, X)[0], np.repeat(X, 2, 0))
    assert all(p.grad is None for p in parameters)


@pytest.mark.parametrize(
    ("name", "dtype"), [("float16", "fp16"), ("bfloat16", "bf16"), ("fp8e4m3", "fp8_e4m3")]
)
def test_short_floats(name, dtype):
    (result,) = own_result(lambda x: x.cast(name) * 2, X)
    assert result.dtype == DType.from_name(dtype).numpy()
    np.testing.assert_array_equal(result.astype(np.float32), X * 2)


def test_what_only_optimized_loops_compute():
    """The interpreter of tinygrad 0.14 refuses a maximum of halves in a plain loop; state is not updated twice."""
    x = np.random.default_rng(1).normal(size=(4, 9)).astype(np.float16)
    count = Tensor([2], dtype="int32").contiguous().realize()

    def model(x):
        return x.max(axis=1), count.assign(count + 1)

    largest, counted = own_result(model, x)
    np.testing.assert_array_equal(largest, x.max(axis=1))
    assert counted.tolist() == [3]
    assert count.tolist() == [2]


def test_large_work_is_compiled_where_it_can_be(monkeypatch):
    monkeypatch.setenv("CC", "sh")
    assert reference_device(10**9, [DType.FP32, DType.INT8]) == "CPU"
    assert reference_device(10**9, [DType.BF16]) == "PYTHON"
    assert reference_device(1000, [DType.FP32]) == "PYTHON"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert reference_device(10**9, [DType.FP32]) == "PYTHON"


def test_a_device_that_fails_is_named():
    with pytest.raises(UnsupportedError, match="on its NOPE device"):
        own_result(lambda x: x + 1, X, device="NOPE")


def test_equal_and_different_integers():
    a = np.array([1, -(2**63), 7], np.int64)
    assert agreement(a, a, DType.INT64).agrees
    b = np.array([1, 2**63 - 1, 8], np.int64)
    found = agreement(a, b, DType.INT64)
    assert (found.agrees, found.different, found.error, found.first) == (False, 2, 2.0**64, 1)


@pytest.mark.parametrize(
    ("got", "reference", "agrees"),
    [
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (np.inf, 1.0, False),
        (-0.0, 0.0, True),
        (100 + 2**-13, 100.0, True),
        (100.5, 100.0, False),
    ],
)
def test_special_values(got, reference, agrees):
    rest = [100.0, -3.0]
    found = agreement(np.float32([got, *rest]), np.float32([reference, *rest]), DType.FP32)
    assert found.agrees is agrees
    assert found.first == (-1 if agrees else 0)


def test_zeros_for_a_reference_are_noticed():
    reference = np.float32([1e-30, 2e-30])
    assert not agreement(np.zeros(2, np.float32), reference, DType.FP32).agrees


def test_shapes_are_not_broadcast():
    with pytest.raises(InputError, match=r"shape \(1,\) for a reference of shape \(4,\)"):
        agreement(np.zeros(1), np.zeros(4), DType.FP32)


def test_tolerances():
    assert tolerance_of(DType.INT32) == 0
    assert tolerance_of(DType.FP32) == 64 * 2.0**-23
    assert tolerance_of(DType.FP16) == 8 * 2.0**-10
