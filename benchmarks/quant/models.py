"""The models of the table, in tinygrad, and their training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Context, Tensor, TinyJit, nn
from tinygrad.nn.optim import Adam
from tinygrad.nn.state import get_state_dict

WEIGHTS = Path(__file__).parent / "weights"


class Mlp:
    """Two layers; features beyond 1 are standardized inside of the model, so that it takes them raw."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        self.mean, self.scale = Tensor.zeros(inputs).contiguous(), Tensor.ones(inputs).contiguous()
        self.fc1, self.fc2 = nn.Linear(inputs, hidden), nn.Linear(hidden, classes)

    def fit_features(self, x: np.ndarray) -> None:
        self.mean = Tensor(x.mean(0))
        deviation = x.std(0)
        self.scale = Tensor(1 / np.where(deviation > 0, deviation, 1).astype(np.float32))

    def __call__(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1((x - self.mean) * self.scale).relu())


class Cnn:
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 16, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.conv1(x).relu().max_pool2d(2)
        return self.fc(self.conv2(x).relu().flatten(1))


class LeNet5:
    """LeNet-5 with rectifiers and maximum pooling."""

    def __init__(self) -> None:
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.conv1(x).relu().max_pool2d(2)
        x = self.conv2(x).relu().max_pool2d(2).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


class Residual:
    """A strided convolution and two residual blocks with batch normalization."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(1, 8, 3, stride=4, padding=1)
        self.convs = [nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(4)]
        self.norms = [nn.BatchNorm(8) for _ in range(4)]
        self.fc = nn.Linear(8 * 4, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        for n in (0, 2):
            y = self.norms[n](self.convs[n](x)).relu()
            x = (x + self.norms[n + 1](self.convs[n + 1](y))).relu()
        return self.fc(x.avg_pool2d(4).flatten(1))


class Depthwise:
    """Depthwise and pointwise convolutions with batch normalization and relu6, and averages."""

    def __init__(self) -> None:
        self.convs = [
            nn.Conv2d(1, 16, 3, stride=4, padding=1, bias=False),
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
            nn.Conv2d(16, 32, 1, bias=False),
            nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False),
            nn.Conv2d(32, 32, 1, bias=False),
        ]
        self.norms = [nn.BatchNorm(conv.weight.shape[0]) for conv in self.convs]
        self.fc = nn.Linear(32 * 4, 10)

    def __call__(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x)).relu6()
        return self.fc(x.avg_pool2d(4).flatten(1))


class Transformer:
    """One encoder layer over the rows of an image, with its place added to each."""

    def __init__(self, width: int = 16) -> None:
        self.embed, self.place = nn.Linear(8, width), Tensor.zeros(8, width).contiguous()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.fc = nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.place
        scores = (self.query(x) @ self.key(x).transpose(-1, -2)) * 0.25
        x = self.norm1(x + scores.softmax(-1) @ self.value(x))
        x = self.norm2(x + self.down(self.up(x).gelu()))
        return self.fc(x.mean(1))


class Lstm:
    """An LSTM over the rows of an image."""

    def __init__(self, width: int = 24) -> None:
        self.cell, self.fc = nn.LSTMCell(8, width), nn.Linear(width, 10)

    def __call__(self, x: Tensor) -> Tensor:
        state: Any = None
        for row in range(8):
            state = self.cell(x[:, row], state)
        return self.fc(state[0])


MODELS: dict[str, tuple[str, Callable[[], Any], int]] = {
    "MLP, MNIST": ("mnist_flat", lambda: Mlp(784, 128, 10), 12),
    "LeNet-5, MNIST": ("mnist_images", LeNet5, 5),
    "MLP, digits": ("digits_flat", lambda: Mlp(64, 32, 10), 40),
    "CNN, digits": ("digits_images", Cnn, 20),
    "MLP, wine": ("wine", lambda: Mlp(13, 16, 3), 150),
    "MLP, breast cancer": ("cancer", lambda: Mlp(30, 16, 2), 100),
    "residual CNN, digits 32x32": ("digits_upsampled", Residual, 15),
    "depthwise CNN, digits 32x32": ("digits_upsampled", Depthwise, 15),
    "transformer, digits": ("digits_rows", Transformer, 40),
    "LSTM, digits": ("digits_rows", Lstm, 30),
}
"""Data, model and epochs."""


def train(make: Callable[[], Any], x: np.ndarray, y: np.ndarray, epochs: int) -> Any:
    """Train with Adam on batches of 64; the same seeds each time."""
    Tensor.manual_seed(0)
    rng = np.random.default_rng(0)
    model = make()
    if isinstance(model, Mlp) and np.abs(x).max() > 1:
        model.fit_features(x)
    fixed = ("mean", "scale", "running_mean", "running_var", "num_batches_tracked")
    weights = get_state_dict(model)
    statistics = [t for n, t in weights.items() if "running_" in n]
    parameters = [t for n, t in weights.items() if n.split(".")[-1] not in fixed]
    optimizer = Adam(parameters, lr=2e-3)
    size = min(64, len(x))

    @TinyJit
    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(images).sparse_categorical_crossentropy(labels).backward()
        optimizer.step()
        return loss.realize(*statistics)

    with Context(TRAINING=1):
        for _ in range(epochs):
            order = rng.permutation(len(x))
            for start in range(0, len(x) - size + 1, size):
                rows = order[start : start + size]
                step(Tensor(x[rows]).realize(), Tensor(y[rows]).realize())
    for tensor in weights.values():
        tensor.realize()
    return model


def trained(name: str, make: Callable[[], Any], x: np.ndarray, y: np.ndarray, epochs: int) -> Any:
    """The trained model; its weights are kept in `WEIGHTS`, those that are there are used again."""
    path = WEIGHTS / f"{name}.npz"
    if not path.is_file():
        WEIGHTS.mkdir(exist_ok=True)
        weights = get_state_dict(train(make, x, y, epochs))
        np.savez_compressed(path, **{n: t.numpy() for n, t in weights.items()})
    model = make()
    with np.load(path) as stored:
        for key, tensor in get_state_dict(model).items():
            tensor.replace(Tensor(stored[key]))
    return model
