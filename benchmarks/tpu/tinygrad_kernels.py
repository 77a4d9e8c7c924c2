"""Kernels written in tinygrad on the device TINYTPU: cycles from start to halt, DMA included.

    python benchmarks/tpu/tinygrad_kernels.py [-o benchmarks/tpu/tinygrad_kernels] [--only NAME ...]

Each program runs twice: with ``DEV=TINYTPU``, and with ``Tensor(..., device="TINYTPU")`` in a process whose default is
another device.  Every result is compared with numpy.  ``-o`` writes a table (.md) and the figures (.json).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_tpu.bench import geomean


def words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


def packed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def whole(x: Any) -> Any:
    return x.cast("int32")


def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A sum of products in the order of the loops, each rounded."""
    total = np.zeros((len(x), w.shape[1]), x.dtype)
    for k in range(len(w)):
        total += x[:, k : k + 1] * w[k]
    return total


def depthwise(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), (2, 3))
    return np.einsum("bcyxij,cij->bcyx", windows, w[:, 0].astype(np.int32))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


def _sum(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    return x.sum(axis, dtype=np.int64).astype(np.int32)


def _gemm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x.astype(np.int32) @ w.astype(np.int32)


Case = tuple[
    Callable[..., Any],
    Callable[..., np.ndarray],
    list[tuple[Callable[..., np.ndarray], tuple[int, ...]]],
    int,
]

#: Program in tinygrad, in numpy, operands, and elements: the length of an operand, or the products.
KERNELS: dict[str, Case] = {
    "add_16": (lambda a, b: a + b, np.add, [(words, (16,))] * 2, 16),
    "add_256": (lambda a, b: a + b, np.add, [(words, (256,))] * 2, 256),
    "relu_64": (lambda a: a.relu(), lambda a: np.maximum(a, 0), [(words, (64,))], 64),
    "reshape_64": (lambda a: a.reshape(8, 8) + 0, lambda a: a.reshape(8, 8), [(words, (64,))], 64),
    "sum_16": (lambda a: a.sum(), _sum, [(words, (16,))], 16),
    "sum_256": (lambda a: a.sum(), _sum, [(words, (256,))], 256),
    "rowsum_8x8": (lambda a: a.sum(1), lambda a: _sum(a, 1), [(words, (8, 8))], 64),
    "colsum_8x8": (lambda a: a.sum(0), lambda a: _sum(a, 0), [(words, (8, 8))], 64),
    "gemm_1x4x4": (lambda a, b: whole(a) @ whole(b), _gemm, [(packed, (1, 4)), (packed, (4, 4))], 16),
    "gemm_4x4x4": (lambda a, b: whole(a) @ whole(b), _gemm, [(packed, (4, 4)), (packed, (4, 4))], 64),
    "gemm_4x8x4": (lambda a, b: whole(a) @ whole(b), _gemm, [(packed, (4, 8)), (packed, (8, 4))], 128),
}
PROGRAMS: dict[str, Case] = {
    "sum of 256": (lambda a: a.sum(), _sum, [(words, (256,))], 256),
    "rows of 64x64": (lambda a: a.sum(1), lambda a: _sum(a, 1), [(words, (64, 64))], 4096),
    "softmax 8x64": (lambda a: a.softmax(), softmax, [(floats, (8, 64))], 512),
    "max of 4,096 fp32": (lambda a: a.max(), lambda a: a.max(), [(floats, (4096,))], 4096),
    "fp32 16x64 by 64x32": (lambda a, b: a @ b, product, [(floats, (16, 64)), (floats, (64, 32))], 32768),
    "int32 16x64 by 64x32": (lambda a, b: a @ b, product, [(words, (16, 64)), (words, (64, 32))], 32768),
    "depthwise int8 3x3, 16 channels": (
        lambda a, b: whole(a).conv2d(whole(b), groups=16),
        depthwise,
        [(packed, (1, 16, 16, 16)), (packed, (16, 1, 3, 3))],
        16 * 14 * 14 * 9,
    ),
}


def measure(device: str | None, names: list[str]) -> dict[str, int]:
    """Cycles of programs whose results are those of numpy."""
    from tinygrad import Tensor

    from tg2hdl_tpu.device.runtime import LoadedKernel

    cycles: list[int] = []
    run = LoadedKernel.run

    def counted(*arguments: Any) -> Any:
        result = run(*arguments)
        cycles.append(result.cycles)
        return result

    LoadedKernel.run = counted  # type: ignore[method-assign]
    found = {}
    for name, (model, expected, operands, _) in (KERNELS | PROGRAMS).items():
        if name not in names:
            continue
        rng = np.random.default_rng(0)
        arrays = [make(rng, *shape) for make, shape in operands]
        inputs = [Tensor(a, device=device).realize() for a in arrays]
        cycles.clear()
        result = model(*inputs).numpy()
        with np.errstate(over="ignore"):
            wanted = expected(*arrays)
        if name.startswith("softmax"):
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
        else:
            np.testing.assert_array_equal(result, wanted)
        found[name] = sum(cycles)
    if LAYERS in names:
        found[LAYERS] = layers(device, cycles)
    LoadedKernel.run = run  # type: ignore[method-assign]
    return found


LAYERS = "two int8 layers 16x256 by 256x256 on one input: the second, third call"


def layers(device: str | None, cycles: list[int]) -> int:
    """Cycles of the second of two layers of the same shape that read one input, whose weights were copied before."""
    from tinygrad import Tensor

    rng = np.random.default_rng(0)
    q, k = (packed(rng, 256, 256) for _ in "qk")
    weights = [Tensor(w, device=device).realize() for w in (q, k)]
    for _ in range(3):
        x = packed(rng, 16, 256)
        t = Tensor(x, device=device).realize()
        for w, values in zip(weights, (q, k), strict=True):
            cycles.clear()
            result = (whole(t) @ whole(w).T).numpy()
            np.testing.assert_array_equal(result, _gemm(x, values.T))
    return sum(cycles)


def facts(default: dict[str, int], given: dict[str, int]) -> dict[str, Any]:
    """The figures as JSON has them."""
    per_cycle = {
        way: round(geomean(KERNELS[n][3] / found[n] for n in KERNELS if n in found), 3)
        for way, found in (("DEV", default), ("device", given))
        if all(n in found for n in KERNELS)
    }
    return {
        "date": date.today().isoformat(),
        "versions": {p: version(p) for p in ("tinygrad", "numpy")},
        "cycles": {n: {"DEV": default[n], "device": given[n]} for n in default},
        "elements": {n: (KERNELS | PROGRAMS)[n][3] for n in default if n != LAYERS},
        "geomean_of_kernels": per_cycle,
    }


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    versions = ", ".join(f"{p} {v}" for p, v in found["versions"].items())
    lines = [
        "# Kernels written in tinygrad, on TINYTPU",
        "",
        f"`python benchmarks/tpu/tinygrad_kernels.py -o benchmarks/tpu/tinygrad_kernels`, {found['date']}, {versions}:",
        "cycles on the device's machine (16 lanes, a row is written two cycles after its issue), from start to halt:",
        "tensors lie in external memory, so that DMA is part of it. *DEV* is `DEV=TINYTPU`, *device* is",
        '`Tensor(..., device="TINYTPU")`. Each result is that of numpy.',
        "",
        "| | elements | cycles, DEV | cycles, device | elements/cycle, DEV |",
        "|---|---|---|---|---|",
    ]
    for name, cycles in found["cycles"].items():
        elements = found["elements"].get(name)
        rate = "" if elements is None else f"{elements / cycles['DEV']:.2f}"
        shown = "" if elements is None else f"{elements:,}"
        lines.append(f"| {name} | {shown} | {cycles['DEV']:,} | {cycles['device']:,} | {rate} |")
    if found["geomean_of_kernels"]:
        rates = found["geomean_of_kernels"]
        lines.append(
            f"| geometric mean of the 11 kernels | | | | **{rates['DEV']:.2f}** ({rates['device']:.2f}) |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="+", default=[*KERNELS, *PROGRAMS, LAYERS])
    parser.add_argument("--print", action="store_true", help="figures of this process, as JSON")
    options = parser.parse_args()
    if options.print:
        print(json.dumps(measure(None if os.environ.get("DEV") else "TINYTPU", options.only)))
        return
    found = []
    for dev in ("TINYTPU", ""):
        env = {k: v for k, v in os.environ.items() if k not in ("DEV", "DEBUG", "NOOPT")} | (
            {"DEV": dev} if dev else {}
        )
        done = subprocess.run(
            [sys.executable, __file__, "--print", "--only", *options.only],
            env=env,
            stdout=subprocess.PIPE,
            check=True,
        )
        found.append(json.loads(done.stdout))
    figures = facts(*found)
    print(table(figures), end="")
    if options.output:
        from tg2hdl.bench import json_text

        options.output.with_suffix(".md").write_text(table(figures))
        options.output.with_suffix(".json").write_text(json_text(figures))


if __name__ == "__main__":
    main()
