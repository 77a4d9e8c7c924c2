"""Kernels with affine addresses: tensors as blocks in the scratchpad, iterations and reductions in lanes and rows."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_tpu.device import compile as compiler
from tg2hdl_tpu.device import runtime

pytest.importorskip("tg2hdl_backend", reason="an extra: pip install tg2hdl-tpu[tinygrad]")

from tinygrad import Tensor, dtypes

RNG = np.random.default_rng(0)


def words(*shape: int) -> np.ndarray:
    return RNG.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def int32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int32)


@pytest.fixture
def cycles(monkeypatch) -> list[int]:
    """Cycles of the kernels that run."""
    found: list[int] = []
    run = runtime.LoadedKernel.run

    def counted(*arguments):
        result = run(*arguments)
        found.append(result.cycles)
        return result

    monkeypatch.setattr(runtime.LoadedKernel, "run", counted)
    return found


def in_order(x: np.ndarray) -> np.ndarray:
    """Sums of rows from left to right, each rounded."""
    total = np.zeros(x.shape[0], np.float32)
    for column in x.T:
        total += column
    return total


def bytes_of(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


CASES = {
    "sum of 256": (lambda a: a.sum(), lambda a: int32(a.sum(dtype=np.int64)), [words(256)], 40),
    "sum of 600, a part of a row": (
        lambda a: a.sum(),
        lambda a: int32(a.sum(dtype=np.int64)),
        [words(600)],
        60,
    ),
    "sums of rows": (lambda a: a.sum(1), lambda a: int32(a.sum(1, dtype=np.int64)), [words(64, 64)], 300),
    "sums of short rows": (lambda a: a.sum(1), lambda a: int32(a.sum(1, dtype=np.int64)), [words(24, 8)], 40),
    "sums of columns": (lambda a: a.sum(0), lambda a: int32(a.sum(0, dtype=np.int64)), [words(12, 8)], 40),
    "largest of columns": (lambda a: a.max(0), lambda a: a.max(0), [words(9, 48)], 80),
    "largest of rows, floats": (lambda a: a.max(1), lambda a: a.max(1), [floats(8, 64)], 150),
    "largest of 4,096 floats": (lambda a: a.max(), lambda a: a.max(), [floats(4096)], 600),
    "sums of floats in order": (lambda a: a.sum(1), in_order, [floats(8, 64)], 700),
    "product of words": (lambda a, b: a @ b, lambda a, b: a @ b, [words(16, 64), words(64, 32)], 5500),
    "bytes 4x4x4": (
        lambda a, b: a.cast(dtypes.int32) @ b.cast(dtypes.int32),
        lambda a, b: int32(a) @ int32(b),
        [bytes_of(4, 4), bytes_of(4, 4)],
        20,
    ),
    "bytes 4x8x4": (
        lambda a, b: a.cast(dtypes.int32) @ b.cast(dtypes.int32),
        lambda a, b: int32(a) @ int32(b),
        [bytes_of(4, 8), bytes_of(8, 4)],
        25,
    ),
    "sums of rows of 37": (
        lambda a: a.sum(1),
        lambda a: int32(a.sum(1, dtype=np.int64)),
        [words(5, 37)],
        120,
    ),
    "largest of rows of 200": (lambda a: a.max(1), lambda a: a.max(1), [floats(50, 200)], 5000),
    "sums of long rows": (
        lambda a: a.sum(1),
        lambda a: int32(a.sum(1, dtype=np.int64)),
        [words(256, 256)],
        4500,
    ),
    "sums of long columns": (
        lambda a: a.sum(0),
        lambda a: int32(a.sum(0, dtype=np.int64)),
        [words(256, 256)],
        9000,
    ),
    "more than VMEM": (lambda a: a * 3 + 1, lambda a: a * 3 + 1, [words(20000)], 5000),
    "sums of long rows, floats in order": (lambda a: a.sum(1), in_order, [floats(8, 1024)], 10000),
    "sums of bytes": (
        lambda a: a.cast(dtypes.int32).sum(1),
        lambda a: a.sum(1, dtype=np.int32),
        [bytes_of(64, 64)],
        1050,
    ),
    "bools of words": (lambda a: a < 5, lambda a: a < 5, [words(256)], 70),
    "padded": (
        lambda a: a.pad(((1, 1), (8, 8))) + 1,
        lambda a: np.pad(a, ((1, 1), (8, 8))) + 1,
        [words(16, 16)],
        500,
    ),
    "depthwise convolution of bytes": (
        lambda x, w: x.cast(dtypes.int32).conv2d(w.cast(dtypes.int32), groups=16),
        lambda x, w: np.einsum(
            "bcyxij,cij->bcyx",
            np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), (2, 3)),
            w[:, 0].astype(np.int32),
        ),
        [bytes_of(1, 16, 16, 16), bytes_of(16, 1, 3, 3)],
        5800,
    ),
    "neighbours subtracted": (
        lambda a: a[:, :14] - a[:, 2:],
        lambda a: a[:, :14] - a[:, 2:],
        [words(16, 16)],
        100,
    ),
    "neighbours compared": (
        lambda a: a[:, :15] < a[:, 1:],
        lambda a: a[:, :15] < a[:, 1:],
        [floats(16, 16)],
        150,
    ),
    "one of two neighbours": (
        lambda a: (a[:, 1:15] > 9).where(a[:, 2:], a[:, :14]),
        lambda a: np.where(a[:, 1:15] > 9, a[:, 2:], a[:, :14]),
        [words(16, 16)],
        170,
    ),
    "neighbours across rows": (
        lambda a: a[3:] * a[:-3] + a[1:-2],
        lambda a: a[3:] * a[:-3] + a[1:-2],
        [words(131)],
        300,
    ),
    "sums of three neighbours": (
        lambda a: a[:, 2:] + a[:, 1:15] + a[:, :14],
        lambda a: a[:, 2:] + a[:, 1:15] + a[:, :14],
        [words(16, 16)],
        140,
    ),
    "maxima of windows": (
        lambda a: a.max_pool2d((1, 3), stride=1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 3).max(4),
        [floats(1, 2, 8, 16)],
        250,
    ),
    "less than a row, turned": (lambda a: a.flip(1), lambda a: a[:, ::-1], [words(3, 4)], 20),
    "lines of 37": (lambda a, b: a + b * 3, lambda a, b: a + b * 3, [words(5, 37), words(37)], 160),
    "lines of 5": (lambda a, b: a * b, lambda a, b: a * b, [words(40, 5), words(5)], 280),
    "bools of lines of 21": (lambda a, b: a < b, lambda a, b: a < b, [words(7, 21), words(21)], 160),
    "many lines of 37": (lambda a, b: a + b, lambda a, b: a + b, [words(400, 37), words(37)], 12500),
    "sum with a bias": (lambda a, b: a + b * 3, lambda a, b: a + b * 3, [words(16, 16), words(16)], 70),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_cycles(name, cycles):
    model, expected, arrays, most = CASES[name]
    inputs = [Tensor(a, device="TINYTPU").realize() for a in arrays]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(model(*inputs).numpy(), expected(*arrays))
    assert sum(cycles) <= most


def test_a_maximum_leaves_out_nan_as_one_after_the_other_does():
    x = floats(40, 32)
    x[RNG.random(x.shape) < 0.2] = np.nan
    x[3] = np.nan
    expected = np.fmax.reduce(x, 1, initial=-np.inf)
    found = Tensor(x, device="TINYTPU").realize().max(1).numpy()
    np.testing.assert_array_equal(found, expected)


def test_what_surrounds_a_view_is_kept():
    whole = Tensor(np.arange(16, dtype=np.int32), device="TINYTPU").realize()
    part = whole[:5]
    part.assign(Tensor(words(5), device="TINYTPU").realize() * 0 + 7).realize()
    assert whole.tolist() == [7] * 5 + list(range(5, 16))


def test_rows_are_stored_apart():
    whole, part = words(9, 64), words(9, 32)
    t = Tensor(whole, device="TINYTPU").realize()
    t[:, 16:48].assign(Tensor(part, device="TINYTPU").realize() * 3).realize()
    with np.errstate(over="ignore"):
        whole[:, 16:48] = part * 3
    np.testing.assert_array_equal(t.numpy(), whole)


def test_plain_loops_are_used_on_any_default_device(cycles):
    a, b = (Tensor(words(256), device="TINYTPU").realize() for _ in "ab")
    (a + b).realize()
    assert cycles[0] < 60


@pytest.mark.parametrize("seed", range(8))
def test_results_are_those_of_the_general_way(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12, 16, 20, 32, 33], 2))
    shape = (*shape, int(rng.choice([4, 8, 16, 24, 48])))
    a = rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
    axis = tuple(int(n) for n in np.flatnonzero(rng.random(3) < 0.5)) or (2,)

    def results() -> list[np.ndarray]:
        runtime.compiled.cache_clear()
        t = Tensor(a, device="TINYTPU").realize()
        f = t.bitcast(dtypes.float32).contiguous().realize()
        some = (t.sum(axis), t.max(axis), t.cast(dtypes.uint32).min(axis), f.max(axis), (t * 3).prod(axis))
        return [x.numpy() for x in some]

    found = results()
    monkeypatch.setattr(compiler, "emit_nest", lambda *_: False)
    for ours, theirs in zip(found, results(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    runtime.compiled.cache_clear()
