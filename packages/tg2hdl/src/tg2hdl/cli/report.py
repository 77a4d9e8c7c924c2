"""``tg2hdl report``: everything about a compiled model in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tg2hdl.cli.common import ModelCommand, compile_file, stage, with_model_options
from tg2hdl.cli.families import ENGINE, PART, complete_file, part_for
from tg2hdl.cli.inputs import run_inputs, with_input_options
from tg2hdl.cli.output import check_file, consoles, with_json, write_json
from tg2hdl.report import build_report, gather_facts, read_facts
from tg2hdl.report.sweep import PART as DEFAULT_PART
from tg2hdl.trace import write_trace
from tg2hdl_ir import InputError

__all__ = ["report"]

_EPILOG = """\b
Examples:
  tg2hdl report model.py -o report.html            plan, memories, and a simulated run
  tg2hdl report model.py --synth --part ecp5-45k   area by kernel, Fmax and critical path too
  tg2hdl report model.py --multipliers 16 --against report.json -o wider.html
  tg2hdl report a.py --against b.py                two models side by side
  tg2hdl report model.py --trace run.trace.json    a trace for ui.perfetto.dev
"""


@click.command(cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option("-o", "--output", metavar="FILE.html", help="The report.  [default: NAME.report.html]")
@click.option(
    "--against",
    metavar="FILE",
    shell_complete=complete_file,
    help="Show another design next to it: the .json of its report, or a model, compiled with the same options.",
)
@with_input_options
@click.option("--simulate/--no-simulate", default=True, show_default=True, help="Simulate a run.")
@click.option("--engine", type=ENGINE, default="auto", show_default=True, help="Simulation engine.")
@click.option("--trace", metavar="FILE.json", help="Write the run as a trace for Perfetto or Chrome.")
@click.option("--synth", is_flag=True, help="Synthesize, place and route.")
@click.option(
    "--part",
    type=PART,
    help="Part for --synth and for estimates.  [default: ecp5-45k, or the first of --family]",
)
@click.option(
    "--sweep",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Plan the design with other numbers of multipliers, for at most this time; 0 leaves the slider out.",
)
@click.option("--seeds", default=1, show_default=True, help="Place-and-route runs for --synth.")
@with_json
def report(
    output: str | None,
    against: str | None,
    data: tuple[str, ...],
    seed: int | None,
    variables: tuple[str, ...],
    simulate: bool,
    engine: str,
    trace: str | None,
    synth: bool,
    part: str | None,
    sweep: float,
    seeds: int,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Write a report of a model: one HTML file that needs nothing else.

    Shows the graph of the model, whose nodes open their kernels, what is busy in each cycle, a slider over multipliers,
    memories, area and the numbers of a run; its figures go to a .json file beside it, for --against.
    """
    _, console = consoles()
    earlier = None
    if against is not None and (against.endswith(".json") or not Path(against).exists()):
        earlier = read_facts(against)
    target = None if output is None else check_file(output, ".html", ".htm")
    if trace is not None:
        check_file(trace)
    with stage(console, f"compiling {model_options['model']}"):
        file, examples, accelerator = compile_file(**model_options)
    if against is not None and earlier is None:
        with stage(console, f"compiling {against}"):
            earlier = gather_facts(compile_file(**{**model_options, "model": against})[2])
    target = target or Path(f"{file.label}.report.html")
    values = run_inputs(file, examples, accelerator, data, seed, console, variables)
    simulation = synthesis = None
    if simulate:
        with stage(console, "simulating") as say:
            simulation = accelerator.simulate(*values, engine=engine, progress=say)
    try:
        chosen = part_for(model_options["family"], part)
    except InputError:  # A family without parts has no estimates.
        if synth or part:
            raise
        chosen, sweep = DEFAULT_PART, 0.0
    if synth:
        with stage(console, f"synthesizing for {chosen}") as say:
            synthesis = accelerator.synthesize(chosen, seeds=seeds, progress=say)
    with stage(console, "writing the report") as say:
        made = build_report(
            accelerator,
            values,
            simulation,
            synthesis,
            earlier,
            sweep=sweep,
            part=chosen,
            progress=say,
        )
        paths = [*made.save(target)]
    if trace is not None:
        paths.append(write_trace(accelerator, trace, simulation))
    for path in paths:
        click.echo(f"wrote {path}", err=json_file == "-")
    write_json(json_file, made.facts)
