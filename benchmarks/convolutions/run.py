"""How busy the multipliers are in convolutions of many shapes, and whether every bit is right.

    python benchmarks/convolutions/run.py               predicted cycles, which are the simulated ones
    python benchmarks/convolutions/run.py --simulate    compare every bit with numpy and the golden model (slow)
    python benchmarks/convolutions/run.py --random 50 --seed 1     simulate random shapes instead

int8 in, int32 out, weights in the hardware. The shapes' results go to convolutions.json and convolutions.md beside this
file.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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


def measure(shape: Shape, multipliers: int, *, simulate: bool, seed: int = 1) -> dict[str, Any]:
    """Compile and, if asked for, simulate one convolution.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
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

    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    if simulate:
        result = accelerator.simulate(x)
        right = np.array_equal(result.output, reference(x, weight, shape))
        right &= np.array_equal(result.output, accelerator.golden(x))
        if not right or result.cycles.compute != accelerator.predicted_cycles:
            raise SystemExit(f"WRONG: {shape}, {multipliers} multipliers, seed {seed}")
    cycles = accelerator.predicted_cycles
    return {
        "convolution": str(shape),
        "multipliers": multipliers,
        "macs": shape.macs,
        "cycles": cycles,
        "ratio": round(cycles * multipliers / shape.macs, 3),
        "notes": [note for kernel in accelerator.kernels for note in kernel.notes],
        "simulated": simulate,
    }


def random_shape(rng: np.random.Generator) -> Shape:
    """A small convolution that has at least one output."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        inputs, outputs = (groups * int(n) for n in rng.integers(1, 4, 2))
        size, window = int(rng.integers(3, 14)), int(rng.integers(1, 6))
        stride, padding, dilation = (int(rng.integers(*ends)) for ends in ((1, 4), (0, 3), (1, 3)))
        shape = Shape(inputs, outputs, size, window, stride, min(padding, window - 1), groups, dilation)
        if size + 2 * shape.padding > dilation * (window - 1) and shape.side > 0:
            return shape


def table(rows: list[dict[str, Any]], date: str, versions: dict[str, str]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Convolutions",
        "",
        "Written by `python benchmarks/convolutions/run.py`: cycles x multipliers / MACs from start to done, with the",
        "padding counted as MACs; 1 is the ideal.",
        "",
        "| convolution | MACs | " + " | ".join(f"x{n}" for n in MULTIPLIERS) + " |",
        "|---|---|" + "---|" * len(MULTIPLIERS),
    ]
    for first in rows[:: len(MULTIPLIERS)]:
        mine = [r for r in rows if r["convolution"] == first["convolution"]]
        lines.append(
            f"| {first['convolution']} | {first['macs']:,} | "
            + " | ".join(f"{r['ratio']:.2f}" for r in mine)
            + " |"
        )
    tools = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join([*lines, "", f"{date}, {tools}"]) + "\n"


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="simulate the shapes of the table")
    parser.add_argument("--random", type=int, default=0, help="random shapes to simulate instead")
    parser.add_argument("--seed", type=int, default=1, help="of the random shapes")
    options = parser.parse_args()
    from tg2hdl.bench import versions

    rng = np.random.default_rng(options.seed)
    for number in range(options.random):
        shape, multipliers = random_shape(rng), int(rng.integers(2, 100))
        row = measure(shape, multipliers, simulate=True, seed=options.seed + number)
        print(
            f"{number + 1} of {options.random}: {shape}, x{multipliers}: {row['cycles']} cycles, right",
            flush=True,
        )
    if options.random:
        return
    rows = []
    for shape in SHAPES:
        rows += [measure(shape, n, simulate=options.simulate) for n in MULTIPLIERS]
        print(
            shape, *(f"x{r['multipliers']} {r['ratio']:.2f}" for r in rows[-len(MULTIPLIERS) :]), flush=True
        )
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {"date": date, "versions": versions(), "rows": rows}
    (HERE / "convolutions.json").write_text(json.dumps(record, indent=1) + "\n")
    (HERE / "convolutions.md").write_text(table(rows, date, versions()))


if __name__ == "__main__":
    main()
