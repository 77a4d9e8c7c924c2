"""Two classifiers of MNIST's digits, trained when they are asked for; ``python models.py`` prints their accuracies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from images import load_split
from network import Conv, Dense, Flatten, Layer, MaxPool, ReLU, run, train
from tinygrad import Tensor

__all__ = ["EPOCHS", "NETWORKS", "Classifier", "trained"]


def _mlp(rng: np.random.Generator) -> list[Layer]:
    return [Flatten(), Dense(784, 128, rng), ReLU(), Dense(128, 10, rng)]


def _lenet5(rng: np.random.Generator) -> list[Layer]:
    features = [
        Conv(1, 6, 5, 2, rng),
        ReLU(),
        MaxPool(),
        Conv(6, 16, 5, 0, rng),
        ReLU(),
        MaxPool(),
        Flatten(),
    ]
    return [*features, Dense(400, 120, rng), ReLU(), Dense(120, 84, rng), ReLU(), Dense(84, 10, rng)]


NETWORKS: dict[str, Callable[[np.random.Generator], list[Layer]]] = {"mlp": _mlp, "lenet5": _lenet5}
"""A multilayer perceptron 784-128-10, and LeNet-5 with rectifiers and maximum pooling."""

EPOCHS = {"mlp": 8, "lenet5": 5}


class Classifier:
    """A trained network in tinygrad; call it with images of shape (N, 1, 28, 28)."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        weighted = (layer for layer in layers if layer.weights)
        for number, layer in enumerate(weighted, 1):
            setattr(self, f"layer{number}", [Tensor(w) for w in layer.weights])

    def __call__(self, x: Tensor) -> Tensor:
        number = 0
        for layer in self.layers:
            if layer.weights:
                number += 1
                weight, bias = getattr(self, f"layer{number}")
            if isinstance(layer, Dense):
                x = x @ weight + bias
            elif isinstance(layer, Conv):
                x = x.conv2d(weight, bias, padding=layer.padding)
            elif isinstance(layer, ReLU):
                x = x.relu()
            elif isinstance(layer, MaxPool):
                x = cast(Tensor, x.max_pool2d((2, 2)))  # a pair only with return_indices
            else:
                x = x.flatten(1)
        return x


def trained(name: str, images: np.ndarray, labels: np.ndarray) -> list[Layer]:
    """Layers of a network after training: the same for the same images and version of numpy."""
    layers = NETWORKS[name](np.random.default_rng(0))
    train(layers, images, labels, EPOCHS[name])
    return layers


def main() -> None:
    images, labels, test, test_labels = load_split()
    for name in NETWORKS:
        scores = run(trained(name, images, labels), test)
        print(f"{name}: {np.mean(scores.argmax(1) == test_labels):.2%} of {len(test)} test images")


if __name__ == "__main__":
    main()
