"""Cycles of stencils: sums of neighbours in an image, computed only where all neighbours lie inside it.

    python benchmarks/convolutions/stencils.py               predicted cycles, which are the simulated ones
    python benchmarks/convolutions/stencils.py --simulate    compare every bit with numpy and the golden model (slow)
    python benchmarks/convolutions/stencils.py --random 50 --seed 1     simulate random ones instead

The results go to stencils.json and stencils.md beside this file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from command import run

HERE = Path(__file__).parent
LANES = (1, 2, 4, 8)
CROSS = ((0, 1), (1, 0), (1, 2), (2, 1))
RING = tuple((r, c) for r in range(3) for c in range(3) if (r, c) != (1, 1))


def weighted(image: Any, taps: tuple[tuple[int, int], ...]) -> Any:
    """Sum of shifted images, the first one once, the second one twice, and so on; of arrays or of tensors."""
    rows, columns = (max(tap[n] for tap in taps) for n in range(2))
    height, width = image.shape
    total = None
    for weight, (row, column) in enumerate(taps, 1):
        term = image[row : height - rows + row, column : width - columns + column] * weight
        total = term if total is None else total + term
    return total


def life(image: Any) -> Any:
    """Next generation of Conway's game of life, of 0 and 1."""
    height, width = image.shape
    alive = image[1 : height - 1, 1 : width - 1]
    around = sum(image[r : height - 2 + r, c : width - 2 + c] for r, c in RING)
    return ((around == 3) | ((alive == 1) & (around == 2))) * 1


class Stencil(NamedTuple):
    """A function of an int32 image, of arrays as of tensors."""

    name: str
    size: tuple[int, int]
    function: Callable[[Any], Any]
    highest: int = 100


STENCILS = (
    Stencil("three in a row", (64, 64), lambda x: weighted(x, ((0, 0), (0, 1), (0, 2)))),
    Stencil("cross of four", (64, 64), lambda x: weighted(x, CROSS)),
    Stencil("game of life", (64, 64), life, 1),
    Stencil("game of life", (200, 200), life, 1),
    Stencil("ring of eight", (20, 28), lambda x: weighted(x, RING)),
    Stencil(
        "five, every other column", (32, 100), lambda x: weighted(x, tuple((0, 2 * n) for n in range(5)))
    ),
)


def accelerator_of(stencil: Stencil, lanes: int, seed: int = 1) -> tuple[Any, np.ndarray]:
    """The compiled stencil and its input."""
    from tinygrad import dtypes

    import tg2hdl

    image = np.random.default_rng(seed).integers(0, stencil.highest + 1, stencil.size).astype(np.int8)
    options = tg2hdl.CompileOptions(unroll_factor=lanes)
    accelerator = tg2hdl.compile(
        lambda x: stencil.function(x.cast(dtypes.int32)).cast(dtypes.int32), image, options=options
    )
    return accelerator, image


def measure(stencil: Stencil, lanes: int, *, simulate: bool, seed: int = 1) -> dict[str, Any]:
    """Compile and, if asked for, simulate one stencil.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
    accelerator, image = accelerator_of(stencil, lanes, seed)
    wanted = stencil.function(image.astype(np.int32)).astype(np.int32)
    if simulate:
        result = accelerator.simulate(image)
        right = np.array_equal(result.output, wanted) and np.array_equal(wanted, accelerator.golden(image))
        if not right or result.cycles.compute != accelerator.predicted_cycles:
            raise SystemExit(f"WRONG: {stencil.name}, {stencil.size}, {lanes} lanes, seed {seed}")
    return {
        "case": f"{stencil.name}, {stencil.size[0]}x{stencil.size[1]}",
        "lanes": lanes,
        "work": wanted.size,
        "cycles": accelerator.predicted_cycles,
        "ratio": round(accelerator.predicted_cycles * lanes / wanted.size, 3),
        "notes": [note for kernel in accelerator.kernels for note in kernel.notes],
        "simulated": simulate,
    }


def random_stencil(rng: np.random.Generator) -> tuple[Stencil, int]:
    """Some neighbours in an image that may be too large for many ports, and lanes."""
    count = int(rng.integers(2, 9))
    places = [(int(r), int(c)) for r, c in rng.integers(0, 5, (count, 2))]
    taps = tuple(dict.fromkeys(places))
    size = (int(rng.integers(6, 60)), int(rng.integers(6, 60)))
    return Stencil(f"{taps}", size, lambda x: weighted(x, taps)), int(rng.integers(1, 6))


if __name__ == "__main__":
    HEAD = (
        "# Stencils",
        "",
        "Written by `python benchmarks/convolutions/stencils.py`: cycles x lanes / outputs from start to done, with",
        "`unroll_factor` lanes; 1 is the ideal. Rows and columns that fill lines of registers are not outputs.",
        "",
        "stencil",
        "outputs",
    )
    run(HERE / "stencils.json", __doc__, measure, STENCILS, LANES, random_stencil, HEAD)
