"""Small models, forward and in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, nn

from tg2hdl_backend.testing.registry import add, f32, training

__all__: list[str] = []


class _LSTM:
    def __init__(self) -> None:
        self.cell = nn.LSTMCell(3, 4)

    def __call__(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


add("lstm_cell", _LSTM(), f32(2, 3))


class _ConvNet:
    def __init__(self) -> None:
        self.c1, self.c2, self.l = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 3, 3), nn.Linear(12, 4)

    def __call__(self, x: Tensor) -> Tensor:
        pooled = self.c1(x).relu().max_pool2d((2, 2))
        assert isinstance(pooled, Tensor)
        x = pooled
        return self.l(self.c2(x).relu().flatten(1)).log_softmax()


add("conv_net", _ConvNet(), f32(1, 1, 8, 8))


class _TransformerBlock:
    def __init__(self, width: int, heads: int) -> None:
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        heads = self.qkv(self.n1(x)).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = heads[0], heads[1], heads[2]
        y = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(self.up(self.n2(x)).gelu())


class _Transformer:
    def __init__(self) -> None:
        self.blocks = [_TransformerBlock(8, 2), _TransformerBlock(8, 2)]

    def __call__(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


add("transformer", _Transformer(), f32(1, 3, 8))


class _Training:
    def __init__(self, optimizer: str) -> None:
        self.l1, self.l2 = nn.Linear(4, 5), nn.Linear(5, 3)
        self.optimizer = optimizer

    def __call__(self, x: Tensor, y: Tensor) -> list[Tensor]:
        parameters = nn.state.get_parameters([self.l1, self.l2])
        with training():
            optimizers: dict[str, Callable[..., Any]] = {"sgd": nn.optim.SGD, "adam": nn.optim.Adam}
            steps = optimizers[self.optimizer](parameters, lr=0.1)
            loss = self.l2(self.l1(x).relu()).sparse_categorical_crossentropy(y)
            loss.backward()
            steps.step()
        return [loss, *parameters]


add("train_mlp_sgd", _Training("sgd"), f32(2, 4), np.array([0, 2], np.int32))
add("train_mlp_adam", _Training("adam"), f32(2, 4), np.array([0, 2], np.int32))
