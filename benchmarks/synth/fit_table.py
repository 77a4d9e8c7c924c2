"""Fit the estimate before synthesis to the benchmark table, and print its errors.

    python benchmarks/synth/fit_table.py             print
    python benchmarks/synth/fit_table.py --update    print, and put the estimates of this state into the table

Every row of benchmarks/table that was placed and routed is compiled again, which takes some minutes. Prints the
costs, for `LUTS` in tg2hdl_synth.families.ecp5.estimate, the error of LUTs for workloads that are left out of the fit,
and the errors of block RAMs and of the clock.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

import tg2hdl
from tg2hdl.bench import json_text, load_workloads
from tg2hdl.bench.table import markdown
from tg2hdl_synth import estimate_design, part_named
from tg2hdl_synth.estimate import convert
from tg2hdl_synth.families.ecp5.estimate import LUTS, memory_area
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.soft_multipliers import soft_products
from tg2hdl_synth.words import count_words

HERE = Path(__file__).parent
PART = part_named("ecp5-45k")
KINDS = (*LUTS, "soft product", "memory")
LOWEST = np.array([1.0, 0.8, 0.5, 0.3, 0.1, 0.3, 0.3, 0.1, 0.05, 0.3, 1.0])
HIGHEST = np.array([1.6, 2.4, 2.0, 0.9, 0.6, 1.2, 1.0, 1.0, 0.5, 1.1, 1.3])
ROUNDS = 40
SMALLEST_ERROR = 0.02


def rows(
    documents: dict[str, dict[str, Any]],
) -> Iterator[tuple[str, bool, list[float], dict[str, Any], Any]]:
    """Workload, whether registers are in blocks, bits by kind, what synthesis found, and the estimate."""
    workloads = {w.name: w for w in load_workloads(HERE.parent / "workloads.py")}
    for family, document in documents.items():
        packed = family == "ecp5"
        for row in document["rows"]:
            workload = workloads.get(row["workload"])
            cases = workload.cases if workload else ()
            case = next((c for c in cases if (c.multipliers or 0) == (row["multipliers"] or 0)), None)
            if workload is None or case is None or not row.get("synthesis"):
                continue
            options = {"target": family, **case.options}
            if case.multipliers:
                options["multipliers"] = case.multipliers
            inputs = workload.inputs(np.random.default_rng(1))
            accelerator = tg2hdl.compile(workload.model(), *inputs, options=tg2hdl.CompileOptions(**options))
            text = convert(accelerator.top)
            design = read_rtlil(text)
            modules = count_words(design)
            bits = sum((words.bits for words in modules.values()), Counter[str]())
            soft = sum(p.widths[0] * p.widths[1] for p in soft_products(design, PART.dsp))
            memories = (m for words in modules.values() for m in words.memories.values() if m.reads)
            luts = sum(memory_area(m).lut for m in memories)
            estimate = estimate_design(accelerator.top, PART, text, pack_registers=packed)
            yield row["workload"], packed, [*(bits[k] for k in LUTS), soft, luts], row["synthesis"], estimate


def fitted(contents: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Costs with the smallest sum of relative errors."""
    weights = 1 / found
    costs = lsq_linear(contents * weights[:, None], found * weights, (LOWEST, HIGHEST)).x
    for _ in range(ROUNDS):
        errors = np.maximum(np.abs(contents @ costs - found) / found, SMALLEST_ERROR)
        scale = 1 / found / np.sqrt(errors)
        costs = lsq_linear(contents * scale[:, None], found * scale, (LOWEST, HIGHEST)).x
    return np.asarray(costs)


def main() -> None:
    """Print costs and errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="store the estimates in benchmarks/table")
    update = parser.parse_args().update
    documents = {family: json.loads(_path(family).read_text()) for family in ("generic", "ecp5")}
    samples = list(rows(documents))
    contents = np.array([s[2] for s in samples], float)
    found = np.array([s[3]["comb"] for s in samples], float)
    costs = fitted(contents, found)
    print(", ".join(f"{kind} {cost:.2f}" for kind, cost in zip(KINDS, costs, strict=True)))
    print(f"LUTs of these workloads: {median(np.abs(contents @ costs / found - 1)):.1%}")
    left_out: list[float] = []
    for name in {s[0] for s in samples}:
        others = np.array([s[0] != name for s in samples])
        predicted = contents[~others] @ fitted(contents[others], found[others])
        left_out += list(np.abs(predicted / found[~others] - 1))
    print(f"LUTs of workloads that are left out: median {median(left_out):.1%}, largest {max(left_out):.0%}")
    for packed in (False, True):
        for label, real, estimated in (
            ("LUTs", "comb", "comb"),
            ("flip-flops", "ff", "ff"),
            ("block RAMs", "bram", "bram"),
            ("clock", "fmax_mhz", "fmax"),
        ):
            pairs = [(s[3][real], getattr(s[4], estimated)) for s in samples if s[1] == packed]
            errors = [abs(guess / value - 1) for value, guess in pairs if value]
            where = "in blocks" if packed else "outside"
            print(f"{label}, registers {where}: median {median(errors):.1%}, largest {max(errors):.0%}")
    if update:
        for *_, found_by_synthesis, estimate in samples:
            found_by_synthesis["estimate"] = asdict(estimate)
        for family, document in documents.items():
            _path(family).write_text(json_text(document))
            _path(family).with_suffix(".md").write_text(markdown(document["rows"]))


def _path(family: str) -> Path:
    return HERE.parent / "table" / f"{family}.json"


if __name__ == "__main__":
    main()
