"""An image filter: the Sobel gradient of an 8-bit image, one pixel per lane and cycle.

Run it: ``python image_filter.py``.
"""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["run", "sobel"]

HORIZONTAL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.int8)


def sobel(image: Tensor) -> Tensor:
    """Gradient magnitude, |gx| + |gy|, clipped to 255, of an image of shape (1, 1, height, width)."""
    kernels = Tensor(np.stack([HORIZONTAL, HORIZONTAL.T])[:, None])
    gradients = image.cast("int32").conv2d(kernels.cast("int32"), padding=1)
    return gradients.abs().sum(axis=1).minimum(255).cast("uint8")


def run(size: int = 16) -> tg2hdl.Accelerator:
    """Compile the filter, filter a disc, and compare with numpy."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    image = np.where(np.hypot(x, y) < size / 3, 200, 10).astype(np.uint8).reshape(1, 1, size, size)
    accelerator = tg2hdl.compile(sobel, image, multipliers=4)
    edges = accelerator.simulate(image).output[0]

    padded = np.pad(image[0, 0].astype(int), 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    gradients = [np.abs((windows * k).sum((2, 3))) for k in (HORIZONTAL, HORIZONTAL.T)]
    np.testing.assert_array_equal(edges, np.minimum(sum(gradients), 255))
    print("\n".join("".join(" .:#"[v // 64] for v in row) for row in edges))
    print(f"{accelerator.predicted_cycles} cycles for {image.size} pixels")
    return accelerator


if __name__ == "__main__":
    run()
