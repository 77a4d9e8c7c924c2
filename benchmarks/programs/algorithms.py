"""Algorithms in tinygrad, and in numpy."""

from __future__ import annotations

import numpy as np
from arrays import Both
from tinygrad import Tensor, dtypes

__all__ = [
    "biquad",
    "embedding_gradient",
    "fft",
    "histogram",
    "kalman",
    "resize",
    "rms_norm",
    "rope",
    "scatter_add",
    "softmax",
]


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


def softmax() -> Both:
    """Softmax of 4 rows of 777."""

    def reference(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return lambda x: x.softmax(), reference


def rms_norm() -> Both:
    """RMSNorm of 8 rows of 96."""
    scale = np.random.default_rng(1).uniform(0.5, 2, 96).astype(np.float32)
    t = Tensor(scale)

    def model(x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * t

    return model, lambda x: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5) * scale
