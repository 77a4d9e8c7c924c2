"""The tinygrad device TINYTPU."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tg2hdl_ir import CapacityError, DType, InputError, UnsupportedError
from tg2hdl_tpu.device.image import GUARD, Image
from tg2hdl_tpu.device.options import TinytpuOptions

pytest.importorskip("tg2hdl_backend", reason="an extra: pip install tg2hdl-tpu[tinygrad]")

from tinygrad import Tensor, TinyJit, Variable, dtypes
from tinygrad.device import Device
from tinygrad.helpers import Context

from tg2hdl_tpu.device.tinygrad_device import TINYTPURenderer

RNG = np.random.default_rng(0)
F = RNG.standard_normal((5, 37)).astype(np.float32)
W = RNG.standard_normal((37, 6)).astype(np.float32)
N = RNG.integers(-(1 << 31), 1 << 31, 600).astype(np.int32)
B8 = RNG.integers(-128, 128, 70).astype(np.int8)
SPECIAL = np.array([0, -0.0, 1, -1.5, np.inf, -np.inf, np.nan, 1e-40, 3e38, 2.5e9, -2.5e9], np.float32)


def on(device: str, model, *arrays, noopt: int = 1) -> list[np.ndarray]:
    # With NOLOCALS, tinygrad keeps these kernels by themselves.
    with Context(NOOPT=noopt, NOLOCALS=1 - noopt), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TINYTPURenderer, "plain_loops", bool(noopt))
        result = model(*(Tensor(a, device=device).realize() for a in arrays))
        results = result if isinstance(result, tuple | list) else [result]
        return [r.numpy() for r in results]


def agrees(model, *arrays) -> None:
    """Every bit is that of tinygrad's interpreter; any NaN is a NaN."""
    with np.errstate(all="ignore"):
        for ours, theirs in zip(on("TINYTPU", model, *arrays), on("PYTHON", model, *arrays), strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


CASES = {
    "blocks of rows and a rest": (lambda a, b: a * b + 3, N, N[::-1].copy()),
    "fewer than a row": (lambda a: a + 1, N[:5]),
    "matrix product": (lambda x, w: (x @ w).relu(), N[:30].reshape(5, 6), N[50:92].reshape(6, 7)),
    "sum of all": (lambda a: a.sum(), N),
    "sums of rows and columns": (lambda x: (x.sum(0), x.max(1), x.sum(1)), F),
    "moves": (lambda x: x.T.pad(((1, 2), (3, 0))).flip(0)[2:], F),
    "concatenated": (lambda a, b: a.cat(b, a), N[:19], N[40:60]),
    "steps of columns": (lambda x: (x[:, ::2] + 1, x.flip(1) * 2, x[:, 1::3] - x[:, :12], x[:, ::-4] * 3), F),
    "padded columns": (lambda x: (x.pad(((1, 1), (2, 3))) + 1, x.repeat(2, 2) + 1, x[1:4, 5:21] * 2), F),
    "bytes by rows and columns": (
        lambda a: (a.T + 1, a[:, ::2] * 3, a.flip(1) < 3, a.pad((1, 2)) - 1),
        B8.reshape(5, 14),
    ),
    "rows of data": (lambda x, i: x[i] * 2, F, np.array([4, 0, 0, 3, 1, 2, 4], np.int32)),
    "shifted rows": (lambda a, b: (a.pad((3, 21)), a[5:] + b[: a.shape[0] - 5], a.cat(b)), N[:531], N),
    "bytes of whole rows": (lambda a: (a[:64] + 1, a[:16] * 2, a[:48] < 3, a.pad((1, 2)), a[3:51] ^ 5), B8),
    "halfwords of blocks": (lambda a: (a.cast("int16") * 3, a.cast("uint16").cast("int32")), N),
    "bytes of blocks": (
        lambda a: ((a < 7) & (a > -(1 << 30)), a.cast("int8"), a.cast("uint8") + 1),
        N.repeat(3),
    ),
    "compared": (lambda x: (x < 0.5, x != x, x.isinf()), SPECIAL),
    "IEEE": (lambda x: (x / 3, x.sqrt(), x.trunc(), x.maximum(0.25), -x, 1 / x), SPECIAL),
    "bytes": (lambda a: (a + a, a * 3, -a, a >> 1, a < 5), B8),
    "bytes and words": (lambda a: (a.cast("int32") * 1000, a.cast("float32"), a.bitcast("uint8")), B8),
    "halfwords": (lambda a: (a.cast("int16") * a.cast("int16"), a.cast("uint16") + 9), B8),
    "unsigned": (lambda a: (a.cast("uint32") // 7, a.cast("uint32").maximum(9)), N),
    "divided": (lambda a, b: (a // b, a % b), N[:40], np.arange(-20, 20, dtype=np.int32) * 2 + 1),
    "long": (lambda a: (a.cast("int64") * a.cast("int64")).cast("int64") >> 20, N[:40]),
    "indices of data": (lambda x, i: x[i], F[0], np.array([3, -1, 36, 0], np.int32)),
    "of no elements": (lambda a: a[:0].sum(), N),
    "convolution": (lambda x: x.reshape(1, 1, 5, 37).conv2d(Tensor.ones(2, 1, 2, 3, device=x.device)), F),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_interpreter(name):
    model, *arrays = CASES[name]
    agrees(model, *arrays)


def test_a_cast_to_half_and_back_rounds():
    """tinygrad's interpreter keeps what half cannot hold, such as 1e-40; numpy does not."""
    (found,) = on("TINYTPU", lambda x: x.cast("float16").cast("float32"), SPECIAL)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, SPECIAL.astype(np.float16).astype(np.float32), strict=True)


@pytest.mark.parametrize("name", [n for n, (_, *arrays) in CASES.items() if arrays[0].dtype.kind == "i"])
def test_unrolled_results_are_those_of_the_interpreter(name):
    model, *arrays = CASES[name]
    for ours, theirs in zip(
        on("TINYTPU", model, *arrays, noopt=0), on("PYTHON", model, *arrays), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_sums_of_products_round_each_product_and_keep_their_order():
    total = np.zeros((5, 6), np.float32)
    for k in range(37):
        total += F[:, k : k + 1] * W[k : k + 1]
    assert np.array_equal(on("TINYTPU", lambda x, w: x @ w, F, W)[0], total)


def test_functions_are_within_an_ulp():
    x = F.reshape(-1)
    (ours,) = on("TINYTPU", lambda t: t.exp2().cat(t.sin(), t.abs().log2()), x)
    exact = np.concatenate(
        [np.exp2(x.astype(float)), np.sin(x.astype(float)), np.log2(np.abs(x).astype(float))]
    )
    assert (np.abs(ours - exact) <= np.spacing(np.abs(exact).astype(np.float32))).all()


def test_half_is_rounded_after_each_operation():
    bits = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    x, y = bits.view(np.float16), np.roll(bits, 500).view(np.float16)
    x[:6] = [65504, -65504, 6e-8, -6e-8, 1, np.inf]
    with np.errstate(all="ignore"):
        expected = [
            x + y,
            x * y,
            x.astype(np.float32).astype(np.float16),
            np.sqrt(np.abs(x)),
            np.maximum(x, 2),
        ]
        expected += [(F.reshape(-1) * np.float32(2.0**-20)).astype(np.float16)]
    found = on("TINYTPU", lambda a, b: (a + b, a * b, a * 1, a.abs().sqrt(), (a < 2).where(2, a)), x, y)
    found += on("TINYTPU", lambda f: (f * 2.0**-20).half(), F.reshape(-1))
    for n, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(ours, theirs, strict=True, err_msg=str(n))


def test_rows_before_a_buffer_are_addressed_beside_gathered_elements():
    x = np.repeat(np.arange(1, 9, dtype=np.float16)[:, None], 40, axis=1)
    (sums,) = on("TINYTPU", lambda t: t.cumsum(0), x, noopt=0)
    np.testing.assert_array_equal(sums, np.cumsum(x, 0))


def test_bfloat16_is_rounded_after_each_operation():
    brain = DType.BF16.numpy()
    x = np.concatenate([F.reshape(-1), SPECIAL, [1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38]]).astype(np.float32)
    a = x.astype(brain)
    # Ties go to even, what is above a tie goes up: FP32 does not have the last bit of the first one.
    integers = {
        2**24 + 2**16 + 1: 2**24 + 2**17,
        2**30 + 2**22: 2**30,
        -(2**31): -(2**31),
        257: 256,
        259: 260,
    }
    with np.errstate(all="ignore"):
        expected = [
            a * a + a,
            (a.astype(np.float32) * brain.type(1 / 3)).astype(brain),
            list(integers.values()),
        ]
    found = on("TINYTPU", lambda t: [(y * y + y).float() for y in [t.bfloat16().contiguous()]], x)
    found += on("TINYTPU", lambda t: (t.bfloat16().contiguous() / 3).float(), x)
    found += on("TINYTPU", lambda t: t.bfloat16().float(), np.array(list(integers), np.int32))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, np.asarray(theirs).astype(np.float32))


def test_a_tensor_larger_than_the_scratchpad():
    a = np.arange(20_000, dtype=np.int32)
    assert np.array_equal(on("TINYTPU", lambda t: t * t, a)[0], a * a)


def test_stores_keep_what_surrounds_them():
    t = Tensor(np.arange(40, dtype=np.int32), device="TINYTPU").contiguous().realize()
    t[5:9].assign(Tensor([1, 2, 3, 4], device="TINYTPU", dtype=dtypes.int32)).realize()
    expected = np.arange(40)
    expected[5:9] = [1, 2, 3, 4]
    assert t.tolist() == expected.tolist()


def test_jit_and_variables():
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * 2 + 1).sum().realize()

    for n in range(4):
        assert step(Tensor([n, n, 1], device="TINYTPU").realize()).item() == 4 * n + 5
    t = Tensor(np.arange(10, dtype=np.int32), device="TINYTPU").realize()
    for n in (3, 7):
        size = Variable("size", 1, 10).bind(n)
        assert t[:size].sum().item() == sum(range(n))


def test_double_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"no fp64(.|\n)*kernel ") as error:
        (Tensor([1.5], dtype=dtypes.float64, device="TINYTPU") * 3).realize()
    assert error.value.hint == "cast to int32 or float32"


def test_unmodified_program_finds_the_device():
    program = (
        "from tinygrad import Tensor, Device; print(Device.DEFAULT, (Tensor([1, 2, 3]) * 2).sum().item())"
    )
    env = {k: v for k, v in os.environ.items() if k != "DEBUG"} | {"DEV": "TINYTPU::engine=isa"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "TINYTPU 12\n", done.stderr
    assert type(Device["TINYTPU"]).__name__ == "TINYTPUDevice"


def test_options():
    assert TinytpuOptions.parse("engine=cxxrtl,clock_mhz=50") == TinytpuOptions("cxxrtl", 50)
    assert str(TinytpuOptions.parse("clock_mhz=50")) == "clock_mhz=50"
    for text, message in {
        "speed=9": "unknown device option 'speed'",
        "engine=fast": "device option engine cannot be 'fast'",
        "clock_mhz=0": "device option clock_mhz cannot be '0'",
    }.items():
        with pytest.raises(InputError, match=message):
            TinytpuOptions.parse(text)


def test_memory_is_used_again_and_never_shared():
    memory = Image(2 * GUARD + 4)
    a, b = memory.take(65), memory.take(64)
    assert (memory.row_of(a), memory.row_of(b), memory.row_of(a[4:])) == (GUARD, GUARD + 2, None)
    with pytest.raises(CapacityError, match="130 bytes"):
        memory.take(130)
    memory.give_back(b)
    memory.give_back(a)
    assert memory.row_of(memory.take(256)) == GUARD
