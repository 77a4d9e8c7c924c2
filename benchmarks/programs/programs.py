"""Programs that are no layers of a network: each with its result in numpy and the bound that an expert would state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

__all__ = ["PROGRAMS", "Case", "Program"]

Arrays = tuple[np.ndarray, ...]
Both = tuple[Callable[..., Any], Callable[..., Any]]
"""A function of tensors, and the same of arrays."""


@dataclass(frozen=True)
class Case:
    """Options, and the cycles of an expert.

    Parameters
    ----------
    multipliers : int or None
    bound : int
        Least cycles, by the reason in `Program.why`.
    wanted : int
        Cycles that are aimed at.
    first : int, optional
        Cycles when the program was first measured.
    options : dict
        Other options of `CompileOptions`.
    """

    multipliers: int | None
    bound: int
    wanted: int
    first: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A program of the table.

    Parameters
    ----------
    make : callable
        Returns the function and its reference in numpy.
    inputs : callable
        Arrays, from a generator of random numbers.
    why : str
        The reason for the bounds: `x` stands for the number of multipliers.
    seconds : float, optional
        CPU seconds that planning may take.
    kernels : int, optional
        Most kernels (cores) that are wanted.
    """

    name: str
    make: Callable[[], Both]
    inputs: Callable[[np.random.Generator], Arrays]
    why: str
    cases: tuple[Case, ...]
    seconds: float | None = None
    kernels: int | None = None


def _integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Callable[..., Arrays]:
    return lambda rng: (rng.integers(low, high, shape).astype(dtype),)


def _normal(*shapes: tuple[int, ...]) -> Callable[..., Arrays]:
    return lambda rng: tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)


def _weight(seed: int, *shape: int) -> np.ndarray:
    fan = np.prod(shape[1:]) if len(shape) > 1 else 1
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(fan)).astype(np.float32)


def _bytes(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def convolved(x: np.ndarray, w: np.ndarray, stride: int = 1, padding: int = 0, groups: int = 1) -> np.ndarray:
    """Convolution of (batch, channels, height, width) in int64 or float64."""
    kind = np.float64 if x.dtype.kind == "f" else np.int64
    x = np.pad(x.astype(kind), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = w.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, (high, wide), (2, 3))[:, :, ::stride, ::stride]
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            windows[:, g * inputs : (g + 1) * inputs],
            w[g * outputs : (g + 1) * outputs].astype(kind),
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def histogram() -> Both:
    """Counts of 64 values among 512 numbers."""
    return (
        lambda x: (x.reshape(512, 1) == Tensor.arange(64)).sum(0),
        lambda x: np.bincount(x, minlength=64).astype(np.int32),
    )


def scatter_add() -> Both:
    """200 values added at 50 places."""

    def model(index: Tensor, values: Tensor) -> Tensor:
        return Tensor.zeros(50, dtype=dtypes.int32).scatter_reduce(0, index, values, "sum")

    def reference(index: np.ndarray, values: np.ndarray) -> np.ndarray:
        found = np.zeros(50, np.int32)
        np.add.at(found, index, values)
        return found

    return model, reference


def embedding_gradient() -> Both:
    """Gradients of 48 tokens of 16 features added to the rows of a table of 32."""

    def model(tokens: Tensor, gradient: Tensor) -> Tensor:
        chosen = tokens.reshape(48, 1, 1) == Tensor.arange(32).reshape(1, 32, 1)
        return chosen.where(gradient.reshape(48, 1, 16), 0).sum(0)

    def reference(tokens: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        found = np.zeros((32, 16), np.int32)
        np.add.at(found, tokens, gradient)
        return found

    return model, reference


def _indexed(places: int, *shapes: tuple[int, ...]) -> Callable[..., Arrays]:
    def inputs(rng: np.random.Generator) -> Arrays:
        index = rng.integers(0, places, shapes[0]).astype(np.int32)
        return index, *(rng.integers(-99, 100, shape).astype(np.int32) for shape in shapes[1:])

    return inputs


def rope() -> Both:
    """Rotary embedding of 12 positions of 64 features, halves rotated."""
    angles = np.outer(np.arange(12), 10_000.0 ** -(np.arange(32) / 32))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    c, s = Tensor(cos), Tensor(sin)

    def model(x: Tensor) -> Tensor:
        a, b = x[:, :32], x[:, 32:]
        return (a * c - b * s).cat(b * c + a * s, dim=1)

    def reference(x: np.ndarray) -> np.ndarray:
        a, b = x[:, :32], x[:, 32:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)

    return model, reference


def fft() -> Both:
    """Fourier transform of 64 complex numbers in six stages of butterflies."""

    def half(re: Tensor, im: Tensor, n: int) -> tuple[Tensor, Tensor]:
        if n == 1:
            return re, im
        pairs_re, pairs_im = re.reshape(-1, n // 2, 2), im.reshape(-1, n // 2, 2)
        parts = pairs_re.transpose(1, 2).contiguous(), pairs_im.transpose(1, 2).contiguous()
        even_re, even_im = half(parts[0], parts[1], n // 2)
        even_re, even_im = even_re.reshape(-1, 2, n // 2), even_im.reshape(-1, 2, n // 2)
        angles = -2 * np.pi * np.arange(n // 2) / n
        c, s = Tensor(np.cos(angles).astype(np.float32)), Tensor(np.sin(angles).astype(np.float32))
        a_re, a_im = even_re[:, 0], even_im[:, 0]
        b_re = even_re[:, 1] * c - even_im[:, 1] * s
        b_im = even_re[:, 1] * s + even_im[:, 1] * c
        return (
            (a_re + b_re).cat(a_re - b_re, dim=1).contiguous(),
            (a_im + b_im).cat(a_im - b_im, dim=1).contiguous(),
        )

    def model(re: Tensor, im: Tensor) -> Tensor:
        found = half(re.reshape(1, 64), im.reshape(1, 64), 64)
        return found[0].reshape(64).stack(found[1].reshape(64))

    def reference(re: np.ndarray, im: np.ndarray) -> np.ndarray:
        found = np.fft.fft(re + 1j * im)
        return np.stack([found.real, found.imag])

    return model, reference


def kalman() -> Both:
    """Step of a Kalman filter with 6 states and one measurement: the new covariance, and the state below it."""
    f = (np.eye(6) + np.diag([0.1] * 5, 1)).astype(np.float32)
    q = 0.01 * np.eye(6, dtype=np.float32)
    h = np.array([[1, 0, 0.5, 0, 0.25, 0]], np.float32)

    def model(x: Tensor, p: Tensor, z: Tensor) -> Tensor:
        ft, ht = Tensor(f), Tensor(h)
        x, p = ft @ x, ft @ p @ ft.T + Tensor(q)
        ph = p @ ht.T
        gain = ph * (ht @ ph + 0.1).reciprocal()
        x = x + gain * (z - ht @ x)
        p = p - gain @ ph.T
        return p.cat(x.T, dim=0)

    def reference(x: np.ndarray, p: np.ndarray, z: np.ndarray) -> np.ndarray:
        x, p = f @ x, f @ p @ f.T + q
        ph = p @ h.T
        gain = ph / (h @ ph + 0.1)
        return np.concatenate([p - gain @ ph.T, (x + gain * (z - h @ x)).T])

    return model, reference


def _covariance(rng: np.random.Generator) -> Arrays:
    a = rng.normal(size=(6, 6))
    arrays = rng.normal(size=(6, 1)), a @ a.T + np.eye(6), rng.normal(size=(1, 1))
    return tuple(array.astype(np.float32) for array in arrays)


def squeeze_excite() -> Both:
    """Gates of 16 channels of 8x8 by their means, then 1x1 to 16."""
    down, up, w = _weight(1, 16, 4), _weight(2, 4, 16), _weight(3, 16, 16, 1, 1)
    d, u, t = Tensor(down), Tensor(up), Tensor(w)

    def model(x: Tensor) -> Tensor:
        gate = ((x.mean((2, 3)) @ d).relu() @ u).sigmoid()
        return (x * gate.reshape(1, 16, 1, 1)).conv2d(t)

    def reference(x: np.ndarray) -> np.ndarray:
        gate = _sigmoid(np.maximum(x.mean((2, 3)) @ down, 0) @ up)
        return convolved(x * gate.reshape(1, 16, 1, 1), w)

    return model, reference


def swish() -> Both:
    """Swish, then 3x3 of 8 to 8 channels of 12x12."""
    w = _weight(1, 8, 8, 3, 3)
    t = Tensor(w)
    return (
        lambda x: (x * x.sigmoid()).conv2d(t, padding=1),
        lambda x: convolved(x * _sigmoid(x), w, padding=1),
    )


def magnitude() -> Both:
    """Magnitudes of 33 bins of 16 frames, then a convolution of 3 frames to 16 channels."""
    w = _weight(1, 16, 33, 1, 3)
    t = Tensor(w)

    def model(re: Tensor, im: Tensor) -> Tensor:
        return (re * re + im * im).sqrt().conv2d(t)

    return model, lambda re, im: convolved(np.sqrt(re * re + im * im), w)


def gemv(columns: int) -> Callable[[], Both]:
    """Float product of a vector with weights outside the chip."""

    def make() -> Both:
        w = _weight(1, 203, columns)
        t = Tensor(w)
        return lambda x: x @ t, lambda x: x @ w

    return make


def feed_forward() -> Both:
    """SwiGLU 288-768-288 of a llama."""
    gate, up, down = _weight(1, 288, 768), _weight(2, 288, 768), _weight(3, 768, 288)
    g, u, d = Tensor(gate), Tensor(up), Tensor(down)

    def reference(x: np.ndarray) -> np.ndarray:
        a = x @ gate
        return (a * _sigmoid(a) * (x @ up)) @ down

    return lambda x: ((x @ g).silu() * (x @ u)) @ d, reference


def biquad() -> Both:
    """Second-order filter over 32 samples, one after another."""
    b, a = (0.2, 0.4, 0.2), (-0.9, 0.3)

    def model(x: Tensor) -> Tensor:
        y: list[Tensor] = []
        for n in range(32):
            new = x[n] * b[0]
            for k in (1, 2):
                if n >= k:
                    new = new + x[n - k] * b[k] - y[n - k] * a[k - 1]
            y.append(new)
        return Tensor.stack(*y)

    def reference(x: np.ndarray) -> np.ndarray:
        y = np.zeros(32)
        for n in range(32):
            y[n] = b[0] * x[n]
            for k in (1, 2):
                if n >= k:
                    y[n] += b[k] * x[n - k] - a[k - 1] * y[n - k]
        return y

    return model, reference


def resize() -> Both:
    """Bilinear, 16x16 to 40x40."""

    def reference(x: np.ndarray) -> np.ndarray:
        at = np.clip((np.arange(40) + 0.5) * 0.4 - 0.5, 0, 15)
        low = np.floor(at).astype(int)
        high, part = np.minimum(low + 1, 15), at - low
        rows = x[0, 0][low] * (1 - part)[:, None] + x[0, 0][high] * part[:, None]
        return (rows[:, low] * (1 - part) + rows[:, high] * part)[None, None]

    return lambda x: x.interpolate((40, 40)), reference


def quantized_depthwise() -> Both:
    """3x3 with stride 2 in each of 16 channels of 16x16, scaled to bytes."""
    w = _bytes(1, 16, 1, 3, 3)
    scale = np.random.default_rng(2).integers(1 << 14, 1 << 15, 16).astype(np.int32)
    t, m = Tensor(w), Tensor(scale.reshape(1, 16, 1, 1))

    def model(x: Tensor) -> Tensor:
        sums = x.cast(dtypes.int32).conv2d(t.cast(dtypes.int32), stride=2, padding=1, groups=16)
        return (
            ((sums.cast(dtypes.int64) * m.cast(dtypes.int64) + (1 << 23)) >> 24).clip(-128, 127).cast("int8")
        )

    def reference(x: np.ndarray) -> np.ndarray:
        sums = convolved(x, w, 2, 1, 16)
        return np.clip((sums * scale.reshape(1, 16, 1, 1) + (1 << 23)) >> 24, -128, 127).astype(np.int8)

    return model, reference


def image_attention() -> Both:
    """Attention over the 64 pixels of an image of 32 channels, queries, keys and values by 1x1 convolutions."""
    weights = [_weight(n, 32, 32, 1, 1) for n in range(3)]
    tensors = [Tensor(w) for w in weights]

    def model(x: Tensor) -> Tensor:
        q, k, v = (x.conv2d(t).reshape(32, 64) for t in tensors)
        return v @ ((q.T @ k) * 0.25).softmax().T

    def reference(x: np.ndarray) -> np.ndarray:
        q, k, v = (convolved(x, w).reshape(32, 64) for w in weights)
        scores = np.exp(q.T @ k * 0.25)
        return v @ (scores / scores.sum(1, keepdims=True)).T

    return model, reference


def queries_keys_values() -> Both:
    """The three 1x1 convolutions before it, with the queries in rows of pixels and the others in rows of channels."""
    weights = [_bytes(n, 32, 32, 1, 1) for n in range(3)]
    tensors = [Tensor(w) for w in weights]

    def model(x: Tensor) -> Tensor:
        found = [x.cast(dtypes.int32).conv2d(t.cast(dtypes.int32)).reshape(32, 64) for t in tensors]
        return (found[0].T.contiguous() @ found[1] + found[2].sum()).contiguous()

    def reference(x: np.ndarray) -> np.ndarray:
        q, k, v = (convolved(x, w).reshape(32, 64) for w in weights)
        return (q.T @ k + v.sum()).astype(np.int32)

    return model, reference


def rms_norm() -> Both:
    """RMSNorm of 8 rows of 96."""
    scale = np.random.default_rng(1).uniform(0.5, 2, 96).astype(np.float32)
    t = Tensor(scale)

    def model(x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * t

    return model, lambda x: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5) * scale


def softmax() -> Both:
    """Softmax of 4 rows of 777."""

    def reference(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return lambda x: x.softmax(), reference


def lstm() -> Both:
    """49 steps of an LSTM of 10 features and 16 states, in floats."""
    wi, wh, bias = _weight(1, 10, 64), _weight(2, 16, 64), _weight(3, 64)
    ti, th, tb = Tensor(wi), Tensor(wh), Tensor(bias)

    def model(x: Tensor) -> Tensor:
        h, c = Tensor.zeros(1, 16), Tensor.zeros(1, 16)
        for n in range(49):
            i, f, g, o = (x[n : n + 1] @ ti + h @ th + tb).chunk(4, dim=1)
            c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()
            h = (o.sigmoid() * c.tanh()).contiguous()
        return h

    def reference(x: np.ndarray) -> np.ndarray:
        h, c = np.zeros((1, 16)), np.zeros((1, 16))
        for n in range(49):
            i, f, g, o = np.split(x[n : n + 1] @ wi + h @ wh + bias, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        return h

    return model, reference


def _narrow(sums: Tensor, shift: int) -> Tensor:
    return (sums.relu() >> shift).clip(0, 127).cast(dtypes.int8)


def _narrowed(sums: np.ndarray, shift: int) -> np.ndarray:
    return np.clip(np.maximum(sums, 0) >> shift, 0, 127).astype(np.int8)


def mlp() -> Both:
    """16-32-10 of bytes."""
    w1, w2 = _bytes(1, 16, 32), _bytes(2, 32, 10)
    t1, t2 = Tensor(w1), Tensor(w2)

    def model(x: Tensor) -> Tensor:
        hidden = _narrow(x.cast(dtypes.int32) @ t1.cast(dtypes.int32), 9)
        return hidden.cast(dtypes.int32) @ t2.cast(dtypes.int32)

    def reference(x: np.ndarray) -> np.ndarray:
        hidden = _narrowed(x.astype(np.int64) @ w1, 9)
        return (hidden.astype(np.int64) @ w2).astype(np.int32)

    return model, reference


def float_mlp() -> Both:
    """16-32-10 in floats, with ReLU."""
    w1, w2 = _weight(1, 16, 32), _weight(2, 32, 10)
    t1, t2 = Tensor(w1), Tensor(w2)
    return lambda x: (x @ t1).relu() @ t2, lambda x: np.maximum(x @ w1, 0) @ w2


def cnn() -> Both:
    """12x12, 3x3 to 8 channels, maxima of 2x2, 3x3 to 16 channels, 10 sums."""
    w1, w2, w3 = _bytes(1, 8, 1, 3, 3), _bytes(2, 16, 8, 3, 3), _bytes(3, 576, 10)
    t1, t2, t3 = Tensor(w1), Tensor(w2), Tensor(w3)

    def model(x: Tensor) -> Tensor:
        x = _narrow(x.cast(dtypes.int32).conv2d(t1.cast(dtypes.int32), padding=1), 8).max_pool2d(2)
        x = _narrow(x.cast(dtypes.int32).conv2d(t2.cast(dtypes.int32), padding=1), 9)
        return x.reshape(1, 576).cast(dtypes.int32) @ t3.cast(dtypes.int32)

    def reference(x: np.ndarray) -> np.ndarray:
        x = _narrowed(convolved(x, w1, padding=1), 8)
        x = x.reshape(1, 8, 6, 2, 6, 2).max((3, 5))
        x = _narrowed(convolved(x, w2, padding=1), 9)
        return (x.reshape(1, 576).astype(np.int64) @ w3).astype(np.int32)

    return model, reference


def keywords() -> Both:
    """DS-CNN for keywords: 49x10 features, 10x4 to 64 channels, four depthwise-separable blocks, mean, 12 sums."""
    first, last = _bytes(1, 64, 1, 10, 4), _bytes(2, 64, 12)
    blocks = [(_bytes(3 + n, 64, 1, 3, 3), _bytes(9 + n, 64, 64, 1, 1)) for n in range(4)]
    tensors = [tuple(Tensor(w).cast(dtypes.int32) for w in pair) for pair in blocks]
    tf, tl = Tensor(first).cast(dtypes.int32), Tensor(last).cast(dtypes.int32)

    def model(x: Tensor) -> Tensor:
        x = _narrow(x.cast(dtypes.int32).pad((1, 1, 4, 5)).conv2d(tf, stride=2), 8)
        for deep, point in tensors:
            x = _narrow(x.cast(dtypes.int32).conv2d(deep, padding=1, groups=64), 8)
            x = _narrow(x.cast(dtypes.int32).conv2d(point), 9)
        return (x.cast(dtypes.int32).sum((2, 3)) >> 7) @ tl

    def reference(x: np.ndarray) -> np.ndarray:
        x = _narrowed(convolved(np.pad(x, ((0, 0), (0, 0), (4, 5), (1, 1))), first, 2), 8)
        for deep, point in blocks:
            x = _narrowed(convolved(x, deep, 1, 1, 64), 8)
            x = _narrowed(convolved(x, point), 9)
        return ((x.astype(np.int64).sum((2, 3)) >> 7) @ last).astype(np.int32)

    return model, reference


_RELAXED = {"float_order": "relaxed"}


def _outside(bits: int, port: str = "axi4") -> dict[str, Any]:
    return {"weights": "external", "on_chip_bits": bits, "memory_port": port, "target": "ecp5"}


def _port_cases(columns: int) -> tuple[Case, ...]:
    words = 203 * columns
    # 12 of 780 cycles are refreshes.
    return (Case(16, words * 780 // 768, words * 100 // 93, None, _outside(20 * 18432)),)


PROGRAMS = [
    Program(
        "cumsum 512",
        lambda: (lambda x: x.cumsum(), lambda x: np.cumsum(x).astype(np.int32)),
        _integers(-99, 100, 512),
        "an element a cycle; with x lanes 512 / x",
        (Case(1, 512, 600, 262_149), Case(16, 32, 200, 16_390)),
    ),
    Program(
        "cummax 256",
        lambda: (lambda x: x.cummax()[0], np.maximum.accumulate),
        _integers(-999, 1000, 256),
        "an element a cycle",
        (Case(1, 256, 300, 65_541),),
    ),
    Program(
        "integral image 16x16",
        lambda: (
            lambda x: x.cumsum(0).cumsum(1),
            lambda x: x.cumsum(0).cumsum(1).astype(np.int32),
        ),
        _integers(-99, 100, 16, 16),
        "two passes of an element a cycle, overlapped one pass",
        (Case(1, 256, 560),),
    ),
    Program(
        "histogram of 512 into 64",
        histogram,
        _integers(0, 64, 512),
        "an element a cycle with forwarding, 64 counters cleared or read",
        (Case(1, 512, 614, 32_772),),
    ),
    Program(
        "scatter_add of 200 into 50",
        scatter_add,
        _indexed(50, (200,), (200,)),
        "an element a cycle with forwarding",
        (Case(1, 200, 240, 10_005),),
    ),
    Program(
        "gradient of an embedding 48 into 32x16",
        embedding_gradient,
        _indexed(32, (48,), (48, 16)),
        "an element a cycle with forwarding",
        (Case(1, 768, 922),),
    ),
    Program(
        "RoPE 12x64",
        rope,
        _normal((12, 64)),
        "1,536 products / x",
        (Case(1, 1536, 1690, 3087), Case(16, 96, 112, 206)),
    ),
    Program(
        "FFT 64",
        fft,
        _normal((64,), (64,)),
        "192 butterflies of 4 products, 768 / x; 6 stages wait for one another",
        (Case(1, 768, 845), Case(64, 96, 192)),
    ),
    Program(
        "Kalman 6x6",
        kalman,
        _covariance,
        "522 products",
        (Case(1, 522, 626),),
    ),
    Program(
        "squeeze-excite, 1x1",
        squeeze_excite,
        _normal((1, 16, 8, 8)),
        "16,384 products of the convolution and 1,168 others / x; the means before them",
        (Case(16, 1097, 1207),),
    ),
    Program(
        "swish, 3x3",
        swish,
        _normal((1, 8, 12, 12)),
        "82,944 products / x and 1,152 swishes",
        (Case(16, 5184, 5702, 10_412),),
    ),
    Program(
        "magnitude, 1x3",
        magnitude,
        _normal((1, 33, 1, 16), (1, 33, 1, 16)),
        "22,176 products and 1,056 of squares / x",
        (Case(16, 1452, 1597),),
    ),
    *(
        Program(
            f"GEMV 203x{n} outside",
            gemv(n),
            _normal((1, 203)),
            "a word a cycle of the port, which is refreshed",
            _port_cases(n),
        )
        for n in (160, 158, 157)
    ),
    Program(
        "llama FFN 288-768 from SDRAM",
        feed_forward,
        _normal((1, 288)),
        "two beats of 16 bits a word of the chip, 93 % of the port",
        (Case(16, 2 * 3 * 288 * 768, 2 * 3 * 288 * 768 * 100 // 93, None, _outside(100 * 18432, "sdram")),),
    ),
    Program(
        "biquad 32",
        biquad,
        _normal((32,)),
        "154 products of one multiplier; y waits for a product and two additions",
        (Case(1, 700, 1000),),
    ),
    Program(
        "bilinear 16x16 to 40x40",
        resize,
        _normal((1, 1, 16, 16)),
        "rows 40x16 and columns 40x40 of 2 products, 4,480 / x; four elements read for each result",
        (Case(1, 1600, 2274, 2274), Case(16, 280, 400, 1953)),
    ),
    Program(
        "quantized depthwise 3x3, stride 2",
        quantized_depthwise,
        _integers(-128, 128, 1, 16, 16, 16, dtype=np.int8),
        "9,216 products / x",
        (Case(16, 576, 749),),
    ),
    Program(
        "attention of an image 32x8x8",
        image_attention,
        _normal((1, 32, 8, 8)),
        "3 x 65,536 products of the convolutions and 2 x 131,072 of the scores / x, 4,096 scaled",
        (Case(16, 28_928, 31_821),),
    ),
    Program(
        "queries, keys, values 32x8x8",
        queries_keys_values,
        _integers(-128, 128, 1, 32, 8, 8, dtype=np.int8),
        "3 x 65,536 products of the convolutions and 131,072 of the scores / x",
        (Case(16, 20_480, 21_500),),
    ),
    Program(
        "RMSNorm 8x96",
        rms_norm,
        _normal((8, 96)),
        "768 squares and 1,536 products / x; strict sums of 8 rows in turns need 96 steps of the adder's latency / 8",
        (Case(16, 200, 250, 542), Case(16, 144, 160, 220, _RELAXED)),
    ),
    Program(
        "softmax 4x777",
        softmax,
        _normal((4, 777)),
        "3,108 elements: maxima, exponentials and sums, quotients",
        (Case(16, 2000, 2400, 4135), Case(16, 800, 900, 1817, _RELAXED)),
    ),
    Program(
        "LSTM, 49 steps",
        lstm,
        _normal((49, 10)),
        "49 x 1,664 products / x; a step waits for the one before it",
        (Case(16, 5096 + 49 * 80, 12_000),),
        seconds=3,
        kernels=12,
    ),
    Program(
        "MLP 16-32-10 int8",
        mlp,
        _integers(-128, 128, 1, 16, dtype=np.int8),
        "832 products / x",
        (Case(1, 832, 850), Case(16, 52, 70)),
    ),
    Program(
        "MLP 16-32-10 fp32",
        float_mlp,
        _normal((1, 16)),
        "832 products / x; the last sum of a layer ends in the latency of its adder",
        (Case(1, 832, 900), Case(2, 416, 602), Case(4, 208, 300)),
    ),
    Program(
        "CNN 12x12",
        cnn,
        _integers(-128, 128, 1, 1, 12, 12, dtype=np.int8),
        "57,600 products / x",
        (Case(50, 1152, 1160, 1224),),
    ),
    Program(
        "DS-CNN for keywords",
        keywords,
        _integers(-128, 128, 1, 1, 49, 10, dtype=np.int8),
        "2,656,768 products / x",
        (Case(144, 18_450, 20_000),),
        seconds=15,
    ),
]
