"""Lines of a camera in, lines of edges out: a frame is never on the chip, only four of its lines.

Run it: ``python camera_edges.py [FOLDER]`` filters a scene of 160 x 120 and writes ``scene.png`` and ``edges.png``;
those in ``camera`` were made so.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["run", "scene", "sobel"]

HORIZONTAL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.int8)


def sobel(image: Tensor) -> Tensor:
    """Gradient magnitude, |gx| + |gy|, clipped to 255, of an image of shape (1, 1, height, width)."""
    kernels = Tensor(np.stack([HORIZONTAL, HORIZONTAL.T])[:, None])
    gradients = image.cast("int32").conv2d(kernels.cast("int32"), padding=1)
    return gradients.abs().sum(axis=1).minimum(255).cast("uint8")


def scene(height: int, width: int) -> np.ndarray:
    """A house in front of the moon, of shape (1, 1, height, width) and type uint8."""
    y, x = np.mgrid[:height, :width] / height
    sky = 40 + 50 * y
    sky[np.hypot(x - 0.95, y - 0.3) < 0.18] = 220
    sky[(abs(x - 0.5) < 0.3) & (y > 0.5)] = 120
    sky[(y > 0.5 - 0.25 * (1 - abs(x - 0.5) / 0.35)) & (y < 0.5) & (abs(x - 0.5) < 0.35)] = 170
    sky[(abs(abs(x - 0.5) - 0.15) < 0.06) & (abs(y - 0.68) < 0.07)] = 235
    return sky.astype(np.uint8)[None, None]


def write_png(path: Path, image: np.ndarray) -> None:
    """Write an image of grey levels."""
    height, width = image.shape
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(image))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")):
        data += (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )
    path.write_bytes(data)


def run(height: int = 24, width: int = 32, folder: Path | None = None) -> tg2hdl.Accelerator:
    """Compile the filter row by row, filter the scene behind AXI4-Stream, and compare with numpy."""
    image = scene(height, width)
    options = tg2hdl.CompileOptions(ports=("axi-stream",), schedule="rows", target="ecp5", multipliers=4)
    accelerator = tg2hdl.compile(sobel, image, options=options)
    result = accelerator.simulate(image)
    edges = result.output[0]

    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image[0, 0].astype(int), 1), (3, 3))
    gradients = [np.abs((windows * k).sum((2, 3))) for k in (HORIZONTAL, HORIZONTAL.T)]
    np.testing.assert_array_equal(edges, np.minimum(sum(gradients), 255))
    assert result.cycles.compute == accelerator.predicted_cycles
    memory = next(m for m in accelerator.design.buffers if m.name == "image")
    print(f"{memory.ring * memory.layout.lanes} of {image.size} pixels are on the chip")
    print(f"a frame every {accelerator.predicted_interval:,} cycles for {image.size:,} pixels")
    if folder is not None:
        folder.mkdir(exist_ok=True)
        write_png(folder / "scene.png", image[0, 0])
        write_png(folder / "edges.png", edges)
    return accelerator


if __name__ == "__main__":
    run(120, 160, Path(sys.argv[1] if len(sys.argv) > 1 else "."))
