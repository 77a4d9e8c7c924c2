"""Time and memory from a tinygrad model to RTLIL, and the size of the RTLIL, over the number of multipliers.

    python benchmarks/compile/run.py                 MLP and CNN of the benchmark table, all sizes
    python benchmarks/compile/run.py --only "mlp"    some workloads

Each case runs in a process of its own. The time is that of the processor from the call of `tg2hdl.compile` to the text,
imports excluded; the memory is the highest of the whole process. Results go to compile.json and compile.md beside
this file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "compile.json"
WORKLOADS = HERE.parent / "workloads.py"
#: Seconds and megabytes that a design of 128 multipliers may take.
LIMIT = {"seconds": 10.0, "megabytes": 1000.0}
MULTIPLIERS = {"mlp int8": (1, 2, 4, 8, 16, 32, 64, 128), "cnn int8": (9, 36, 72, 144)}


def measure(workload: str, multipliers: int) -> dict[str, Any]:
    """Compile once, in this process."""
    import numpy as np

    import tg2hdl
    from tg2hdl.bench import load_workloads, versions

    (found,) = [w for w in load_workloads(WORKLOADS) if w.name == workload]
    inputs = found.inputs(np.random.default_rng(1))
    model = found.model()
    wall, processor = time.perf_counter(), time.process_time()
    accelerator = tg2hdl.compile(model, *inputs, multipliers=multipliers)
    text = accelerator.rtlil()
    seconds, passed = time.process_time() - processor, time.perf_counter() - wall
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "workload": workload,
        "multipliers": multipliers,
        "seconds": round(seconds, 2),
        "wall_seconds": round(passed, 2),
        "megabytes": round(kilobytes / 1024, 1),
        "rtlil_bytes": len(text),
        "logic_bytes": len(text)
        - sum(len(line) for line in text.splitlines() if line.startswith("    connect \\DATA ")),
        "cycles": accelerator.predicted_cycles,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# From tinygrad to RTLIL",
        "",
        "Written by `python benchmarks/compile/run.py`: processor time of `tg2hdl.compile` and of the conversion to",
        "RTLIL, imports excluded; highest memory of the process; size of the text, and without memory contents.",
        f"At 128 multipliers at most {LIMIT['seconds']:.0f} s and {LIMIT['megabytes']:.0f} MB are wanted.",
        "",
        "| workload | multipliers | s | MB | RTLIL kB | logic kB | logic kB per multiplier | cycles | date |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        logic = r["logic_bytes"] / 1000
        lines.append(
            f"| {r['workload']} | {r['multipliers']} | {r['seconds']:.2f} | {r['megabytes']:.0f} "
            f"| {r['rtlil_bytes'] / 1000:,.0f} | {logic:,.0f} | {logic / r['multipliers']:.1f} "
            f"| {r['cycles']:,} | {r['date']} |"
        )
    tools = dict.fromkeys(", ".join(f"{n} {v}" for n, v in r["versions"].items()) for r in rows)
    return "\n".join([*lines, "", *tools]) + "\n"


def main() -> None:
    """Measure and record; the exit status is 1 when the limit is exceeded."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    options = parser.parse_args()
    results = (
        {(r["workload"], r["multipliers"]): r for r in json.loads(RESULTS.read_text())}
        if RESULTS.exists()
        else {}
    )
    context = multiprocessing.get_context("spawn")
    exceeded = False
    for workload, sizes in MULTIPLIERS.items():
        if options.only not in workload:
            continue
        for multipliers in sizes:
            with context.Pool(1) as pool:
                row = pool.apply(measure, (workload, multipliers))
            print({k: v for k, v in row.items() if k != "versions"}, flush=True)
            exceeded |= multipliers <= 128 and any(row[k] > limit for k, limit in LIMIT.items())
            results[workload, multipliers] = row
            rows = [
                results[name, size]
                for name in MULTIPLIERS
                for size in MULTIPLIERS[name]
                if (name, size) in results
            ]
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            (HERE / "compile.md").write_text(table(rows))
    raise SystemExit(int(exceeded))


if __name__ == "__main__":
    main()
