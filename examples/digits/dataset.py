"""Handwritten digits of 8x8 pixels, scanned from forms: scikit-learn's bundled copy of a UCI data set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

__all__ = ["TEST_IMAGES", "load_split"]

TEST_IMAGES = 360


def load_split() -> tuple[
    npt.NDArray[np.int8], npt.NDArray[np.int64], npt.NDArray[np.int8], npt.NDArray[np.int64]
]:
    """Return training pixels and labels, then those of the 360 test images.

    Pixels are 0..16, an image is a row of 64.  The split is fixed and has every digit in proportion.
    """
    pixels, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        pixels.astype(np.int8), labels, test_size=TEST_IMAGES, random_state=0, stratify=labels
    )
    return train, train_labels, test, test_labels
