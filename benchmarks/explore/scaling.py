"""How an exploration scales with workers: simulated from the measured times and sizes of its tasks.

    python benchmarks/explore/scaling.py                 measured again, written to scaling.json and scaling.md
    python benchmarks/explore/scaling.py --simulate      simulated again from the measured tasks of scaling.json

Tasks are started in their order as workers become free.  Each passes through the client: its data go over one link, one
after the other, and starting a task takes the client a fixed time.  Plans come before estimates, as in an exploration;
tasks of plans are ladders, cut into parts as for that many workers.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from front import MODELS, PART  # noqa: E402

from tg2hdl.bench import tools, write_results  # noqa: E402
from tg2hdl.exploration.explore import explore  # noqa: E402
from tg2hdl_ir.workers import Workers  # noqa: E402

MODEL = "MLP 64-32-10 int8"
BUDGETS = (1, 2, 4, 6, 8, 12, 16)
WORKERS = (1, 2, 4, 8, 16, 32, 64, 100)
LINK = 100e6
"""Bytes per second between the client and the workers: less than a link of 1 Gbit/s carries."""
START = 0.005
"""Time that the client takes for a task (s); Dask says 1 ms for its scheduler."""
LADDERS = 3
"""Ladders of the space: one for each schedule."""


class Timed(Workers):
    """Workers of this process that measure their tasks."""

    tasks: list[dict[str, Any]] = []

    def run(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], shared: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Number and result of each item."""
        for number, item in enumerate(items):
            sent = len(pickle.dumps(item))
            started = time.process_time()
            result = function(shared, item)
            seconds = time.process_time() - started
            size = sent + len(pickle.dumps(result))
            self.tasks.append({"phase": function.__name__.strip("_"), "seconds": seconds, "bytes": size})
            yield number, result


def measured() -> list[dict[str, Any]]:
    """Phase, processor seconds and bytes of each task."""
    shape, make = MODELS[MODEL]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TG2HDL_CACHE_DIR"] = cache
        sys.modules[explore.__module__].Workers = Timed  # type: ignore[attr-defined]
        explore(make(), np.zeros(shape, np.int8), part=PART, space={"multipliers": BUDGETS})
    return Timed.tasks


def parts(plans: list[dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    """Plans of ladders that follow one another, in the tasks of an exploration with so many workers."""
    each = len(plans) // LADDERS
    count = min(each, -(-2 * workers // LADDERS))
    found = []
    for first in range(0, len(plans), each):
        ladder = plans[first : first + each]
        for n in range(count):
            mine = ladder[n::count]
            found.append({name: sum(t[name] for t in mine) for name in ("seconds", "bytes")})
    return found


def simulated(tasks: list[dict[str, Any]], workers: int) -> float:
    """Seconds until the last result."""
    free, link, end = [0.0] * workers, 0.0, 0.0
    for task in tasks:
        ready = heapq.heappop(free)
        link = max(link, ready) + START + task["bytes"] / LINK
        heapq.heappush(free, link + task["seconds"])
        end = max(end, link + task["seconds"])
    return end


def rows(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Seconds, speed-up and bottleneck by workers."""
    plans = [t for t in tasks if t["phase"] == "plan"]
    estimates = [t for t in tasks if t["phase"] == "estimate"]
    found: list[dict[str, Any]] = []
    for workers in WORKERS:
        phases = {"plans": parts(plans, workers), "estimates": estimates}
        seconds = {name: simulated(each, workers) for name, each in phases.items()}
        longest = {name: max(t["seconds"] for t in each) for name, each in phases.items()}
        total = sum(seconds.values())
        busy = sum(t["seconds"] for each in phases.values() for t in each) / workers
        waits = {f"the longest task of {name}": longest[name] / total for name in phases}
        waits["work"] = busy / total
        sent = sum(START + t["bytes"] / LINK for each in phases.values() for t in each)
        waits["the client's link"] = sent / total
        found.append(
            {
                "workers": workers,
                "seconds": round(total, 1),
                "speed_up": round((found[0]["seconds"] if found else total) / total, 2),
                "bottleneck": max(waits, key=lambda name: waits[name]),
                "share": round(max(waits.values()), 2),
            }
        )
    return found


def main() -> None:
    """Measure, simulate, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="take the measured tasks of scaling.json")
    options = parser.parse_args()
    path = HERE / "scaling.json"
    tasks = json.loads(path.read_text())["tasks"] if options.simulate else measured()
    write_results(path, {"model": MODEL, "part": PART, "rows": rows(tasks), "tasks": tasks}, table)
    print(path.with_suffix(".md").read_text())


def table(record: dict[str, Any]) -> str:
    """Markdown of the results."""
    tasks = record["tasks"]
    sizes = [t["bytes"] for t in tasks]
    lines = [
        "# An exploration on many workers",
        "",
        f"Simulated by `python benchmarks/explore/scaling.py` on {record['date']} from the {len(tasks)} tasks of an",
        f"exploration of the {MODEL} for {PART} with {len(BUDGETS)} budgets, one after the other:",
        f"{sum(t['seconds'] for t in tasks):.0f} processor seconds, {max(sizes) / 1e3:.0f} kB for the largest task.",
        f"The client takes {1e3 * START:.0f} ms for a task, its link carries {LINK / 1e6:.0f} MB/s. The bottleneck is",
        "what takes the largest share of the time. A ladder that is cut into parts shares fewer plans, which is left",
        "out.",
        "",
        "| workers | seconds | speed-up | bottleneck | its share |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['workers']} | {r['seconds']:.1f} | {r['speed_up']:.2f} | {r['bottleneck']} | {r['share']:.0%} |"
        for r in record["rows"]
    ]
    return "\n".join([*lines, "", tools(record), ""])


if __name__ == "__main__":
    main()
