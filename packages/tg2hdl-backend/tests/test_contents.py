"""Contents of buffers: weights that are still in files, and buffers that have no contents at all."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

from tg2hdl_backend import capture
from tg2hdl_ir import InputError, evaluate_program

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((8, 4), dtype=np.float32)
X = RNG.standard_normal((1, 8), dtype=np.float32)


def run(model, *inputs):
    captured = capture(model, *inputs)
    program = captured.program
    named = captured.bind(*inputs)
    results = evaluate_program(program, named)
    return [results[program.buffers[n].name].reshape(1, -1) for n in program.outputs]


@pytest.fixture
def weight_file(tmp_path):
    path = tmp_path / "weight.bin"
    WEIGHT.tofile(path)
    return path


def lazy(path, device="CPU") -> Tensor:
    return Tensor(path).to(device).bitcast("float32").reshape(8, 4)


def exact(weight):
    total = np.zeros((1, weight.shape[1]), np.float32)
    for k in range(weight.shape[0]):
        total = total + X[:, k : k + 1] * weight[k]
    return total


def test_a_weight_in_a_file_is_read(weight_file):
    w = lazy(weight_file)
    np.testing.assert_array_equal(run(lambda x: x @ w, X)[0], exact(WEIGHT))


def test_a_weight_in_a_file_that_no_attribute_names_is_read(weight_file):
    held = [{"deep": (lazy(weight_file),)}]
    models = {"f": lambda x: x @ held[0]["deep"][0]}
    np.testing.assert_array_equal(run(lambda x: models["f"](x), X)[0], exact(WEIGHT))


def test_a_weight_that_stays_on_the_disk_is_refused(weight_file):
    w = Tensor(weight_file).bitcast("float32").reshape(8, 4)
    with pytest.raises(InputError) as error:
        capture(lambda x: x @ w, X)
    assert error.value.message.startswith(
        "tinygrad cannot run the model: all buffers must be on the same device"
    )
    assert "weight.to(Device.DEFAULT)" in error.value.hint
    moved = w.to("CPU")
    np.testing.assert_array_equal(run(lambda x: x @ moved, X)[0], exact(WEIGHT))


def test_a_weight_on_a_device_without_contents_is_refused():
    w = Tensor(WEIGHT, device="NULL").realize()
    with pytest.raises(InputError, match="a weight on device NULL cannot be read"):
        capture(lambda x: x @ w, X)


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Tensor(WEIGHT).shard(("CPU:0", "CPU:1"), axis=0), "weight.to(Device.DEFAULT)"),
        (lambda: changed_below_its_view(), ".realize() on each tensor that was changed"),
    ],
    ids=["on_two_devices", "changed_below_its_view"],
)
def test_what_tinygrad_cannot_schedule_is_refused(make, hint):
    w = make()
    with pytest.raises(InputError) as error:
        capture(lambda x: x @ w, X)
    assert error.value.message.startswith("tinygrad cannot run the model: ")
    assert hint in error.value.hint


def changed_below_its_view():
    w = Tensor(WEIGHT).realize()
    view = w.reshape(32)
    w.assign(w * 2)
    return w + view.reshape(8, 4)


def test_a_slice_of_a_file_is_read_and_the_file_is_unchanged(tmp_path):
    path = tmp_path / "state.bin"
    path.write_bytes(b"\x7f" * 12 + WEIGHT.tobytes() + b"\xff" * 7)
    before = path.read_bytes()
    w = Tensor(path)[12 : 12 + WEIGHT.nbytes].to("CPU").bitcast("float32").reshape(8, 4)
    np.testing.assert_array_equal(run(lambda x: x @ w, X)[0], exact(WEIGHT))
    assert path.read_bytes() == before


def test_safetensors_are_read_lazily(tmp_path):
    path = tmp_path / "w.safetensors"
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"weight": WEIGHT.T.copy(), "bias": WEIGHT[0]}, path)

    class Net:
        def __init__(self) -> None:
            state = nn.state.safe_load(path)
            self.weight, self.bias = state["weight"].to("CPU"), state["bias"].to("CPU")

        def __call__(self, x: Tensor) -> Tensor:
            return x @ self.weight.T + self.bias

    np.testing.assert_array_equal(run(Net(), X)[0], exact(WEIGHT) + WEIGHT[0])


def test_a_missing_file_is_named_and_not_made(tmp_path, weight_file):
    w = lazy(weight_file)
    weight_file.unlink()
    with pytest.raises(InputError, match=r"weight\.bin.*is not there"):
        capture(lambda x: x @ w, X)
    assert not weight_file.exists()


def test_a_file_that_became_shorter_is_named(weight_file):
    w = lazy(weight_file)
    weight_file.write_bytes(WEIGHT.tobytes()[:100])
    with pytest.raises(InputError, match=r"weight\.bin, has 100 bytes, 128 are needed"):
        capture(lambda x: x @ w, X)
    assert weight_file.stat().st_size == 100


def test_a_weight_without_contents_is_refused_by_name():
    empty = Tensor.empty(8, 4)
    with pytest.raises(InputError) as info:
        capture(lambda x: x @ empty, X)
    text = str(info.value)
    assert "'empty'" in text
    assert "fp32" in text
    assert "no contents" in text


def test_a_buffer_that_is_read_before_it_is_written_is_refused():
    def model(x):
        cache = Tensor.empty(1, 8)
        total = (x + cache).realize()
        cache.assign(x * 2).realize()
        return total + cache

    with pytest.raises(InputError, match="no contents"):
        capture(model, X)


def test_a_buffer_that_is_written_before_it_is_read_is_fine():
    def model(x):
        cache = Tensor.empty(1, 8)
        cache.assign(x * 2).realize()
        return x + cache

    np.testing.assert_array_equal(run(model, X)[0], X + X * 2)
