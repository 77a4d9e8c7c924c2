"""The command line that the benchmarks of this folder have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["run"]

Row = dict[str, Any]
Measure = Callable[..., Row]


def run(
    file: Path,
    description: str | None,
    measure: Measure,
    cases: Sequence[Any],
    parallel: Sequence[int],
    random_case: Callable[[np.random.Generator], tuple[Any, int]],
    head: Sequence[str],
) -> None:
    """Measure all cases with each number of lanes or multipliers, or some random ones, and record the former.

    Parameters
    ----------
    file : Path
        JSON file to write; Markdown goes beside it.
    measure : callable
        ``measure(case, parallel, simulate=, seed=)``; a row has `case`, `work` and `ratio`.
    head : sequence of str
        Lines above the table; the last two are the names of its first two columns.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="simulate those of the table")
    parser.add_argument("--random", type=int, default=0, help="random ones to simulate instead")
    parser.add_argument("--seed", type=int, default=1, help="of the random ones")
    options = parser.parse_args()
    from tg2hdl.bench import tools, write_results

    rng = np.random.default_rng(options.seed)
    for number in range(options.random):
        case, count = random_case(rng)
        row = measure(case, count, simulate=True, seed=options.seed + number)
        print(
            f"{number + 1} of {options.random}: {row['case']}, x{count}: {row['cycles']} cycles, right",
            flush=True,
        )
    if options.random:
        return
    lines: list[list[Row]] = []
    for case in cases:
        lines.append([measure(case, count, simulate=options.simulate) for count in parallel])
        ratios = (f"x{n} {r['ratio']:.2f}" for n, r in zip(parallel, lines[-1], strict=True))
        print(lines[-1][0]["case"], *ratios, flush=True)
    *text, first, second = head
    table = [
        *text,
        f"| {first} | {second} | " + " | ".join(f"x{n}" for n in parallel) + " |",
        "|---|---|" + "---|" * len(parallel),
    ]
    for line in lines:
        ratios = (f"{row['ratio']:.2f}" for row in line)
        table.append(f"| {line[0]['case']} | {line[0]['work']:,} | " + " | ".join(ratios) + " |")
    rows = [row for line in lines for row in line]
    write_results(file, {"rows": rows}, lambda record: "\n".join([*table, "", tools(record)]) + "\n")
