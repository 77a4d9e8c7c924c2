"""Compare random programs: golden model with tinygrad's interpreter, or simulated hardware with the golden model.

    python benchmarks/soak/random_programs.py --kernels 5000
    python benchmarks/soak/random_programs.py --hardware --kernels 500 --integers

A mismatch is reduced to a small program and printed; the command then goes on with the next seed, and fails at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from record import write_record

from tg2hdl_backend.testing import compare_with_interpreter
from tg2hdl_backend.testing.random_programs import Recipe, recipes
from tg2hdl_ir.errors import SimulationError, Tg2hdlError

BATCH = 50
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


class Soak:
    def __init__(self, hardware: bool, integers: bool, engine: str) -> None:
        self.hardware, self.engine = hardware, engine
        self.types = {"types": INTEGERS} if integers else {}
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.wrong: list[str] = []

    def check(self, recipe: Recipe) -> None:
        try:
            with np.errstate(all="ignore"):
                if self.hardware:
                    from tg2hdl_backend.testing.hardware import compare_with_hardware

                    hardware = compare_with_hardware(recipe, *recipe.arrays(), engine=self.engine)
                    self.counts["kernels"] += hardware.kernels
                    self.counts["cycles"] += hardware.cycles
                    mismatches = list(hardware.mismatches)
                else:
                    result = compare_with_interpreter(recipe, *recipe.arrays(), ulp=2)
                    self.counts["kernels"] += result.kernels
                    self.counts["skipped kernels"] += result.skipped
                    mismatches = result.mismatches
        except SimulationError:
            raise
        except Tg2hdlError as error:
            self.counts["refused"] += 1
            self.refusals[str(error).splitlines()[0]] += 1
            return
        self.counts["programs"] += 1
        if mismatches:
            raise AssertionError("; ".join(mismatches))

    def batch(self, number: int) -> None:
        found: list[Recipe] = []

        @seed(number)
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            print_blob=False,
        )
        @given(recipes(**self.types))
        def property_holds(recipe: Recipe) -> None:
            found[:] = [recipe]
            self.check(recipe)

        try:
            property_holds()
        except Exception as error:
            line = f"{found[0]!r}: {type(error).__name__}: {error}"
            self.wrong.append(line)
            print("WRONG " + line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=5000, help="kernels to compare")
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--hardware", action="store_true", help="simulate the hardware")
    parser.add_argument("--integers", action="store_true", help="integer types only")
    parser.add_argument("--engine", default="amaranth", help="simulation engine (default: amaranth)")
    parser.add_argument("--json", type=Path, help="write the totals to this file")
    options = parser.parse_args()
    soak = Soak(options.hardware, options.integers, options.engine)
    started, number = time.perf_counter(), options.seed
    while soak.counts["kernels"] < options.kernels and time.perf_counter() - started < options.seconds:
        soak.batch(number)
        number += 1
        totals = ", ".join(f"{n} {k}" for k, n in soak.counts.items())
        print(f"seed {number - 1}: {totals}, {len(soak.wrong)} wrong", flush=True)
    for reason, count in soak.refusals.most_common():
        print(f"refused {count} times: {reason}")
    if options.json:
        write_record(
            options.json,
            {**soak.counts, "wrong": len(soak.wrong)},
            hardware=options.hardware,
            integers=options.integers,
            seeds=[options.seed, number - 1],
            refusals=soak.refusals,
            wrong=soak.wrong,
        )
    return int(bool(soak.wrong))


if __name__ == "__main__":
    sys.exit(main())
