"""How long an exploration takes until its whole front is known.

    python benchmarks/explore/front.py                   all models, written to front.json and front.md
    python benchmarks/explore/front.py --only cnn        some of them, added to the written ones

Each exploration runs in this process with an empty cache.  Processor seconds do not depend on what else the machine
does; on two free cores `--workers 2` takes half of them and the start of two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import workloads  # noqa: E402

import tg2hdl  # noqa: E402
from tg2hdl.bench import tools, write_results  # noqa: E402

PART = "ecp5-45k"
MODELS = {
    "MLP 64-32-10 int8": ((1, 64), lambda: _small()),
    "CNN 8x8 int8": ((1, 1, 8, 8), workloads.cnn),
    "MLP 784-128-10 int8": ((1, 784), workloads.mlp),
}
"""Shape of the int8 input, and the model."""


def _small() -> Any:
    w1, w2 = workloads._weights(1, 64, 32), workloads._weights(2, 32, 10)

    def model(x: Any) -> Any:
        hidden = workloads._requantize(x.cast("int32") @ w1.cast("int32"), 9)
        return hidden.cast("int32") @ w2.cast("int32")

    return model


def measured(name: str) -> dict[str, Any]:
    """A row of the table."""
    shape, make = MODELS[name]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TG2HDL_CACHE_DIR"] = cache
        started = time.process_time()
        found = tg2hdl.explore(make(), np.zeros(shape, np.int8), part=PART)
        seconds = time.process_time() - started
        started = time.process_time()
        found.report()
        page = time.process_time() - started
    return {
        "model": name,
        "designs": len(found.points),
        "estimated": sum(p.figures.is_estimated for p in found.points),
        "front": len(found.pareto),
        "best_cycles": found.best.cycles,
        "best": found.best.label,
        "processor_seconds": round(seconds, 1),
        "page_processor_seconds": round(page, 1),
    }


def table(record: dict[str, Any]) -> str:
    """Markdown of the results."""
    rows = record["rows"]
    lines = [
        "# Time to the front",
        "",
        f"Written by `python benchmarks/explore/front.py` on {record['date']}, for {PART}, with an empty cache.",
        "Processor seconds of one process, for all designs of the space; the page takes its designs from the",
        "exploration.",
        "",
        "| model | designs | estimated | on the front | fewest cycles | with | processor seconds | page |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['model']} | {r['designs']} | {r['estimated']} | {r['front']} | {r['best_cycles']:,} | {r['best']} | "
        f"{r['processor_seconds']:.0f} | {r['page_processor_seconds']:.0f} |"
        for r in rows
    ]
    if missing := [name for name in MODELS if name not in {row["model"] for row in rows}]:
        lines += ["", f"Not measured in this run: {', '.join(missing)}."]
    return "\n".join([*lines, "", tools(record), ""])


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    path = HERE / "front.json"
    rows = {r["model"]: r for r in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for name in MODELS:
        if options.only in name:
            rows[name] = measured(name)
            print(json.dumps(rows[name]), flush=True)
            found = [rows[n] for n in MODELS if n in rows]
            write_results(path, {"part": PART, "rows": found}, table)


if __name__ == "__main__":
    main()
