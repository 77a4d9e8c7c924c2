"""``tg2hdl simulate``: run a model file on simulated hardware and compare with the golden model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from tg2hdl.bits import same_bits
from tg2hdl.cli.common import compile_file, load_arrays, random_inputs, stage, with_model_options
from tg2hdl.cli.families import ENGINE
from tg2hdl.cli.output import check_file, consoles, with_json, write_json
from tg2hdl_backend.agreement import Agreement
from tg2hdl_ir.errors import SimulationError

__all__ = ["simulate"]

_EPILOG = """\b
Examples:
  tg2hdl simulate model.py                       random inputs, the quickest engine
  tg2hdl simulate model.py --data x.npy          inputs from numpy files, one per parameter
  tg2hdl simulate model.py --engine amaranth --vcd run.vcd
  tg2hdl simulate model.onnx --check             compare with tinygrad's own result, too
"""


@click.command(epilog=_EPILOG)
@with_model_options
@click.option("--data", multiple=True, metavar="FILE.npy", help="Contents of an input; once per parameter.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random inputs."
)
@click.option("--engine", type=ENGINE, default="auto", show_default=True, help="Simulation engine.")
@click.option("--vcd", metavar="FILE", help="Write a waveform.")
@click.option("--check", is_flag=True, help="Compare also with what tinygrad itself computes for the model.")
@with_json
def simulate(
    data: tuple[str, ...],
    seed: int,
    engine: str,
    vcd: str | None,
    check: bool,
    json_file: str | None,
    **model_options: Any,
) -> None:
    """Run a model on simulated hardware.

    Compares every bit with the golden model and prints the cycles, which are those that the plan predicts.
    """
    console, progress = consoles(json_file)
    if vcd is not None:
        check_file(vcd)
    with stage(progress, f"compiling {model_options['model']}"):
        _, _, accelerator = compile_file(**model_options)
    values = load_arrays(data) if data else random_inputs(accelerator, seed)
    golden = accelerator.golden(*values)
    with stage(progress, "simulating") as report:
        result = accelerator.simulate(*values, engine=engine, vcd=vcd, progress=report)
    table = Table("kernel", title=f"{accelerator.name} on {result.engine}", title_justify="left")
    for column in ("predicted cycles", "simulated cycles"):
        table.add_column(column, justify="right")
    for kernel, simulated in zip(accelerator.kernels, result.cycles.kernels, strict=True):
        table.add_row(kernel.name, f"{kernel.cycles:,}", f"{simulated:,}")
    table.add_row("start to done", f"{accelerator.predicted_cycles:,}", f"{result.cycles.compute:,}")
    console.print(table)
    if accelerator.design.sequencer.policy != "serial" and len(accelerator.kernels) > 1:
        console.print(
            "kernels overlap: simulated cycles of a kernel are those from the end of all before it to its own"
        )
    cycles = result.cycles
    console.print(
        f"{cycles.total:,} cycles, of them {cycles.load:,} to load and {cycles.readback:,} to read back"
    )
    if not same_bits(result.output, golden):
        raise SimulationError(
            f"hardware and golden model of {accelerator.name} differ",
            hint="please report this with the model file: they must agree in every bit",
        )
    console.print("every bit equals the golden model")
    compared: tuple[Agreement, ...] = ()
    if check:
        with stage(progress, "running the model in tinygrad"):
            compared = accelerator.check(result.output, *values)
        for spec, found in zip(accelerator.captured.outputs, compared, strict=True):
            console.print(f"{spec.name} against tinygrad: {found}")
        if not all(found.agrees for found in compared):
            raise SimulationError(
                f"hardware of {accelerator.name} and tinygrad differ",
                hint="please report this with the model file, with these lines",
            )
    console.print(result.output, highlight=False)
    write_json(
        json_file,
        {
            "name": accelerator.name,
            "engine": result.engine,
            "seconds": result.seconds,
            "predicted_cycles": accelerator.predicted_cycles,
            "cycles": asdict(cycles) | {"total": cycles.total},
            "kernels": [k.name for k in accelerator.kernels],
            "same_bits_as_golden": True,
            "against_tinygrad": [str(found) for found in compared] if check else None,
        },
    )
