"""How busy the multipliers are in convolutions of many shapes, and whether every bit is right.

    python benchmarks/convolutions/run.py               predicted cycles, which are the simulated ones
    python benchmarks/convolutions/run.py --simulate    compare every bit with numpy and the golden model (slow)
    python benchmarks/convolutions/run.py --random 50 --seed 1     simulate random shapes instead

int8 in, int32 out, weights in the hardware. The shapes' results go to convolutions.json and convolutions.md beside this
file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from command import run

HERE = Path(__file__).parent
MULTIPLIERS = (8, 16, 32, 64)


class Shape(NamedTuple):
    """A convolution of `size` x `size` images with `window` x `window` taps."""

    inputs: int
    outputs: int
    size: int
    window: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1

    def __str__(self) -> str:
        text = f"{self.inputs}x{self.size}x{self.size} to {self.outputs}, {self.window}x{self.window}"
        extra = {"stride": 1, "padding": 0, "groups": 1, "dilation": 1}
        return text + "".join(
            f", {k} {getattr(self, k)}" for k, plain in extra.items() if getattr(self, k) != plain
        )

    @property
    def side(self) -> int:
        """Rows of the output."""
        return (self.size + 2 * self.padding - self.dilation * (self.window - 1) - 1) // self.stride + 1

    @property
    def macs(self) -> int:
        """Multiplications, those with the padding included."""
        return self.side**2 * self.outputs * self.inputs // self.groups * self.window**2


SHAPES = (
    Shape(1, 8, 28, 3),
    Shape(1, 8, 28, 5),
    Shape(1, 6, 28, 5, padding=2),
    Shape(6, 16, 14, 5),
    Shape(3, 16, 32, 3, padding=1),
    Shape(3, 16, 32, 3, stride=2, padding=1),
    Shape(16, 16, 16, 3, padding=1),
    Shape(16, 32, 16, 3, stride=2, padding=1),
    Shape(16, 16, 16, 3, padding=1, groups=16),
    Shape(16, 32, 14, 1),
    Shape(8, 8, 27, 3, stride=2),
    Shape(4, 4, 12, 3, dilation=2),
    Shape(8, 12, 13, 3, padding=1),
    Shape(3, 7, 17, 7, stride=2, padding=3),
    Shape(1, 8, 28, 3, stride=2),
    Shape(2, 8, 28, 3, stride=2),
    Shape(1, 8, 13, 3, padding=1),
    Shape(8, 8, 13, 3),
    Shape(3, 5, 11, 3, padding=1),
    Shape(2, 8, 27, 5, stride=2, padding=2),
)


def reference(x: np.ndarray, weight: np.ndarray, shape: Shape) -> np.ndarray:
    """The convolution in numpy."""
    padded = np.pad(x[0].astype(np.int32), ((0, 0), *((shape.padding,) * 2,) * 2))
    reach = shape.stride * (shape.side - 1) + 1
    result = np.zeros((1, shape.outputs, shape.side, shape.side), np.int32)
    for channel in range(shape.outputs):
        first = channel // (shape.outputs // shape.groups) * weight.shape[1]
        for (depth, row, column), factor in np.ndenumerate(weight[channel].astype(np.int32)):
            top, left = row * shape.dilation, column * shape.dilation
            taps = padded[first + depth, top : top + reach : shape.stride, left : left + reach : shape.stride]
            result[0, channel] += factor * taps
    return result


def accelerator_of(shape: Shape, multipliers: int, seed: int = 1) -> tuple[Any, np.ndarray, np.ndarray]:
    """The compiled convolution, its input and its weights."""
    from tinygrad import Tensor, dtypes

    import tg2hdl

    rng = np.random.default_rng(seed)
    window = (shape.outputs, shape.inputs // shape.groups, shape.window, shape.window)
    weight = rng.integers(-128, 128, window).astype(np.int8)
    kept = Tensor(weight)
    x = rng.integers(-128, 128, (1, shape.inputs, shape.size, shape.size)).astype(np.int8)

    def model(image: Tensor) -> Tensor:
        options = {"stride": shape.stride, "padding": shape.padding}
        options |= {"groups": shape.groups, "dilation": shape.dilation}
        return image.cast(dtypes.int32).conv2d(kept.cast(dtypes.int32), **options)

    return tg2hdl.compile(model, x, multipliers=multipliers), x, weight


def measure(shape: Shape, multipliers: int, *, simulate: bool, seed: int = 1) -> dict[str, Any]:
    """Compile and, if asked for, simulate one convolution.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
    accelerator, x, weight = accelerator_of(shape, multipliers, seed)
    if simulate:
        result = accelerator.simulate(x)
        right = np.array_equal(result.output, reference(x, weight, shape))
        right &= np.array_equal(result.output, accelerator.golden(x))
        if not right or result.cycles.compute != accelerator.predicted_cycles:
            raise SystemExit(f"WRONG: {shape}, {multipliers} multipliers, seed {seed}")
    cycles = accelerator.predicted_cycles
    return {
        "case": str(shape),
        "multipliers": multipliers,
        "work": shape.macs,
        "cycles": cycles,
        "ratio": round(cycles * multipliers / shape.macs, 3),
        "notes": [note for kernel in accelerator.kernels for note in kernel.notes],
        "simulated": simulate,
    }


def random_shape(rng: np.random.Generator) -> tuple[Shape, int]:
    """A small convolution that has at least one output, and multipliers."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        inputs, outputs = (groups * int(n) for n in rng.integers(1, 4, 2))
        size, window = int(rng.integers(3, 14)), int(rng.integers(1, 6))
        stride, padding, dilation = (int(rng.integers(*ends)) for ends in ((1, 4), (0, 3), (1, 3)))
        shape = Shape(inputs, outputs, size, window, stride, min(padding, window - 1), groups, dilation)
        if size + 2 * shape.padding > dilation * (window - 1) and shape.side > 0:
            return shape, int(rng.integers(2, 100))


if __name__ == "__main__":
    HEAD = (
        "# Convolutions",
        "",
        "Written by `python benchmarks/convolutions/run.py`: cycles x multipliers / MACs from start to done, with the",
        "padding counted as MACs; 1 is the ideal.",
        "",
        "convolution",
        "MACs",
    )
    run(HERE / "convolutions.json", __doc__, measure, SHAPES, MULTIPLIERS, random_shape, HEAD)
