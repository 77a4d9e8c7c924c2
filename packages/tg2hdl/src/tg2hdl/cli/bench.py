"""``tg2hdl bench``: the table of cycles, bits, Fmax and utilization over the benchmark workloads."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tg2hdl.bench import BenchRow, load_workloads, measure, versions
from tg2hdl.cli.common import stage

__all__ = ["bench"]

_EPILOG = """\b
Examples:
  tg2hdl bench                               cycles and bits of all workloads, about two minutes
  tg2hdl bench --only mlp --synth            Fmax and utilization on an ECP5-45k too
  tg2hdl bench --synth --target ecp5 --seeds 3 -o build/bench.json
"""


@click.command(epilog=_EPILOG)
@click.argument("file", default="benchmarks/workloads.py", metavar="[FILE]")
@click.option("--only", multiple=True, metavar="TEXT", help="Only workloads whose name contains this.")
@click.option("--multipliers", multiple=True, type=int, help="Only cases with this budget.")
@click.option("--simulate/--no-simulate", default=True, show_default=True, help="Simulate and compare bits.")
@click.option("--synth", is_flag=True, help="Synthesize, place and route.")
@click.option("--part", default="ecp5-45k", show_default=True, help="Part for --synth.")
@click.option("--speed", default=6, show_default=True, help="Speed grade for --synth.")
@click.option("--seeds", default=1, show_default=True, help="Place-and-route runs for --synth.")
@click.option(
    "--target",
    type=click.Choice(["generic", "ecp5"]),
    default="generic",
    show_default=True,
    help="Family to compile for; ecp5 puts registers into block RAMs and multipliers.",
)
@click.option("--engine", default="auto", show_default=True, help="auto, cxxrtl, amaranth or a plugin's.")
@click.option("-o", "--output", metavar="FILE.json", help="Write the table as JSON, with versions and date.")
def bench(
    file: str,
    only: tuple[str, ...],
    multipliers: tuple[int, ...],
    simulate: bool,
    synth: bool,
    part: str,
    speed: int,
    seeds: int,
    target: str,
    engine: str,
    output: str | None,
) -> None:
    """Measure the benchmark workloads.

    FILE defines WORKLOADS. Each case is compiled, simulated and compared bit for bit with the golden model;
    --synth adds Fmax and utilization.
    """
    console = Console()
    synthesis = {"target": part, "speed": speed, "seeds": seeds, "pack_registers": target == "ecp5"}
    cases = [
        (workload, case)
        for workload in load_workloads(Path(file))
        if not only or any(text in workload.name for text in only)
        for case in workload.cases
        if not multipliers or case.multipliers in multipliers
    ]
    rows = []
    for number, (workload, case) in enumerate(cases, 1):
        with stage(console, f"{number} of {len(cases)}: {workload.name} x{case.multipliers}") as report:
            row = measure(
                workload,
                case,
                simulate=simulate,
                synthesize=synthesis if synth else None,
                target=target,
                engine=engine,
                report=report,
            )
        rows.append(row)
        if not console.is_terminal:
            console.print(_line(row), highlight=False)
    console.print(bench_table(rows, target))
    for row in rows:
        if row.refused:
            console.print(f"{row.workload} x{row.multipliers}: {row.refused}", highlight=False, markup=False)
    if output:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_document(rows), indent=2) + "\n")
        console.print(f"wrote {path}", highlight=False)


def bench_table(rows: list[BenchRow], target: str) -> Table:
    """Table of measured cases."""
    table = Table("workload", title=f"benchmarks, compiled for {target}", title_justify="left")
    for column in ("mult", "predicted", "simulated", "at most", "ideal", "bits", "ratio", "compile s"):
        table.add_column(column, justify="right")
    for column in ("Fmax", "COMB", "FF", "DSP", "BRAM", "us/result"):
        table.add_column(column, justify="right")
    table.add_column("peers")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: BenchRow) -> tuple[str, ...]:
    synthesis: dict[str, Any] = row.synthesis or {}
    bits = {True: "exact", False: "WRONG", None: ""}[row.exact]
    return (
        row.workload,
        str(row.multipliers or "auto"),
        _count(row.predicted) if row.predicted is not None else "refused",
        _count(row.simulated),
        _count(row.limit),
        _count(row.ideal),
        bits,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.compile_seconds is None else f"{row.compile_seconds:.1f}",
        f"{synthesis['fmax_mhz']:.0f}" if synthesis else "",
        *(_count(synthesis.get(kind)) for kind in ("comb", "ff", "dsp", "bram")),
        "" if row.microseconds is None else f"{row.microseconds:.1f}",
        "; ".join(row.peers),
    )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _line(row: BenchRow) -> str:
    return " | ".join(cell for cell in _cells(row)[:-1] if cell)


def _document(rows: list[BenchRow]) -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
        "rows": [row.to_dict() for row in rows],
    }
