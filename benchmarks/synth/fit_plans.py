"""Compare the LUTs that decisions estimate from plans with those of placed designs, and fit their costs.

    python benchmarks/synth/fit_plans.py             all integer and float workloads of benchmarks/table
    python benchmarks/synth/fit_plans.py gemv mlp    those whose names have one of these words

Prints estimate and placed LUTs of each row, the ratio, and costs for `LUTS` of tg2hdl_top.area that fit them better.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import numpy as np
from scipy.optimize import lsq_linear

import tg2hdl
from tg2hdl.bench import load_workloads
from tg2hdl_top.area import LUTS, estimated_luts, planned_words

HERE = Path(__file__).parent
LOWEST, HIGHEST = 0.1, 4.0
"""LUTs for a bit."""


def main(words: list[str]) -> None:
    """Compile each row of the table of the family ECP5, and print."""
    workloads = {w.name: w for w in load_workloads(HERE.parent / "workloads.py")}
    counts, placed = [], []
    for row in json.loads((HERE.parent / "table/ecp5.json").read_text())["rows"]:
        workload = workloads.get(row["workload"])
        if workload is None or not row.get("synthesis") or not any(w in workload.name for w in words or [""]):
            continue
        case = next((c for c in workload.cases if (c.multipliers or 0) == (row["multipliers"] or 0)), None)
        if case is None:
            continue
        options = {
            "target": "ecp5",
            "validate": "off",
            "multipliers": case.multipliers or None,
            **case.options,
        }
        inputs = workload.inputs(np.random.default_rng(1))
        design = tg2hdl.compile(workload.model(), *inputs, options=tg2hdl.CompileOptions(**options)).design
        found, luts = estimated_luts(design), row["synthesis"]["comb"]
        counts.append([planned_words(design)[kind] for kind in LUTS])
        placed.append(luts)
        print(
            f"{workload.name:32} {case.multipliers or 0:4} {found:7,} {luts:7,} {found / luts:5.2f}",
            flush=True,
        )
    matrix, wanted = np.array(counts, float), np.array(placed, float)
    errors = np.abs(matrix @ np.array(list(LUTS.values())) / wanted - 1)
    fitted = lsq_linear(matrix / wanted[:, None], np.ones(len(wanted)), (LOWEST, HIGHEST)).x
    better = np.abs(matrix @ fitted / wanted - 1)
    print(f"median error {median(errors):.0%}; with the costs below {median(better):.0%}")
    print({kind: round(float(cost), 2) for kind, cost in zip(LUTS, fitted, strict=True)})


if __name__ == "__main__":
    main(sys.argv[1:])
