"""Kernels say which layers of the model they are."""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor, nn

import tg2hdl


class Net:
    def __init__(self):
        self.first, self.norm, self.second = nn.Linear(6, 8), nn.BatchNorm(8), nn.Linear(8, 4)
        rng = np.random.default_rng(1)
        self.norm.running_var = Tensor(rng.uniform(0.5, 2, 8).astype(np.float32))
        self.table = Tensor(rng.uniform(0.5, 2, 4).astype(np.float32))

    def __call__(self, x):
        return self.second(self.norm(self.first(x)).relu()) + self.table.softmax()


def test_kernels_have_the_names_of_modules():
    layers = [k.layer for k in tg2hdl.compile(Net(), np.zeros((2, 6), np.float32)).kernels]
    assert sorted({name for layer in layers for name in layer.split(", ")}) == [
        "first",
        "norm",
        "second",
        "table",
    ]
    assert "first" in layers[0]
    assert layers[-1].startswith("second")


def test_a_long_chain_of_tensors_names_each_weight_once():
    def model(x):
        y, z = table, (table + 1).contiguous()
        for _ in range(60):
            y, z = z, (y + z).contiguous()
        return x + z

    table = Tensor(np.arange(4, dtype=np.int32)).realize()
    (kernel,) = tg2hdl.compile(model, np.zeros(4, np.int32)).kernels
    assert kernel.layer == "table"
