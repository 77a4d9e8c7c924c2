"""The kernels of `tg2hdl tpu bench`: programs with random data, and the results of numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_tpu.assembler import assemble
from tg2hdl_tpu.bundle import Bundle, Region
from tg2hdl_tpu.config import Config

__all__ = ["KERNELS", "RESULTS", "Kernel", "make_kernel"]

Words = NDArray[np.int32]

#: First row of the results, in the second bank; operands begin at row 0.
RESULTS = 512


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    Parameters
    ----------
    name : str
    elements : int
        Length of an operand; products of a matrix product.
    bundle : Bundle
        Program, data, and the output ``r``.
    expected : ndarray of int32
        By numpy.
    found : callable
        Takes the rows of the output to the result.
    """

    name: str
    elements: int
    bundle: Bundle
    expected: Words
    found: Callable[[Words], Words]


def _words(rng: np.random.Generator, *shape: int) -> Words:
    return rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)


def _add(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    a, b = _words(rng, n), _words(rng, n)
    rows = n // 16
    return n, f"add v[512], v[0], v[{rows}], n={rows}", [a, b], a + b, rows, np.ravel


def _relu(rng: np.random.Generator) -> tuple[Any, ...]:
    a = _words(rng, 64)
    return 64, "copy v[512], v[0], n=4 relu", [a], np.maximum(a, 0), 4, np.ravel


def _reshape(rng: np.random.Generator) -> tuple[Any, ...]:
    a = _words(rng, 64)
    return 64, "copy v[512], v[0], n=4", [a], a.reshape(8, 8), 4, lambda r: r.reshape(8, 8)


def _sum(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    a = _words(rng, n)
    total = a.sum(dtype=np.int64).astype(np.int32)
    return n, f"copy v[512], v[0], n={n // 16} acc reduce=add levels=15", [a], total, 1, lambda r: r[0, 0]


def _rowsum(rng: np.random.Generator) -> tuple[Any, ...]:
    a = _words(rng, 8, 8)
    # Two rows of the matrix in a row of the scratchpad: their sums go to a segment of two lanes.
    text = "copy v[4096], v[0], n=4 reduce=add levels=7 pack seg=2"
    expected = a.sum(1, dtype=np.int64).astype(np.int32)
    return 64, text, [a], expected, 1, lambda r: r[0, :8]


def _colsum(rng: np.random.Generator) -> tuple[Any, ...]:
    a = _words(rng, 8, 8)
    text = "copy v[512], v[0], n=4 acc reduce=add levels=8"
    expected = a.sum(0, dtype=np.int64).astype(np.int32)
    return 64, text, [a], expected, 1, lambda r: r[0, :8]


def _gemm(rng: np.random.Generator, m: int, k: int) -> tuple[Any, ...]:
    a, w = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, 4))
    # Bytes of one row: tiles of W from byte 0, then A by blocks of four columns.
    blocks = a.reshape(m, k // 4, 4).transpose(1, 0, 2)
    row = np.zeros(64, np.int8)
    row[: 4 * k] = w.ravel()
    row[4 * k : 4 * k + m * k] = blocks.ravel()
    at = k  # the segment of four bytes where A begins
    text = [f"tile v[0], mxu8\ncopy v[2048], v[{at}], n={m} mxu8 seg=4"]
    for tile in range(1, k // 4):
        # Sums up to now lie in lanes of one row, so that `b` is the same row for all of A's rows.
        text.append(f"tile v[{tile}], mxu8\nadd v[2048], v[{at + m * tile}], v[512:0], n={m} mxu8 seg=4")
    rows = max(1, m // 4)
    return (
        m * k * 4,
        "\n".join(text),
        [row.view(np.int32)],
        (a @ w).astype(np.int32),
        rows,
        lambda r: r.reshape(-1, 4)[:m],
    )


_MAKE: dict[str, Callable[[np.random.Generator], tuple[Any, ...]]] = {
    "add_16": lambda rng: _add(rng, 16),
    "add_256": lambda rng: _add(rng, 256),
    "relu_64": _relu,
    "reshape_64": _reshape,
    "sum_16": lambda rng: _sum(rng, 16),
    "sum_256": lambda rng: _sum(rng, 256),
    "rowsum_8x8": _rowsum,
    "colsum_8x8": _colsum,
    "gemm_1x4x4": lambda rng: _gemm(rng, 1, 4),
    "gemm_4x4x4": lambda rng: _gemm(rng, 4, 4),
    "gemm_4x8x4": lambda rng: _gemm(rng, 4, 8),
}

#: Names in the order of the table.
KERNELS = tuple(_MAKE)


def make_kernel(name: str, config: Config) -> Kernel:
    """Return a kernel, with random data, for a machine of 16 lanes and a 4x4 matrix unit.

    Parameters
    ----------
    name : str
        One of `KERNELS`.
    config : Config
        16 lanes and a matrix unit of 4x4; sizes of memories and registers are free.

    Raises
    ------
    ValueError
        For another name.
    """
    rng = np.random.default_rng([0, KERNELS.index(name)])
    with np.errstate(over="ignore"):
        elements, text, data, expected, rows, found = _MAKE[name](rng)
    program = assemble(f"{text}\nhalt\n.out r vmem {RESULTS} {rows}\n", config, name=name)
    rows = np.concatenate([np.ravel(part) for part in data]).reshape(-1, config.lanes).astype(np.int32)
    bundle = Bundle(config, program.program, (Region("vmem", 0, rows),), program.outputs)
    return Kernel(name, elements, bundle, np.asarray(expected), found)
