"""Scans, scatters, transforms, layers and networks: cycles beside the bound that an expert would state.

    python benchmarks/programs/run.py                    all rows
    python benchmarks/programs/run.py --only cumsum      some of them; the others stay as they were
    python benchmarks/programs/run.py --simulate 40000   simulate rows of at most so many cycles

The golden result is compared with numpy's: integers exactly, floats relative to the largest element. Simulated results
must equal the golden ones bit for bit, in the predicted cycles. Results go to programs.json and programs.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "programs.json"
TOLERANCE = 1e-4
"""Largest difference of a float result, relative to the largest element."""


def measure(program: Any, case: Any, longest: int) -> dict[str, Any]:
    """Compile a program, compare it with numpy, and perhaps simulate it.

    Raises
    ------
    SystemExit
        When a bit or the number of cycles is wrong.
    """
    import tg2hdl

    function, reference = program.make()
    inputs = program.inputs(np.random.default_rng(0))
    began = time.process_time()
    options = tg2hdl.CompileOptions(multipliers=case.multipliers, **case.options)
    accelerator = tg2hdl.compile(function, *inputs, options=options, name="program")
    seconds = time.process_time() - began
    golden = accelerator.golden(*inputs)
    difference = _difference(golden, np.asarray(reference(*inputs)))
    if difference > (TOLERANCE if golden.dtype.kind == "f" else 0):
        sys.exit(f"WRONG: {program.name}: the golden result differs from numpy's by {difference}")
    cycles, simulated = accelerator.predicted_cycles, None
    if cycles <= longest:
        run = accelerator.simulate(*inputs)
        if not np.array_equal(run.output, golden, equal_nan=True):
            sys.exit(f"WRONG: {program.name}: other bits than the golden model's")
        if (simulated := run.cycles.compute) != cycles:
            sys.exit(f"WRONG: {program.name}: {simulated} cycles, {cycles} predicted")
    return {
        "program": program.name,
        "multipliers": case.multipliers,
        "options": case.options,
        "first": case.first,
        "cycles": cycles,
        "simulated": simulated,
        "bound": case.bound,
        "why": program.why,
        "kernels": len(accelerator.design.core_plans),
        "seconds": round(seconds, 1),
        "difference": difference,
    }


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        sys.exit(f"results of {a.shape} and {b.shape}")
    worst = float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64))))
    return worst / float(np.max(np.abs(b))) if a.dtype.kind == "f" else worst


def table(record: dict[str, Any]) -> str:
    """Markdown of all rows."""
    lines = [
        "# Programs beside the bound of an expert",
        "",
        "Written by `python benchmarks/programs/run.py --simulate 40000`. *bound* are the least cycles, by the reason",
        "in the last column, in which `x` stands for the multipliers; *first* are the cycles when a row was first",
        "measured. Every golden result equals numpy's (floats within 1e-4 of the largest element). Rows with `=` were",
        "simulated: the bits of the golden model, in the predicted cycles.",
        "",
        "| program | x | options | first | cycles | | bound | ratio | cores | plan CPU s | bound by |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in record["rows"]:
        options = ", ".join(f"{k}={v}" for k, v in r["options"].items() if k != "target")
        first = f"{r['first']:,}" if r["first"] else ""
        lines.append(
            f"| {r['program']} | {r['multipliers']} | {options} | {first} | {r['cycles']:,} "
            f"| {'=' if r['simulated'] else ''} | {r['bound']:,} | {r['cycles'] / r['bound']:.2f} "
            f"| {r['kernels']} | {r['seconds']} | {r['why']} |"
        )
    from programs import PROGRAMS

    from tg2hdl.bench import tools

    known = {_key(r["program"], r["multipliers"], r["options"]) for r in record["rows"]}
    missing = [
        f"{p.name} x{c.multipliers}" + ", relaxed" * ("float_order" in c.options)
        for p in PROGRAMS
        for c in p.cases
        if _key(p.name, c.multipliers, c.options) not in known
    ]
    lines += ["", f"Not measured: {'; '.join(missing)}."] if missing else []
    return "\n".join([*lines, "", tools(record)]) + "\n"


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", type=int, default=0, help="longest run that is simulated (cycles)")
    parser.add_argument("--only", default="", help="part of a program's name")
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from programs import PROGRAMS

    from tg2hdl.bench import write_results

    keys = [_key(p.name, c.multipliers, c.options) for p in PROGRAMS for c in p.cases]
    for program in PROGRAMS:
        for case in program.cases if given.only.lower() in program.name.lower() else ():
            row = measure(program, case, given.simulate)
            before = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
            rows = {_key(r["program"], r["multipliers"], r["options"]): r for r in before}
            rows[_key(program.name, case.multipliers, case.options)] = row
            write_results(RESULTS, {"rows": [rows[key] for key in keys if key in rows]}, table)
            print(
                f"{program.name} x{case.multipliers}: {row['cycles']:,} (bound {case.bound:,}), "
                f"{'simulated, ' if row['simulated'] else ''}{row['seconds']} s",
                flush=True,
            )


def _key(name: str, multipliers: int | None, options: dict[str, Any]) -> str:
    return json.dumps([name, multipliers, options], sort_keys=True)


if __name__ == "__main__":
    main()
