"""The decoder in numpy over whole texts: in float32, and with the integers of the hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl.language.checkpoint import Checkpoint
from tg2hdl.language.integers import EPSILON, TOP, IntegerDecoder, IntegerLayer, Rescaling

__all__ = ["FloatModel", "IntegerModel", "calibrated_peaks", "divergence", "generated"]

Array = npt.NDArray[Any]


class FloatModel:
    """A checkpoint in float32.

    Parameters
    ----------
    model : Checkpoint
    peaks : dict, optional
        Takes the largest magnitudes of everything that is quantized.
    """

    def __init__(self, model: Checkpoint, peaks: dict[str, float] | None = None) -> None:
        self.model, self._peaks = model, peaks
        angles = np.arange(model.context)[:, None] / 10000 ** (np.arange(0, model.head, 2) / model.head)
        self._turn = np.exp(1j * angles).astype(np.complex64)[:, None, :]

    def __call__(self, tokens: Sequence[int], past: dict[int, tuple[Array, Array]] | None = None) -> Array:
        """Logits ``(tokens, vocabulary)``.

        Parameters
        ----------
        tokens : sequence of int
            A text, or the continuation of the tokens of `past`.
        past : dict, optional
            Keys and values of each layer, which are extended; an empty one at the start of a text.
        """
        model, w, past = self.model, self.model.weights, {} if past is None else past
        count, start = len(tokens), len(past[0][0]) if past else 0
        causal = np.tri(count, start + count, start, dtype=bool)
        x = self._seen("x", w["emb"][np.asarray(tokens)])
        for n in range(model.layers):
            h = _normed(x) * w["rms1"][n]
            q, k, v = (
                self._seen(f"{s}.{n}", h @ w[f"w{s}"][n].T).reshape(count, -1, model.head) for s in "qkv"
            )
            q, k = (self._seen(f"{s}.{n}", self._turned(a, start)) for s, a in (("q", q), ("k", k)))
            if n in past:
                k, v = (np.concatenate(pair) for pair in zip(past[n], (k, v), strict=True))
            past[n] = k, v
            k, v = (np.repeat(a, model.heads // model.kv_heads, 1) for a in (k, v))
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(np.float32(model.head))
            scores = np.where(causal, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            mixed = np.einsum("hqk,khd->qhd", weights, v).reshape(count, -1)
            x = self._seen("x", x + mixed @ w["wo"][n].T)
            h = _normed(x) * w["rms2"][n]
            g, u = self._seen(f"g.{n}", h @ w["w1"][n].T), self._seen(f"u.{n}", h @ w["w3"][n].T)
            x = self._seen("x", x + self._seen(f"f.{n}", g / (1 + np.exp(-g)) * u) @ w["w2"][n].T)
        logits: Array = self._seen("hf", _normed(x) * w["rmsf"]) @ w["cls"].T
        return logits

    def _turned(self, x: Array, start: int) -> Array:
        pairs = np.ascontiguousarray(x, np.float32).view(np.complex64)
        turned: Array = (pairs * self._turn[start : start + len(x)]).view(np.float32)
        return turned

    def _seen(self, name: str, x: Array) -> Array:
        if self._peaks is not None:
            self._peaks[name] = max(self._peaks.get(name, 0.0), float(np.abs(x).max()))
        return x


def _normed(x: Array) -> Array:
    normed: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON))
    return normed


class IntegerModel:
    """The decoder in integers, apart from the decoding step: whole texts, numpy's own operations."""

    def __init__(self, numbers: IntegerDecoder) -> None:
        self.numbers = numbers

    def __call__(self, tokens: Sequence[int]) -> Array:
        """Codes of the logits, ``(positions, vocabulary)``, int64."""
        m = self.numbers
        ids = np.asarray(tokens)
        scale = m.embedding_scale
        x = _clipped(_rounded(_wide(m.embedding[ids]) * _wide(scale.factor[ids])[:, None], scale.shift))
        for layer in m.layers:
            x = self._layer(layer, x)
        h = _clipped(_rescaled(self._norm(x), m.final_scale))
        logits: Array = _rescaled(h @ _wide(m.embedding.T), m.logit_scale)
        return logits

    def _layer(self, layer: IntegerLayer, x: Array) -> Array:
        m, shape, count = self.numbers, self.numbers.shape, len(x)
        y = _clipped(_rescaled(self._norm(x) @ _wide(layer.qkv), layer.qkv_scale))
        kv = shape.kv_heads * shape.head
        q, k, v = (a.reshape(count, -1, shape.head) for a in np.split(y, [shape.dim, shape.dim + kv], 1))
        q, k, v = self._turned(q), self._cached(self._turned(k)), self._cached(v)
        k, v = (np.repeat(a, shape.heads // shape.kv_heads, 1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k)
        causal = np.tri(count, dtype=bool)
        largest = np.where(causal, scores, -(2**40)).max(-1, keepdims=True)
        exponent = _rounded(largest - scores, layer.exponent_shift)
        weights = _wide(m.exponentials)[exponent & 255] >> np.minimum(exponent >> 8, 15)
        weights = np.where(causal, weights, 0)
        total = weights.sum(-1) + 1
        extra = (
            np.array([int(z).bit_length() for z in total.flat]).reshape(total.shape) - m.exponential_bits - 1
        )
        factor = _wide(m.reciprocals)[(total >> (m.exponential_bits - 10 + extra)) - 1024]
        sums = np.einsum("hqk,khd->hqd", weights, v)
        sums >>= (m.exponential_bits + m.cache_bits - 15 + extra)[..., None]
        mixed = _clipped(_rounded(sums * factor[..., None], 14)).transpose(1, 0, 2).reshape(count, -1)
        x = _clipped(x + _rescaled(mixed @ _wide(layer.out), layer.out_scale))
        g, u = np.split(_clipped(_rescaled(self._norm(x) @ _wide(layer.gate), layer.gate_scale)), 2, 1)
        index = np.clip(_rounded(g, layer.index_shift), -512, 511) + 512
        f = _clipped(_rounded(_rounded(g * _wide(m.logistic)[index], 15) * u, layer.hidden_shift))
        return _clipped(x + _rescaled(f @ _wide(layer.down), layer.down_scale))

    def _norm(self, x: Array) -> Array:
        m = self.numbers
        squares = ((x >> m.squares_drop) ** 2).sum(-1) + m.epsilon
        squares = np.maximum(squares, 256)
        half = np.array([(int(s).bit_length() - 1) // 2 for s in squares])
        roots = _wide(m.roots)[(squares >> (2 * half - 8)) - 256]
        return _clipped(_rounded(x * roots[:, None], (m.squares_drop + half)[:, None]))

    def _turned(self, x: Array) -> Array:
        m, (a, b) = self.numbers, (x[..., 0::2], x[..., 1::2])
        c, s = (_wide(t[: len(x)])[:, None, :] for t in (m.cosines, m.sines))
        return np.stack(
            [_clipped(_rounded(a * c - b * s, 15)), _clipped(_rounded(a * s + b * c, 15))], -1
        ).reshape(x.shape)

    def _cached(self, x: Array) -> Array:
        top = 2 ** (self.numbers.cache_bits - 1) - 1
        return np.clip(_rounded(x, 16 - self.numbers.cache_bits), -top, top)


def _wide(x: Array) -> Array:
    return np.asarray(x).astype(np.int64)


def _rounded(x: Array, shift: Any) -> Array:
    """``x / 2**shift``, halves upwards."""
    half = np.where(np.asarray(shift) > 0, np.int64(1) << np.maximum(np.asarray(shift) - 1, 0), 0)
    rounded: Array = (x + half) >> shift
    return rounded


def _rescaled(x: Array, scale: Rescaling) -> Array:
    return _rounded((x >> scale.drop) * _wide(scale.factor), scale.shift)


def _clipped(x: Array) -> Array:
    clipped: Array = np.clip(x, -TOP, TOP)
    return clipped


def generated(model: FloatModel, first: Sequence[int], length: int, seed: int | None = None) -> list[int]:
    """A text of so many tokens: the likeliest ones, or drawn where a seed is given.

    Parameters
    ----------
    model : FloatModel
    first : sequence of int
        Tokens of the prompt.
    length : int
        Tokens, with the prompt.
    seed : int, optional
        Draws tokens from the logits; None takes the likeliest.
    """
    tokens, random = list(first), np.random.default_rng(seed)
    past: dict[int, tuple[Array, Array]] = {}
    added = list(first)
    while len(tokens) < length:
        logits = model(added, past)[-1].astype(np.float64)
        if seed is not None:
            logits += random.gumbel(size=logits.shape)
        added = [int(logits.argmax())]
        tokens += added
    return tokens


def calibrated_peaks(
    model: Checkpoint, prompts: Sequence[Sequence[int]], length: int = 100
) -> dict[str, float]:
    """Largest magnitudes in texts that the float model writes, drawn from its probabilities.

    Parameters
    ----------
    prompts : sequence of tokens
    length : int, optional
        Tokens of each text.
    """
    peaks: dict[str, float] = {}
    for number, prompt in enumerate(prompts):
        text = generated(FloatModel(model), prompt[: model.context], min(length, model.context), seed=number)
        FloatModel(model, peaks)(text)
    return peaks


def divergence(model: Checkpoint, numbers: IntegerDecoder, tokens: Sequence[int]) -> tuple[float, float]:
    """Kullback-Leibler divergence (nats a token) from the float model over a text, and equal choices, 0 to 1.

    Parameters
    ----------
    model : Checkpoint
        In float.
    numbers : IntegerDecoder
        The same model in integers.
    tokens : sequence of int
        Of the text.
    """
    exact = FloatModel(model)(tokens).astype(np.float64)
    found = IntegerModel(numbers)(tokens) * numbers.logit
    p, q = (a - np.logaddexp.reduce(a, -1, keepdims=True) for a in (exact, found))
    agreed = float((p.argmax(-1) == q.argmax(-1)).mean())
    return float((np.exp(p) * (p - q)).sum(-1).mean()), agreed
