"""``tg2hdl bench``: the table of cycles, bits, Fmax and utilization over the benchmark workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD

from tg2hdl.bench import BenchRow, load_workloads, measure, merge_document
from tg2hdl.bench.table import COLUMNS, cells, peer_lines
from tg2hdl.cli.common import stage
from tg2hdl.cli.families import ENGINE, FAMILY, PART, part_for
from tg2hdl.cli.output import check_file, consoles, with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl_ir import InputError, SimulationError

__all__ = ["bench"]

_EPILOG = """\b
Examples:
  tg2hdl bench                               cycles and bits of all workloads, about two minutes
  tg2hdl bench --only mlp --synth            Fmax and utilization on an ECP5-45k too
  tg2hdl bench --synth --family ecp5 --seeds 3 -o build/bench.json
"""


@click.command(epilog=_EPILOG)
@click.argument("file", default="benchmarks/workloads.py", metavar="[FILE]")
@click.option("--only", multiple=True, metavar="TEXT", help="Only workloads whose name contains this.")
@click.option("--multipliers", multiple=True, type=int, help="Only cases with this budget.")
@click.option("--simulate/--no-simulate", default=True, show_default=True, help="Simulate and compare bits.")
@click.option("--synth", is_flag=True, help="Synthesize, place and route.")
@click.option("--part", type=PART, help="Part for --synth.  [default: ecp5-45k, or the first of --family]")
@click.option("--speed", default=6, show_default=True, help="Speed grade for --synth.")
@click.option("--seeds", default=1, show_default=True, help="Place-and-route runs for --synth.")
@click.option(
    "--family",
    type=FAMILY,
    default="generic",
    show_default=True,
    help="FPGA family to compile for; ecp5 puts registers into block RAMs and multipliers.",
)
@click.option("--engine", type=ENGINE, default="auto", show_default=True, help="Simulation engine.")
@click.option("-o", "--output", metavar="FILE.json", help="Merge the rows into a JSON table, and FILE.md.")
@with_json
def bench(
    file: str,
    only: tuple[str, ...],
    multipliers: tuple[int, ...],
    simulate: bool,
    synth: bool,
    part: str | None,
    speed: int,
    seeds: int,
    family: str,
    engine: str,
    output: str | None,
    json_file: str | None,
) -> None:
    """Measure the benchmark workloads.

    FILE defines WORKLOADS. Each case is compiled, simulated and compared bit for bit with the golden model;
    --synth adds Fmax, utilization and the estimate. The exit status is 1 when a bit or the number of
    cycles is wrong. With -o a run can be continued: rows that it does not measure stay as they are.
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_file(output, ".json")
    synthesis = {"part": part_for(family, part), "speed": speed, "seeds": seeds}
    workloads = load_workloads(Path(file))
    cases = [
        (workload, case)
        for workload in workloads
        if not only or any(text in workload.name for text in only)
        for case in workload.cases
        if not multipliers or case.multipliers in multipliers
    ]
    if not cases:
        raise InputError(
            f"{file} has no such workload, or none with these multipliers",
            hint="its workloads are: " + ", ".join(workload.name for workload in workloads),
        )
    rows = []
    for number, (workload, case) in enumerate(cases, 1):
        with stage(progress, f"{number} of {len(cases)}: {workload.name} x{case.multipliers}") as report:
            row = measure(
                workload,
                case,
                simulate=simulate,
                synthesize=synthesis if synth else None,
                family=family,
                engine=engine,
                report=report,
            )
        rows.append(row)
        if output:
            merge_document(Path(output), rows, [w.name for w in workloads])
        if not console.is_terminal:
            console.print(" | ".join(text for text in cells(row.to_dict()) if text), highlight=False)
    for table in bench_tables(rows, family):
        console.print(table)
    for row in rows:
        for line in [row.refused or "", *peer_lines(row.to_dict())]:
            if line:
                console.print(f"{row.workload} x{row.multipliers}: {line}", highlight=False, markup=False)
    if output:
        console.print(f"wrote {output}", highlight=False)
    write_json(json_file, [row.to_dict() for row in rows])
    _check(rows)


def bench_tables(rows: list[BenchRow], family: str) -> Iterator[Table]:
    """Cycles of measured cases, then the results of synthesis: each fits 80 columns, without those that are empty."""
    texts = [cells(row.to_dict()) for row in rows]
    split = COLUMNS.index("Fmax")
    parts = {f"benchmarks, compiled for {family}": range(2, split), "synthesis": range(split, len(COLUMNS))}
    for title, columns in parts.items():
        shown = [column for column in columns if any(row[column] for row in texts)]
        if not shown:
            continue
        table = Table(COLUMNS[0], title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in (1, *shown):
            table.add_column(COLUMNS[column].replace(" ", "\n"), justify="right", no_wrap=True)
        for row in texts:
            table.add_row(row[0], row[1], *(row[column] for column in shown))
        yield table


def _check(rows: list[BenchRow]) -> None:
    wrong = tuple(f"{row.workload} x{row.multipliers}: {row.wrong}" for row in rows if row.wrong)
    if wrong:
        raise SimulationError(
            f"{len(wrong)} of {len(rows)} rows are wrong", notes=wrong, hint="please report this"
        )
