"""``tg2hdl simulate``: run a model file on simulated hardware and compare with the golden model."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from tg2hdl.accelerator import Accelerator
from tg2hdl.bits import same_bits
from tg2hdl.cli.common import (
    ModelCommand,
    compile_file,
    progress_bar,
    say_fit,
    say_float,
    stage,
    with_model_options,
    with_workers,
)
from tg2hdl.cli.families import ENGINE, complete_file
from tg2hdl.cli.inputs import load_set, run_inputs, with_input_options
from tg2hdl.cli.output import check_file, consoles, with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl.kernel_summaries import kernel_summaries
from tg2hdl.results import SimulationResult, labelled, labels_of
from tg2hdl.set_simulation import simulate_set
from tg2hdl_backend.agreement import Agreement
from tg2hdl_ir import InputError, SimulationError
from tg2hdl_ir.files import new_folder, npz_bytes, write_file
from tg2hdl_ir.workers import Workers

__all__ = ["simulate"]

_EPILOG = """\b
Examples:
  tg2hdl simulate model.py                       the values of `example_inputs`, the quickest engine
  tg2hdl simulate model.py --seed 1              random inputs
  tg2hdl simulate model.py --data x.npy          inputs from numpy files: .npy per parameter, or .npz by name
  tg2hdl simulate model.py --variable pos=7      the value of a bound Variable
  tg2hdl simulate model.py --set inputs.npz -o outputs.npz   many inputs, several at once
  tg2hdl simulate model.py --set big.npz --cluster tcp://host:8786    on the workers of a Dask cluster
  tg2hdl simulate model.py --vcd run.vcd         a waveform; run.fst for GTKWave's compressed format
  tg2hdl simulate model.onnx --check             compare with tinygrad's own result, too
"""


@click.command(cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@with_input_options
@click.option("--engine", type=ENGINE, default="auto", show_default=True, help="Simulation engine.")
@click.option(
    "--set",
    "many",
    metavar="FILE",
    shell_complete=complete_file,
    help="Many runs: a .npz file with an array per input, by name (.npy for a single input), whose first axis counts "
    "the runs; values of variables too.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE.npz",
    help="Write the outputs; with --set, the first axis counts the runs.",
)
@click.option(
    "--vcd", metavar="FILE", help="Write a waveform: VCD, or FST where FILE ends in .fst (needs vcd2fst)."
)
@with_workers
@click.option("--check", is_flag=True, help="Compare also with what tinygrad itself computes for the model.")
@with_json
def simulate(
    data: tuple[str, ...],
    seed: int | None,
    variables: tuple[str, ...],
    engine: str,
    many: str | None,
    output: str | None,
    vcd: str | None,
    workers: int,
    cluster: str | None,
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
    if output is not None:
        check_file(output, ".npz")
    if many is not None and (data or vcd or check or variables):
        raise InputError(
            "--set cannot be combined with --data, --variable, --vcd or --check",
            hint="simulate one of the inputs by --data FILE.npy; FILE.npz of --set may have variables by name",
        )
    if many is None and (workers != 1 or cluster is not None):
        raise InputError(
            "--workers and --cluster need --set", hint="give the inputs of many runs: --set FILE.npz"
        )
    with stage(progress, f"compiling {model_options['model']}"):
        file, examples, accelerator = compile_file(**model_options)
    if many is not None:
        sets = load_set(many, accelerator)
    else:
        sets = [run_inputs(file, examples, accelerator, data, seed, progress, variables)]
    if workers == 1 and cluster is None:
        results = _simulate(accelerator, sets, engine, vcd, progress)
    else:
        with Workers(workers, cluster) as pool, progress_bar(progress, "simulating", len(sets)) as advance:
            results = simulate_set(accelerator, sets, engine, pool, advance)
    result, cycles = results[-1], results[-1].cycles
    table = Table("kernel", title=f"{accelerator.name} on {result.engine}", title_justify="left")
    for column in ("predicted cycles", "simulated cycles"):
        table.add_column(column, justify="right")
    values = accelerator.values(*sets[-1])
    kernels = kernel_summaries(accelerator.captured, accelerator.design, values)
    for kernel, simulated in zip(kernels, cycles.kernels, strict=True):
        table.add_row(kernel.name, f"{kernel.cycles:,}", f"{simulated:,}")
    predicted = accelerator.design.predicted_cycles(values)
    table.add_row("start to done", f"{predicted:,}", f"{cycles.compute:,}")
    console.print(table)
    if accelerator.design.sequencer.policy != "serial" and len(accelerator.kernels) > 1:
        console.print(
            "kernels overlap: simulated cycles of a kernel are those from the end of all before it to its own"
        )
    console.print(
        f"{cycles.total:,} cycles, of them {cycles.load:,} to load and {cycles.readback:,} to read back"
    )
    seconds = sum(each.seconds for each in results)
    if many is not None:
        total = sum(each.cycles.total for each in results)
        console.print(f"{len(results):,} runs of {total:,} cycles in {seconds:.2f} s")
    say_fit(console, accelerator, model_options["fit"])
    say_float(console, accelerator)
    console.print("every bit equals the golden model" + (" in every run" if many is not None else ""))
    compared: tuple[Agreement, ...] = ()
    if check:
        compared = _check(accelerator, result.output, sets[0], console, progress)
    if many is None:
        console.print(result.output, highlight=False)
        _say_labels(accelerator, result, console)
    if output is not None:
        _save(accelerator, results, output, stacked=many is not None)
        console.print(f"wrote {output}")
    write_json(
        json_file,
        {
            "name": accelerator.name,
            "engine": result.engine,
            "runs": len(results),
            "seconds": seconds,
            "variables": values,
            "predicted_cycles": predicted,
            "cycles": asdict(cycles) | {"total": cycles.total},
            "kernels": [k.name for k in accelerator.kernels],
            "same_bits_as_golden": True,
            "in_float": list(accelerator.in_float),
            "against_tinygrad": [str(found) for found in compared] if check else None,
        },
    )


def _simulate(
    accelerator: Accelerator,
    sets: list[tuple[Any, ...]],
    engine: str,
    vcd: str | None,
    progress: Console,
) -> list[SimulationResult]:
    """Run all inputs, each compared with the golden model."""
    runs = len(sets)
    with nullcontext() if vcd is None else new_folder(Path(vcd).parent):
        with stage(progress, "building the simulation") as report:
            session = accelerator.session(engine, runs=runs, vcd=vcd, progress=report)
        with session, progress_bar(progress, "simulating", runs) as advance:
            results = session.run_batch(sets, advance=advance)
    with progress_bar(progress, "comparing with the golden model", runs) as advance:
        for number, (values, result) in enumerate(zip(sets, results, strict=True)):
            if not same_bits(result.codes, accelerator.golden(*values, codes=True)):
                raise SimulationError(
                    f"hardware and golden model of {accelerator.name} differ in run {number}",
                    hint="please report this with the model file: they must agree in every bit",
                )
            advance()
    return results


def _check(
    accelerator: Accelerator, output: Any, values: tuple[Any, ...], console: Console, progress: Console
) -> tuple[Agreement, ...]:
    """Compare with tinygrad's own result of the model."""
    with stage(progress, "running the model in tinygrad"):
        compared = accelerator.check(output, *values)
    for spec, found in zip(accelerator.captured.outputs, compared, strict=True):
        console.print(f"{spec.name} against tinygrad: {found}")
    if not all(found.agrees for found in compared):
        raise SimulationError(
            f"hardware of {accelerator.name} and tinygrad differ",
            hint="please report this with the model file, with these lines",
        )
    return compared


def _say_labels(accelerator: Accelerator, result: SimulationResult, console: Console) -> None:
    """The labels that the file has for outputs."""
    for spec, array in zip(
        accelerator.captured.outputs, accelerator.captured.flat(result.output), strict=True
    ):
        labels = labels_of(accelerator.captured.model, spec.name)
        if labels and (told := labelled(labels, array)):
            console.print(f"{spec.name}: {told}", highlight=False, markup=False)


def _save(accelerator: Accelerator, results: list[SimulationResult], path: str, stacked: bool) -> None:
    """Write the outputs by name; those of types that numpy's files lack as their bytes."""
    names = [spec.name for spec in accelerator.captured.outputs]
    flat = [accelerator.captured.flat(result.output) for result in results]
    columns = [np.stack(column) if stacked else column[0] for column in zip(*flat, strict=True)]
    stored = [a if a.dtype.isbuiltin == 1 else a.view(f"V{a.dtype.itemsize}") for a in columns]
    write_file(path, npz_bytes(dict(zip(names, stored, strict=True))))
