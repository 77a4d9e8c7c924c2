"""Processor time of planning and of Verilog, beside that of another checkout: the rows of the benchmark table.

    python benchmarks/compile/against.py CHECKOUT                  CHECKOUT/.venv has its packages
    python benchmarks/compile/against.py CHECKOUT --rounds 5 --only fp32

The checkouts take turns, each case in a process of its own with an empty cache.  A small model of the same type is
compiled first, so that no import is counted; Yosys is.  Both compile the models of the other checkout's
`benchmarks/workloads.py`, with its options.  The least time of all rounds counts; rows are merged into against.json and
against.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEYS = ("plan", "verilog")


def _rows(path: Path) -> list[tuple[Any, Any]]:
    from tg2hdl.bench import load_workloads

    return [(w, case) for w in load_workloads(path) for case in w.cases]


def measure(path: Path, name: str, multipliers: int) -> dict[str, float]:
    """Plan and write Verilog once, in this process."""
    import numpy as np

    import tg2hdl

    (workload, case) = next((w, c) for w, c in _rows(path) if (w.name, c.multipliers) == (name, multipliers))
    inputs = workload.inputs(np.random.default_rng(1))
    warm = inputs[0].reshape(-1)[:8]
    tg2hdl.compile(lambda x: x * x + 1, warm, options=tg2hdl.CompileOptions(target="ecp5")).verilog()
    options = tg2hdl.CompileOptions(multipliers=multipliers or None, target="ecp5", **case.options)
    model = workload.model()
    started = time.process_time()
    accelerator = tg2hdl.compile(model, *inputs, options=options)
    planned = time.process_time()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    accelerator.verilog()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    tools = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"plan": planned - started, "verilog": time.process_time() - planned + tools}


def run(checkout: Path, arguments: list[str]) -> Any:
    """Output of this file in the environment of a checkout, with a cache of its own."""
    with tempfile.TemporaryDirectory() as cache:
        result = subprocess.run(
            [str(checkout / ".venv/bin/python"), str(Path(__file__).resolve()), *arguments],
            env={
                "YOWASP_CACHE_DIR": str(Path.home() / ".cache/YoWASP"),
                **os.environ,
                "XDG_CACHE_HOME": cache,
                "CACHEDB": f"{cache}/tinygrad.db",
            },
            check=True,
            stdout=subprocess.PIPE,
        )
    return json.loads(result.stdout.splitlines()[-1])


def table(found: dict[str, Any]) -> str:
    """Results as Markdown."""
    lines = [
        "# Compile times beside an earlier state",
        "",
        f"Written by `python benchmarks/compile/against.py CHECKOUT` with CHECKOUT at {found['before']}: seconds of",
        "processor time, the least of so many rounds in turns.",
        "",
        "| workload | mult | plan before | plan now | Verilog before | Verilog now | ratio | commit | rounds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in found["rows"]:
        cells = " | ".join(f"{r[side][key]:.2f}" for key in KEYS for side in ("before", "now"))
        lines.append(
            f"| {r['workload']} | {r['multipliers'] or 'auto'} | {cells} | {_ratio([r], *KEYS):.2f} "
            f"| {r['commit']} | {r['rounds']} |"
        )
    means = {
        what: _ratio(found["rows"], *keys) for what, keys in (("both", KEYS), *((k, (k,)) for k in KEYS))
    }
    total = [sum(r[side][key] for r in found["rows"] for key in KEYS) for side in ("before", "now")]
    lines += [
        "",
        "Geometric mean of the ratios: "
        + ", ".join(f"{what} {value:.2f}" for what, value in means.items())
        + ".",
        f"All rows: {total[0]:.1f} s before, {total[1]:.1f} s now.",
        "",
        ", ".join(f"{n} {v}" for n, v in found["versions"].items()),
    ]
    return "\n".join(lines) + "\n"


def _ratio(rows: list[dict[str, Any]], *keys: str) -> float:
    """Geometric mean of now / before."""
    ratios = [sum(r["now"][k] for k in keys) / sum(r["before"][k] for k in keys) for r in rows]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _commit(checkout: Path) -> str:
    command = ["git", "log", "-1", "--format=%h of %cs"]
    return subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    parser.add_argument("--case", nargs=2, metavar=("NAME", "MULTIPLIERS"), help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    workloads = options.checkout / "benchmarks/workloads.py"
    if options.list:
        print(json.dumps([(w.name, case.multipliers) for w, case in _rows(workloads)]))
        return
    if options.case:
        print(json.dumps(measure(workloads, options.case[0], int(options.case[1]))))
        return
    from tg2hdl.bench import json_text, versions

    sides = {"before": options.checkout.resolve(), "now": HERE.parents[1]}
    checkout = str(sides["before"])
    every = run(sides["before"], [checkout, "--list"])
    names = [row for row in every if options.only in f"{row[0]} x{row[1]}"]
    path = HERE / "against.json"
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in earlier:
        rows[row.pop("workload"), row.pop("multipliers")] = row
    best: dict[tuple[tuple[str, int], str], dict[str, float]] = {}
    for number in range(options.rounds):
        for name, multipliers in names:
            for side, root in sides.items():
                found = run(root, [checkout, "--case", name, str(multipliers)])
                least = best.get(((name, multipliers), side), found)
                best[(name, multipliers), side] = {k: round(min(found[k], least[k]), 3) for k in KEYS}
            print(
                number, name, multipliers, {s: best[(name, multipliers), s] for s in sides}, file=sys.stderr
            )
            row = {s: best[(name, multipliers), s] for s in sides}
            rows[name, multipliers] = row | {"commit": _commit(sides["now"]), "rounds": number + 1}
            ordered = [(w, m) for w, m in map(tuple, every) if (w, m) in rows]
            found = {
                "before": _commit(sides["before"]),
                "versions": versions(),
                "rows": [{"workload": w, "multipliers": m, **rows[w, m]} for w, m in ordered],
            }
            path.write_text(json_text(found))
            (HERE / "against.md").write_text(table(found))


if __name__ == "__main__":
    main()
