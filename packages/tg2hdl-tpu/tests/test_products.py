"""Products on the matrix unit: kernels of the tinygrad device TINYTPU."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tg2hdl_backend", reason="an extra: pip install tg2hdl-tpu[tinygrad]")

from tinygrad import Tensor, Variable, dtypes
from tinygrad.helpers import Context

from tg2hdl_tpu.device import compile as compiler
from tg2hdl_tpu.device import copies, runtime
from tg2hdl_tpu.device.image import image
from tg2hdl_tpu.device.shuffle import Shuffle, shuffle_of
from tg2hdl_tpu.isa import PRE

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_matrix_unit(monkeypatch):
    """Products as small as these are faster on the vector unit."""
    runtime.compiled.cache_clear()
    monkeypatch.setattr(compiler, "_nest_cycles", lambda *_: None)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def wide(t: Tensor) -> Tensor:
    return t.cast(dtypes.int32)


def run(monkeypatch, model, *arrays, device: str = "TINYTPU") -> tuple[np.ndarray, int]:
    """Result, and rows that went through the matrix unit."""
    rows = 0
    compiled = runtime.compiled

    def counted(*arguments):
        nonlocal rows
        words = compiled(*arguments)
        rows += sum(i.count for i in words.program.instructions if PRE[i.pre] == "mxu8" and i.op != "weights")
        return words

    with Context(NOOPT=1), monkeypatch.context() as patch:
        inputs = [Tensor(a, device=device).realize() for a in arrays]
        patch.setattr(runtime, "compiled", counted)
        return model(*inputs).numpy(), rows


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int32) @ b.astype(np.int32)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (16, 16, 16),
        (5, 7, 6),
        (3, 20, 10),
        (1, 64, 32),
        (33, 27, 70),
        (4, 600, 5),
        (270, 8, 8),
        (7, 320, 128),
    ],
)
def test_products_of_any_size(monkeypatch, m, k, n):
    a, b = int8(m, k), int8(k, n)
    found, rows = run(monkeypatch, lambda x, w: wide(x) @ wide(w), a, b)
    assert np.array_equal(found, product(a, b))
    assert rows > 0


FORMS = {
    "weights of a layer": (lambda x, w: wide(x) @ wide(w).T, int8(3, 20), int8(10, 20)),
    "one row": (lambda x, w: wide(x) @ wide(w).T, int8(1, 64), int8(32, 64)),
    "both transposed": (lambda x, w: wide(x).T @ wide(w).T, int8(20, 8), int8(9, 20)),
    "by itself": (lambda x: wide(x) @ wide(x).T, int8(12, 20)),
    "batch": (lambda x, w: wide(x) @ wide(w), int8(2, 3, 5, 7), int8(2, 3, 7, 6)),
    "batch of whole rows": (lambda x, w: wide(x) @ wide(w), int8(3, 4, 64), int8(3, 64, 16)),
    "heads": (
        lambda x, w: wide(x).permute(1, 0, 2) @ wide(w).permute(1, 2, 0),
        int8(9, 3, 8),
        int8(11, 3, 8),
    ),
    "slices": (lambda x, w: wide(x)[3:9, 5:21] @ wide(w)[4:20, :16], int8(12, 24), int8(24, 16)),
    "convolution": (lambda x, w: wide(x).conv2d(wide(w), padding=1), int8(1, 3, 8, 8), int8(5, 3, 3, 3)),
    "strided": (lambda x, w: wide(x).conv2d(wide(w), stride=2), int8(2, 4, 9, 9), int8(8, 4, 3, 3)),
    "1x1": (lambda x, w: wide(x).conv2d(wide(w)), int8(1, 16, 8, 8), int8(8, 16, 1, 1)),
    "groups": (lambda x, w: wide(x).conv2d(wide(w), groups=2), int8(1, 8, 6, 6), int8(8, 4, 3, 3)),
    "of what was computed": (
        lambda x, w: ((wide(x) * 3) >> 2) @ (wide(w) // 3 + 5).clip(-9, 9),
        int8(6, 20) // 2,
        int8(20, 10),
    ),
    "comparisons": (lambda x, w: wide(x > 3) @ wide(w), int8(6, 20), int8(20, 10)),
    "bias and steps": (
        lambda x, w, b: ((wide(x) @ wide(w) + b).relu() >> 7).minimum(127).cast(dtypes.int8),
        int8(4, 64),
        int8(64, 32),
        np.arange(32, dtype=np.int32) * 100,
    ),
    "maximum of a row": (lambda x, w: (wide(x) @ wide(w)).max(1), int8(6, 20), int8(20, 10)),
    "two sums": (lambda x, w: wide(x) @ wide(w) + wide(w).T @ wide(x).T, int8(8, 8), int8(8, 8)),
}

#: Copies that are permutations of rows in VMEM: which, and from how many parts of the tensor.
SHUFFLES = {
    "padded": (lambda x, w: wide(x).conv2d(wide(w), padding=1), int8(1, 2, 8, 8), int8(4, 2, 3, 3), 1),
    "columns that are not a multiple": (lambda x, w: wide(x) @ wide(w), int8(4, 64), int8(64, 10), 1),
    "transposed": (lambda x, w: wide(x) @ wide(w).T, int8(16, 32), int8(32, 32), 1),
    "parts": (lambda x, w: wide(x)[:, :10] @ wide(w), int8(100, 64), int8(10, 8), 2),
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_copies_that_permute_rows(monkeypatch, name):
    model, a, b, windows = SHUFFLES[name]
    stages: list[Shuffle] = []

    def seen(kernel, config):
        stages.append(shuffle_of(kernel, config))
        return stages[-1]

    monkeypatch.setattr(copies, "shuffle_of", seen)
    with Context(NOOPT=1):
        expected = model(*(Tensor(t, device="PYTHON") for t in (a, b))).numpy()
        found = model(*(Tensor(t, device="TINYTPU") for t in (a, b))).numpy()
    assert np.array_equal(found, expected)
    assert windows in {len({part[:2] for part in s.parts}) for s in stages if s is not None}


def test_copies_of_weights_are_kept(monkeypatch):
    """They are made when a tensor comes back unchanged, and again when it has changed or another took its place."""
    cycles: list[int] = []
    run = runtime.LoadedKernel.run

    def recorded(self, buffers, values):
        result = run(self, buffers, values)
        cycles.append(result.cycles)
        return result

    def call(weights: Tensor, array: np.ndarray, rows: int = 1) -> int:
        x = int8(rows, 24)
        input_ = Tensor(x, device="TINYTPU").realize()
        cycles.clear()
        assert np.array_equal((wide(input_) @ wide(weights)).numpy(), product(x, array))
        return cycles[-1]

    monkeypatch.setattr(runtime.LoadedKernel, "run", recorded)
    first, second, third, fourth = (int8(24, 10) for _ in range(4))
    with Context(NOOPT=1):
        weights, others = (Tensor(a, device="TINYTPU").realize() for a in (first, second))
        plain, makes, kept = (call(weights, first) for _ in range(3))
        assert kept < plain / 2
        assert makes > 2 * kept
        assert [call(others, second) for _ in range(3)] == [plain, makes, kept]
        assert call(weights, first) == kept  # two layers of one shape take turns
        weights.assign(Tensor(third, device="TINYTPU")).realize()
        assert [call(weights, third) for _ in range(3)] == [plain, makes, kept]
        del weights
        weights = Tensor(fourth, device="TINYTPU").realize()
        assert [call(weights, fourth) for _ in range(3)] == [plain, makes, kept]
        assert {call(weights, fourth, rows) < plain for rows in (3, 3, 3)} == {False, True}
        image().drop(1000)
        assert [call(others, second) for _ in range(2)] == [makes, kept]


def test_an_input_of_two_layers_is_no_reason_to_copy_weights_again(monkeypatch):
    weights = [int8(24, 10), int8(24, 10)]
    runs: list[int] = []
    run = runtime.LoadedKernel._run
    monkeypatch.setattr(runtime.LoadedKernel, "_run", lambda *a: runs.append((r := run(*a)).cycles) or r)
    with Context(NOOPT=1):
        held = [Tensor(w, device="TINYTPU").realize() for w in weights]
        for _ in range(4):
            x = int8(1, 24)
            shared = Tensor(x, device="TINYTPU").realize()
            runs.clear()
            for w, tensor in zip(weights, held, strict=True):
                assert np.array_equal((wide(shared) @ wide(tensor)).numpy(), product(x, w))
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("m", "k", "n", "least"), [(1, 300, 20, 0.6), (6, 30, 12, 0.9), (20, 40, 128, 0.95), (1, 20, 3, 0.9)]
)
def test_products_with_kept_weights(m, k, n, least, monkeypatch):
    w = int8(k, n)
    cycles: list[int] = []
    run = runtime.LoadedKernel.run
    monkeypatch.setattr(
        runtime.LoadedKernel, "run", lambda *a: cycles.append((result := run(*a)).cycles) or result
    )
    with Context(NOOPT=1):
        weights = Tensor(w, device="TINYTPU").realize()
        for _ in range(3):
            x = int8(m, k)
            assert np.array_equal((wide(Tensor(x, device="TINYTPU")) @ wide(weights)).numpy(), product(x, w))
    assert cycles[2] < least * cycles[0]


#: Sums that are faster on the vector unit: copies would take longer, or a loop that carries a value is around them.
STAY = ("maximum of a row",)


@pytest.mark.parametrize("name", FORMS)
def test_results_are_those_of_the_interpreter(monkeypatch, name):
    model, *arrays = FORMS[name]
    found, rows = run(monkeypatch, model, *arrays)
    assert (rows > 0) is (name not in STAY)
    expected, _ = run(monkeypatch, model, *arrays, device="PYTHON")
    np.testing.assert_array_equal(found, expected, strict=True)


def test_int8_products_wrap_before_they_are_added(monkeypatch):
    """tinygrad multiplies in int8, even into int32; a tensor core of it for int8 would not wrap."""
    a, b = int8(6, 20), int8(20, 10)
    wraps = (a[:, :, None] * b).astype(np.int8).sum(1, dtype=np.int32)
    found, rows = run(monkeypatch, lambda x, w: x.matmul(w, dtype=dtypes.int32), a, b)
    assert np.array_equal(found, wraps)
    assert rows == 0
    unsigned = a.view(np.uint8)
    found, rows = run(monkeypatch, lambda x, w: wide(x) @ wide(w), unsigned, b)
    assert np.array_equal(found, product(unsigned, b))
    assert rows == 0


def test_sizes_that_variables_decide(monkeypatch):
    a, b = int8(12, 20), int8(20, 9)
    for size in (12, 5):
        n = Variable("n", 1, 12).bind(size)
        found, rows = run(monkeypatch, lambda x, w: (wide(x)[:n] @ wide(w)).sum(0), a, b)  # noqa: B023
        assert np.array_equal(found, product(a[:size], b).sum(0))
        found, rows = run(monkeypatch, lambda x, w: wide(x)[:, :n] @ wide(w)[:n], a, b)  # noqa: B023
        assert np.array_equal(found, product(a[:, :size], b[:size]))
        assert rows > 0
