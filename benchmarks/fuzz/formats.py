"""Every float core in formats of random widths, against exact fractions, in all five rounding modes.

Usage: python benchmarks/fuzz/formats.py [--formats 250] [--seed 0] [--count 300]

Each format has 2 to 11 bits of exponent and 2 to 40 of significand, with or without infinities; its cores have a random
profile.  The elementary functions exist in FP32, FP16 and BF16 only and are refused by name in others.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from record import HERE, write_record

import tg2hdl_fp32 as fp
from tg2hdl_fp32 import Format, RoundingMode
from tg2hdl_fp32.testing import check_unit, reference, vectors
from tg2hdl_fp32.testing.simulation import BitSlicedSimulation

WANTED = 250
PROFILES = ("comb", "small", "balanced", "fast")
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge", "ord", "uno", "ueq", "one")
VARIANTS = ("minimum", "maximum", "minimumNumber", "maximumNumber", "select_min", "select_max")


def random_format(rng: random.Random) -> Format:
    """Return a format of at most 51 bits, with few exponents as often as with many."""
    return Format(rng.randint(2, 11), rng.randint(2, 40), finite=rng.random() < 0.25)


def checks(f: Format, rng: random.Random, count: int) -> Iterator[tuple[str, int, int, str]]:
    """Yield the name of each core with its results, those that are wrong, and an example of them."""
    mode, profile = rng.choice(list(RoundingMode)), rng.choice(PROFILES)
    rounded: dict[str, Any] = {"profile": profile, "rounding": rng.choice([mode, "dynamic"])}
    saturate = rng.random() < 0.3
    units: list[tuple[str, Any, dict[str, Any]]] = []
    for operation, core in (
        ("add", fp.Add),
        ("sub", fp.Sub),
        ("mul", fp.Mul),
        ("div", fp.Div),
        ("fma", fp.Fma),
    ):
        units.append((operation, core(f, saturate=saturate, **rounded), {"saturate": saturate}))
    units += [("sqrt", fp.Sqrt(f, **rounded), {}), ("round", fp.RoundToIntegral(f, **rounded), {})]
    units += [("neg", fp.Neg(f, profile=profile), {}), ("abs", fp.Abs(f, profile=profile), {})]
    predicate, variant = rng.choice(PREDICATES), rng.choice(VARIANTS)
    units.append(("compare", fp.Compare(f, predicate, profile=profile), {"predicate": predicate}))
    units.append(("minmax", fp.MinMax(f, variant, profile=profile), {"variant": variant}))
    shape = {"width": rng.randint(2, 64), "signed": rng.random() < 0.5}
    whole = shape | {"overflow": rng.choice(("saturate", "wrap"))}
    units.append(("float_to_int", fp.FloatToInt(f, **whole, **rounded), whole))
    other = {"result": random_format(rng)}
    units.append(("float_to_float", fp.FloatToFloat(f, **other, **rounded), other))
    for operation, unit, parameters in units:
        operands = vectors(
            f, len(unit.operands), count, seed=rng.getrandbits(30), specials=len(unit.operands) < 3
        )
        yield compared(operation, unit, f, mode, operands, parameters)

    constant = int(vectors(f, 1, 1, seed=rng.getrandbits(30), specials=False)[0][0])
    operands = vectors(f, 1, count, seed=rng.getrandbits(30))
    unit = fp.MulConstant(f, constant, **rounded)
    yield compared(
        "mul by a constant",
        unit,
        f,
        mode,
        operands,
        {},
        lambda a: reference("mul", f, a, constant, rounding=mode),
    )

    width, signed = shape["width"], shape["signed"]
    low = -(1 << width - 1) if signed else 0
    integers = np.array(
        [low + rng.getrandbits(width) for _ in range(count)], np.int64 if signed else np.uint64
    )
    unit = fp.IntToFloat(f, width, signed, **rounded)
    yield compared("int_to_float", unit, f, mode, (integers,), shape)

    for operation, core in (("div", fp.IterativeDiv), ("sqrt", fp.IterativeSqrt)):
        yield iterated(operation, core(f, rounding=rounded["rounding"]), f, mode, count, rng)


def compared(
    operation: str,
    unit: Any,
    f: Format,
    mode: RoundingMode,
    operands: Any,
    parameters: Any,
    expected: Any = None,
) -> tuple[str, int, int, str]:
    """Stream operands through a pipelined core, with pauses."""
    name = operation if expected is not None else type(unit).__name__
    key = operation if expected is None else "mul"
    found = check_unit(unit, key, f, rounding=mode, operands=operands, expected=expected, **parameters)
    return name, found.vectors, found.wrong, f"{unit.profile} {mode} {parameters} {found.examples[:1]}"


def iterated(
    operation: str, unit: Any, f: Format, mode: RoundingMode, count: int, rng: random.Random
) -> tuple[str, int, int, str]:
    """Start an iterative core in many lanes at once."""
    columns = vectors(f, len(unit.operands), count, seed=rng.getrandbits(30))
    simulation = BitSlicedSimulation(unit, len(columns[0]))
    for name, column in zip(unit.operands, columns, strict=True):
        simulation.set(name, column)
    if unit.dynamic:
        simulation.set("rm", mode.value)
    simulation.set("start", 1)
    simulation.tick()
    simulation.set("start", 0)
    simulation.tick(unit.latency - 1)
    got = simulation.get("result")
    rows = list(zip(*(map(int, column) for column in columns), strict=True))
    wanted = np.array([reference(operation, f, *row, rounding=mode) for row in rows], np.uint64)
    wrong = np.flatnonzero(got != wanted)
    example = f"{mode} {[hex(v) for v in rows[wrong[0]]]}" if len(wrong) else ""
    return type(unit).__name__, len(rows), len(wrong), example


def main() -> None:
    """Check random formats, print each fault, and record the counts of a whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", type=int, default=WANTED, help="random formats")
    parser.add_argument(
        "--count", type=int, default=300, help="random operands for each core, beside the special ones"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*created but never used")
    started, results, wrong, errors = time.monotonic(), Counter[str](), Counter[str](), 0
    for number in range(options.formats):
        rng = random.Random(f"{options.seed} {number}")
        f = random_format(rng)
        try:
            for name, total, bad, example in checks(f, rng, options.count):
                results[name] += total
                wrong[name] += bad
                if bad:
                    print(f"{name} of {f}, format {number}: {bad} of {total} wrong, {example}", flush=True)
        except Exception as error:  # a fuzzer counts whatever a core raises
            errors += 1
            print(f"format {number}, {f}: {type(error).__name__}: {error}", flush=True)
        if number % 20 == 19:
            print(f"{number + 1} formats, {results.total():,} results, {wrong.total()} wrong", flush=True)
    totals = {
        "formats": options.formats,
        "results": results.total(),
        "wrong": wrong.total(),
        "errors": errors,
        "seconds": round(time.monotonic() - started),
    }
    print(totals)
    if options.formats >= WANTED:
        rows = {name: f"{total:,} results, {wrong[name]} wrong" for name, total in sorted(results.items())}
        title = "Float cores in formats of random widths, against exact fractions"
        write_record(HERE / "formats.json", title, "python benchmarks/fuzz/formats.py", totals, by_core=rows)
    sys.exit(bool(wrong.total() or errors))


if __name__ == "__main__":
    main()
