"""Accuracy of the elementary functions that any format has, of every operand or a random sample.

    python benchmarks/fp32/functions.py                    all rows
    python benchmarks/fp32/functions.py tanh pow           rows of these functions
    python benchmarks/fp32/functions.py --count 100000     size of a random sample [100000]

Each core is built without registers and simulated bit by bit. Formats of up to 16 bits have every operand of
functions of one operand; FP32 has a random sample, half of it uniform over the patterns and half near 1, and all
special values. References are double precision, and mpmath with 80 digits for FP64. Rows are merged into
functions.json, and functions.md is written.
"""

import argparse
import json
import math
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import mpmath
import numpy as np

import tg2hdl_fp32 as fp
from tg2hdl.bench import json_text
from tg2hdl_fp32.__main__ import OPERATIONS, make_core
from tg2hdl_fp32.testing import BitSlicedSimulation, special_patterns
from tg2hdl_fp32.testing.elementary import IN_DOUBLE_PRECISION, by_mpmath

HERE = Path(__file__).parent
RESULTS = HERE / "functions.json"
EXACT = by_mpmath()
FORMATS = ("FP8_E4M3", "FP8_E5M2", "FP16", "BF16", "FP32", "FP64")
#: Reduced with a table that is made for these formats.
NARROW = {"cos": ("FP16", "BF16", "FP32")}


def operands(format: fp.Format, arity: int, count: int) -> list[np.ndarray]:
    """Patterns: all, or special values and a random sample."""
    if arity == 1 and format.width <= 16:
        return [np.arange(1 << format.width, dtype=np.uint64)]
    rng = np.random.default_rng(47)
    special = np.array(special_patterns(format), np.uint64)
    grid = np.meshgrid(*[special] * arity)
    columns = []
    for k in range(arity):
        mask = np.uint64((1 << format.width) - 1)
        uniform = rng.integers(0, 1 << 63, count // 2, dtype=np.uint64) * np.uint64(2) & mask
        uniform ^= rng.integers(0, 2, count // 2, dtype=np.uint64)
        field = rng.integers(-4, 4, count // 2) + format.bias
        field = np.clip(field, 0, format.max_exponent_field).astype(np.uint64)
        low = uniform & np.uint64(format.sign_mask | (format.min_normal - 1))
        columns.append(np.concatenate([grid[k].ravel(), uniform, low | field << np.uint64(format.fraction)]))
    return columns


def values(format: fp.Format, bits: np.ndarray) -> np.ndarray:
    """Numbers as doubles."""
    with np.errstate(all="ignore"):
        return format.to_numpy(bits).astype(np.float64)


def errors(format: fp.Format, got: np.ndarray, exact: np.ndarray) -> tuple[float, int, int]:
    """Largest error in ULP and where; how many special values are wrong."""
    with np.errstate(all="ignore"):
        result, rounded = values(format, got), values(format, format.from_numpy(exact))
        same = (result == rounded) & (np.signbit(result) == np.signbit(rounded)) | np.isnan(
            result
        ) & np.isnan(rounded)
        number = np.isfinite(rounded) & np.isfinite(exact) & np.isfinite(result)
        exponent = np.clip(np.frexp(exact)[1] - 1, format.emin, format.emax)
        error = np.where(number, np.abs(result - exact) / 2.0 ** (exponent - format.fraction), 0.0)
        # Next to the limit of overflow, the neighbor of the rounded result is right within 1 ULP.
        limit = np.abs(exact) >= 2.0**format.emax * (2 - 2.0 ** (1 - format.fraction))
    worst = int(error.argmax())
    return float(error[worst]), worst, int((~same & ~number & ~limit).sum())


def errors_of_doubles(name: str, columns: list[np.ndarray], got: np.ndarray) -> tuple[float, int, int]:
    """The same for FP64, where results are finite numbers, with mpmath."""
    mpmath.mp.dps = 80
    worst, place, wrong = 0.0, 0, 0
    plain = IN_DOUBLE_PRECISION[name]
    rows = [fp.FP64.to_numpy(column) for column in columns]
    results = fp.FP64.to_numpy(got)
    with np.errstate(all="ignore"):
        rough = plain(*rows)
    for k, result in enumerate(results):
        if not (np.isfinite(rough[k]) and np.isfinite(result)) or rough[k] == 0:
            wrong += not (result == rough[k] or (np.isnan(result) and np.isnan(rough[k])))
            continue
        # mpmath has no negative zero: neither for a result, nor for the point (-0, 0), whose angle is pi.
        exact = abs(EXACT[name](*(mpmath.mpf(float(row[k])) for row in rows))) or mpmath.pi
        if np.signbit(rough[k]):
            exact = -exact
        exponent = max(math.frexp(float(exact))[1] - 1, fp.FP64.emin)
        error = float(abs(mpmath.mpf(float(result)) - exact) / mpmath.mpf(2) ** (exponent - fp.FP64.fraction))
        if error > worst:
            worst, place = error, k
    return worst, place, wrong


def measure(name: str, format: fp.Format, count: int) -> dict[str, object]:
    """One row."""
    core = make_core(name, format, "comb")
    arity = len(core.operands)
    wide = format is fp.FP64
    columns = operands(format, arity, min(count, 2000) if wide else count)
    got = []
    for low in range(0, len(columns[0]), 1 << 16):
        part = [column[low : low + (1 << 16)] for column in columns]
        simulation = BitSlicedSimulation(core, len(part[0]))
        for port, column in zip(core.operands, part, strict=True):
            simulation.set(port, column)
        got.append(simulation.get("result"))
    results = np.concatenate(got)
    if wide:
        worst, place, wrong = errors_of_doubles(name, columns, results)
    else:
        with np.errstate(all="ignore"):
            exact = IN_DOUBLE_PRECISION[name](*(values(format, column) for column in columns))
        worst, place, wrong = errors(format, results, exact)
    latency = {profile: make_core(name, format, profile).latency for profile in ("small", "balanced", "fast")}
    return {
        "operands": len(results),
        "every": arity == 1 and format.width <= 16,
        "max_ulp": round(worst, 4),
        "at": [hex(int(column[place])) for column in columns],
        "wrong_special_values": wrong,
        "latency": latency,
        "ii": 1,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def write_table(rows: dict[str, dict[str, object]]) -> None:
    """Write functions.md."""
    lines = [
        "# Accuracy and latency of the functions of any format",
        "",
        "Written by `python benchmarks/fp32/functions.py`. *Operands*: every one of the format, or the size of a",
        "random sample with all special values. *Wrong*: special values, infinities and NaN that differ from the",
        "reference. Latency in cycles of the profiles, portable build; II = 1 for all. All inputs of FP32, and all",
        "pairs of FP16, are in `exhaustive.md`.",
        "",
        "| function | format | operands | max ULP | at | wrong | small | balanced | fast | date |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in IN_DOUBLE_PRECISION:
        for format in FORMATS:
            row = rows.get(f"{name} {format}")
            if row is None:
                continue
            count = "every" if row["every"] else f"{row['operands']:,}"
            at = ", ".join(f"`{place}`" for place in row["at"])
            cycles = " | ".join(str(row["latency"][p]) for p in ("small", "balanced", "fast"))
            lines.append(
                f"| {name} | {format} | {count} | {row['max_ulp']:.4f} | {at} | {row['wrong_special_values']} "
                f"| {cycles} | {row['date']} |"
            )
    names = ("tg2hdl-fp32", "amaranth", "numpy", "mpmath")
    python = ".".join(map(str, sys.version_info[:3]))
    lines += ["", f"python {python}, " + ", ".join(f"{name} {version(name)}" for name in names)]
    RESULTS.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Measure the rows and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("functions", nargs="*", help=", ".join(IN_DOUBLE_PRECISION))
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    options = parser.parse_args()
    unknown = set(options.functions) - set(IN_DOUBLE_PRECISION)
    if unknown:
        parser.error(f"unknown function {', '.join(sorted(unknown))}; use {', '.join(IN_DOUBLE_PRECISION)}")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = False
    for name in options.functions or IN_DOUBLE_PRECISION:
        assert name in OPERATIONS
        for format in options.formats:
            if format in NARROW.get(name, FORMATS):
                row = measure(name, fp.FORMATS[format], options.count)
                rows[f"{name} {format}"] = row
                failed |= row["max_ulp"] >= 1 or row["wrong_special_values"] > 0
                print(
                    f"{name} {format}: {row['max_ulp']} ULP, {row['wrong_special_values']} wrong", flush=True
                )
                RESULTS.write_text(json_text(rows))
                write_table(rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
