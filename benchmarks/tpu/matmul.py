"""Products of int8 matrices and convolutions of tinygrad on the device TINYTPU: matrix unit and vector unit.

    python benchmarks/tpu/matmul.py [-o benchmarks/tpu/matmul.md]

The same programs run with sums of products on the matrix unit and with all on the vector unit; every result is
compared with numpy.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ |= {"DEV": "TINYTPU", "NOOPT": "1"}

import numpy as np
from tinygrad import Tensor, dtypes

from tg2hdl_tpu.device import compile as compiler
from tg2hdl_tpu.device import runtime
from tg2hdl_tpu.device.products import Stages
from tg2hdl_tpu.profile import recorded

RNG = np.random.default_rng(0)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def wide(t: Tensor) -> Tensor:
    return t.cast(dtypes.int32)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), w.shape[2:], (2, 3))
    return np.einsum("bcyxij,ocij->boyx", windows, w.astype(np.int32))


CASES = {
    "64x64 by 64x64": ("matmul", int8(64, 64), int8(64, 64)),
    "1x64 by 64x32": ("matmul", int8(1, 64), int8(64, 32)),
    "130x300 by 300x70": ("matmul", int8(130, 300), int8(300, 70)),
    "64x64 by 32x64 transposed": ("linear", int8(64, 64), int8(32, 64)),
    "1x64 by 32x64 transposed": ("linear", int8(1, 64), int8(32, 64)),
    "1x1 convolution, 16 to 16 channels, 16x16": ("conv2d", int8(1, 16, 16, 16), int8(16, 16, 1, 1)),
    "3x3 convolution, 8 to 16 channels, 18x18": ("conv2d", int8(1, 8, 18, 18), int8(16, 8, 3, 3)),
}
FORMS = {
    "matmul": (lambda x, w: wide(x) @ wide(w), lambda x, w: x.astype(np.int32) @ w.astype(np.int32)),
    "linear": (lambda x, w: wide(x) @ wide(w).T, lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T),
    "conv2d": (lambda x, w: wide(x).conv2d(wide(w)), convolved),
}


def measured(form: str, x: np.ndarray, w: np.ndarray, *, traced: int) -> tuple[int, float]:
    """Cycles of a program whose result is that of numpy, and the share in which the matrix unit multiplies."""
    model, expected = FORMS[form]
    inputs = [Tensor(a).realize() for a in (x, w)]
    runtime.compiled.cache_clear()
    with recorded(traced) as found:
        result = model(*inputs).numpy()
    np.testing.assert_array_equal(result, expected(x, w))
    cycles = sum(p.result.cycles for p in found)
    rows = sum(p.facts()["roofline"]["matrix_unit"] * p.facts()["profiled_cycles"] for p in found)
    return cycles, rows / cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = [
        "# Products of tinygrad on TINYTPU",
        "",
        "`python benchmarks/tpu/matmul.py -o benchmarks/tpu/matmul.md`: int8 tensors cast to int32, on the",
        "machine of the device (4x4 products and 16 lanes a cycle); every result is that of numpy. *Busy* is",
        "the share of the cycles in which the matrix unit multiplies a row; the limit is that of 16 products",
        "a cycle. Copies and rounded-up sizes take the rest.",
        "",
        "| | products | vector unit, cycles | matrix unit, cycles | times | busy | of the limit |",
        "|---|---|---|---|---|---|---|",
    ]
    split = compiler.split_products
    for name, (form, x, w) in CASES.items():
        products = x.size * w.shape[-1 if form == "matmul" else 0]
        if form == "conv2d":
            products = w.size * (x.shape[2] - w.shape[2] + 1) * (x.shape[3] - w.shape[3] + 1)
        cycles, busy = measured(form, x, w, traced=1 << 20)
        compiler.split_products = lambda kernel, *_: Stages((kernel,))
        try:
            before, _ = measured(form, x, w, traced=1)
        finally:
            compiler.split_products = split
        shares = f"{100 * busy:.0f} % | {100 * products / 16 / cycles:.0f} %"
        lines.append(
            f"| {name} | {products:,} | {before:,} | {cycles:,} | {before / cycles:.1f} | {shares} |"
        )
        print(lines[-1], flush=True)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
