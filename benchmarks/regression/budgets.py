"""Whether more multipliers are never slower: predicted cycles of random programs for budgets of 1 to 32.

    python benchmarks/regression/budgets.py                 300 programs, written to budgets.json and budgets.md
    python benchmarks/regression/budgets.py --programs 40   some of them, compared only
    python benchmarks/regression/budgets.py --seed 40       300 other programs, compared only

The status is 1 when a budget takes more cycles than a smaller one.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PROGRAMS = 300
SEED = 39


def recipes(count: int, number: int = SEED) -> list[Any]:
    """Random programs, always the same ones of a seed."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from tg2hdl_backend.testing.random_programs import Recipe
    from tg2hdl_backend.testing.random_programs import recipes as strategy

    found: dict[Recipe, None] = {}

    @seed(number)
    @settings(
        max_examples=4 * count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy())
    def draw(recipe: Recipe) -> None:
        found[recipe] = None

    draw()
    return list(found)[:count]


def cycles(recipe: Any) -> list[int | None]:
    """Predicted cycles for each budget; None where a step needs more multipliers."""
    from tg2hdl_backend import capture
    from tg2hdl_ir import Tg2hdlError
    from tg2hdl_top import CompileOptions, compile_program

    program, found = capture(recipe, *recipe.arrays()).program, []
    for budget in BUDGETS:
        try:
            options = CompileOptions(multipliers=budget, validate="off")
            found.append(compile_program(program, options).longest_cycles())
        except Tg2hdlError:
            found.append(None)
    return found


def slower(found: list[int | None]) -> list[tuple[int, int]]:
    """Pairs of budgets where the larger one takes more cycles."""
    known = [(budget, count) for budget, count in zip(BUDGETS, found, strict=True) if count is not None]
    return [(a, b) for n, (b, more) in enumerate(known) for a, fewer in known[:n] if fewer < more]


def main() -> int:
    """Compile all, and write the results of all programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="how many random programs")
    parser.add_argument("--seed", type=int, default=SEED, help="of the random programs")
    options = parser.parse_args()
    started = time.process_time()
    rows, wrong, compared = [], 0, 0
    for number, recipe in enumerate(recipes(options.programs, options.seed)):
        try:
            found = cycles(recipe)
        except Exception as error:  # a program that cannot be captured is not of this benchmark
            print(f"{number}: {type(error).__name__}: {error}", flush=True)
            continue
        compared += 1
        pairs = slower(found)
        wrong += bool(pairs)
        rows.append({"program": str(recipe.steps), "cycles": found})
        if pairs:
            print(f"{number}: {found}: {recipe}", flush=True)
    seconds = round(time.process_time() - started)
    print(
        f"{compared} programs, {len(BUDGETS)} budgets, {wrong} slower with more; {seconds} s of processor time"
    )
    if (options.programs, options.seed) == (PROGRAMS, SEED):
        write(rows, wrong, seconds)
    return int(bool(wrong) or not compared)


def write(rows: list[dict[str, Any]], wrong: int, seconds: int) -> None:
    """The results as JSON and as a table."""
    from tg2hdl.bench import json_text, versions

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {"date": today, "versions": versions(), "budgets": BUDGETS, "slower": wrong}
    (HERE / "budgets.json").write_text(json_text(record | {"programs": rows}))
    fewest = [
        sum(row["cycles"][n] == min(c for c in row["cycles"] if c is not None) for row in rows)
        for n in range(len(BUDGETS))
    ]
    lines = [
        "# More multipliers are never slower",
        "",
        f"Written by `python benchmarks/regression/budgets.py` on {today}: {len(rows)} random programs,",
        f"{wrong} of them slower with more multipliers; {seconds} s of processor time.",
        "",
        "| multipliers | programs with the fewest cycles of all budgets |",
        "|---|---|",
        *(f"| {budget} | {count} |" for budget, count in zip(BUDGETS, fewest, strict=True)),
        "",
        ", ".join(f"{name} {version}" for name, version in versions().items()),
        "",
    ]
    (HERE / "budgets.md").write_text("\n".join(lines))


if __name__ == "__main__":
    raise SystemExit(main())
