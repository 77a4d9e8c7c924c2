"""The decoding step in tinygrad: a token and its position in, the next token or the logits out; the cache is state."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor, UOp, Variable, dtypes

from tg2hdl.language.integers import TOP, IntegerDecoder, IntegerLayer, Rescaling

__all__ = ["DecodingStep"]

BLOCK = 16
"""Positions that are read together: whole blocks up to the position take part in a step."""


class DecodingStep:
    """One step of a decoder: ``step(token, position)``.

    Parameters
    ----------
    numbers : IntegerDecoder
    output : {"token", "logits"}
        The likeliest token, ``(1, 1)`` as the input, or the codes of all logits, ``(1, vocabulary)``.
    """

    def __init__(self, numbers: IntegerDecoder, output: Literal["token", "logits"] = "token") -> None:
        self.numbers, self._output = numbers, output
        shape, n = numbers.shape, numbers
        # Whole blocks of positions.
        self.context = -(-n.context // BLOCK) * BLOCK
        self.embedding, self.token_scale = _tensor(n.embedding), _tensor(n.embedding_scale.factor)
        self.logit_factor, self.final_factor = _tensor(n.logit_scale.factor), _tensor(n.final_scale.factor)
        self.cosines, self.sines = _tensor(n.cosines), _tensor(n.sines)
        self.roots, self.exponentials = _tensor(n.roots), _tensor(n.exponentials)
        self.reciprocals, self.logistic = _tensor(n.reciprocals), _tensor(n.logistic)
        self.layers = [_LayerWeights(layer) for layer in n.layers]
        size = (self.context // BLOCK, BLOCK, shape.kv_heads, shape.head)
        self.keys, self.values = (
            [Tensor.zeros(*size, dtype=dtypes.int16).contiguous().realize() for _ in n.layers] for _ in "kv"
        )

    def example(self) -> tuple[npt.NDArray[np.int32], UOp]:
        """Inputs for `tg2hdl.compile`."""
        return np.array([[1]], np.int32), Variable("position", 0, self.numbers.context - 1).bind(0)

    def __call__(self, token: Tensor, position: UOp) -> Tensor:
        """The next token, or the logits."""
        n = self.numbers
        row = self.embedding[token.reshape(1)].cast(dtypes.int32)
        scale = n.embedding_scale
        x = _codes(_rounded(row * self.token_scale[token.reshape(1)].cast(dtypes.int32), scale.shift))
        for number, layer in enumerate(self.layers):
            x = self._layer(number, layer, x, position)
        h = _codes(_rescaled(self._norm(x).cast(dtypes.int32), n.final_scale, self.final_factor))
        sums = h.cast(dtypes.int32) @ self.embedding.transpose().cast(dtypes.int32)
        logits = _rescaled(sums, n.logit_scale, self.logit_factor)
        return logits.argmax(-1, keepdim=True) if self._output == "token" else logits

    def _layer(self, number: int, w: _LayerWeights, x: Tensor, position: UOp) -> Tensor:
        n, shape = self.numbers, self.numbers.shape
        y = _codes(_product(self._norm(x), w.qkv, w.layer.qkv_scale, w.qkv_factor))
        kv = shape.kv_heads * shape.head
        q, k, v = y[:, : shape.dim], y[:, shape.dim : shape.dim + kv], y[:, shape.dim + kv :]
        q = self._turned(q, position).cast(dtypes.int16).contiguous()
        block, inside = position // BLOCK, position % BLOCK
        for cache, new in ((self.keys, self._turned(k, position)), (self.values, v.cast(dtypes.int32))):
            top = 2 ** (n.cache_bits - 1) - 1
            stored = _rounded(new, 16 - n.cache_bits).clip(-top, top).cast(dtypes.int16)
            cache[number][block : block + 1, inside : inside + 1].assign(
                stored.reshape(1, 1, shape.kv_heads, shape.head)
            )
        mixed = self._attention(w.layer, q, self.keys[number], self.values[number], position)
        x = _codes(x.cast(dtypes.int32) + _product(mixed, w.out, w.layer.out_scale, w.out_factor))
        y = _codes(_product(self._norm(x), w.gate, w.layer.gate_scale, w.gate_factor))
        gate, up = y[:, : shape.hidden].cast(dtypes.int32), y[:, shape.hidden :].cast(dtypes.int32)
        index = _rounded(gate, w.layer.index_shift) + 512
        opened = _rounded(gate * self.logistic[index.clip(0, 1023)].cast(dtypes.int32), 15)
        hidden = _codes(_rounded(opened * up, w.layer.hidden_shift))
        return _codes(x.cast(dtypes.int32) + _product(hidden, w.down, w.layer.down_scale, w.down_factor))

    def _attention(
        self, layer: IntegerLayer, q: Tensor, keys: Tensor, values: Tensor, position: UOp
    ) -> Tensor:
        """Values weighted by the scores of the positions so far, ``(1, dim)``."""
        n, shape = self.numbers, self.numbers.shape
        blocks = position // BLOCK + 1
        group = shape.heads // shape.kv_heads
        # (blocks, BLOCK, kv_heads, 1, head)
        k, v = (c[:blocks].cast(dtypes.int32).unsqueeze(3) for c in (keys, values))
        query = q.cast(dtypes.int32).reshape(1, 1, shape.kv_heads, group, shape.head)
        scores = (query * k).sum(-1)
        where = Tensor.arange(self.context).reshape(-1, BLOCK)[:blocks].reshape(blocks, BLOCK, 1, 1)
        seen = where <= Tensor(position)
        least = -shape.head * TOP * (2 ** (n.cache_bits - 1) - 1)
        scores = seen.where(scores, least)
        exponent = _rounded(scores.max((0, 1), keepdim=True) - scores, layer.exponent_shift)
        weights = self.exponentials[exponent & 255].cast(dtypes.int32) >> (exponent >> 8).minimum(15)
        weights = seen.where(weights, 0).cast(dtypes.int16).contiguous().cast(dtypes.int32)
        total = weights.sum((0, 1)) + 1
        low = n.exponential_bits + 1
        extra = sum(
            ((total >= 1 << i).cast(dtypes.int32) for i in range(low, 26)), Tensor(0, dtype=dtypes.int32)
        )
        factor = self.reciprocals[(total >> (extra + (n.exponential_bits - 10))) - 1024].cast(dtypes.int32)
        # In a buffer, so that all multipliers work on the sums.
        sums = (weights.unsqueeze(-1) * v).sum((0, 1)).contiguous()
        sums = sums >> (extra + (n.exponential_bits + n.cache_bits - 15)).unsqueeze(-1)
        return _codes(_rounded(sums * factor.unsqueeze(-1), 14)).reshape(1, shape.dim)

    def _norm(self, x: Tensor) -> Tensor:
        """Codes of a row divided by its root mean square."""
        n = self.numbers
        x = x.cast(dtypes.int32)
        part = x >> n.squares_drop
        squares = ((part * part).sum(-1, keepdim=True) + n.epsilon).maximum(256)
        half = sum(
            ((squares >= 1 << i).cast(dtypes.int32) for i in range(10, 31, 2)), Tensor(4, dtype=dtypes.int32)
        )
        root = self.roots[(squares >> (half * 2 - 8)) - 256].cast(dtypes.int32)
        return _codes(((x * root >> (half + (n.squares_drop - 1))) + 1) >> 1)

    def _turned(self, x: Tensor, position: UOp) -> Tensor:
        """Pairs of values rotated by the position, as codes of 32 bits."""
        half = self.numbers.shape.head // 2
        c, s = (t[position].reshape(1, half).cast(dtypes.int32) for t in (self.cosines, self.sines))
        pairs = x.cast(dtypes.int32).reshape(-1, half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        turned = Tensor.stack(_rounded(a * c - b * s, 15), _rounded(a * s + b * c, 15), dim=-1)
        return turned.clip(-TOP, TOP).reshape(x.shape)


class _LayerWeights:
    """Tensors of a layer."""

    def __init__(self, layer: IntegerLayer) -> None:
        self.layer = layer
        self.qkv, self.qkv_factor = _tensor(layer.qkv), _tensor(layer.qkv_scale.factor)
        self.out, self.out_factor = _tensor(layer.out), _tensor(layer.out_scale.factor)
        self.gate, self.gate_factor = _tensor(layer.gate), _tensor(layer.gate_scale.factor)
        self.down, self.down_factor = _tensor(layer.down), _tensor(layer.down_scale.factor)


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    return Tensor(np.ascontiguousarray(array))


def _half(shift: int) -> int:
    return 1 << shift - 1 if shift else 0


def _rounded(x: Tensor, shift: int) -> Tensor:
    return (x + _half(shift)) >> shift if shift else x


def _rescaled(sums: Tensor, scale: Rescaling, factor: Tensor) -> Tensor:
    return _rounded((sums >> scale.drop) * factor.cast(dtypes.int32), scale.shift)


def _product(x: Tensor, matrix: Tensor, scale: Rescaling, factor: Tensor) -> Tensor:
    return _rescaled(x.cast(dtypes.int32) @ matrix.cast(dtypes.int32), scale, factor)


def _codes(x: Tensor) -> Tensor:
    """16-bit codes in a buffer of their own, so that no reader computes them again."""
    return x.clip(-TOP, TOP).cast(dtypes.int16).contiguous()
