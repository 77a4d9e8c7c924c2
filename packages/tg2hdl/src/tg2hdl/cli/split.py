"""``tg2hdl split``: a model in parts for several boards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

from tg2hdl.cli.common import ModelCommand, model_of_file, output_folder, stage, with_model_options
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json
from tg2hdl.random_inputs import random_inputs
from tg2hdl.splitting import SplitModel, split
from tg2hdl.splitting.cut import BALANCE
from tg2hdl_ir import SimulationError, ToolMissingError
from tg2hdl_ir.files import write_files

__all__ = ["split_command"]

_EPILOG = """\b
Examples:
  tg2hdl split model.py --parts 2 -o build/halves
  tg2hdl split net.onnx --parts 4 --multipliers 16 --simulate 8
"""


@click.command("split", cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option("--parts", type=click.IntRange(2), default=2, show_default=True, help="Number of parts.")
@click.option("-o", "--output", metavar="DIR", help="Where to write.  [default: build/NAME]")
@click.option(
    "--simulate",
    "runs",
    type=click.IntRange(0),
    default=0,
    help="Run random inputs through all parts together.",
)
@with_json
def split_command(
    parts: int, output: str | None, runs: int, json_file: str | None, **model_options: Any
) -> None:
    """Cut a model into parts for several boards, which AXI4-Stream joins.

    The cut is where the fewest bits go from board to board among those that balance the cycles. Writes each part as
    `tg2hdl compile` does, and split.json. --multipliers are those of each part.
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_folder(output)
    if model_options.pop("fit", None) is not None:
        raise click.UsageError("--fit is for a whole model: give --multipliers, those of each part")
    with stage(progress, f"splitting {model_options['model']}"):
        file, examples, options = model_of_file(**model_options)
        made = split(file.model, *examples, parts=parts, options=options, name=file.label)
    console.print(_table(made, file.label))
    for number, link in enumerate(made.links):
        listed = ", ".join(f"{name} {bits:,}" for name, bits in link)
        console.print(f"from part {number + 1} to {number + 2}: {sum(b for _, b in link):,} bits ({listed})")
    console.print(f"a result every {made.predicted_interval:,} cycles", highlight=False)
    figures = _figures(made)
    if runs:
        with stage(progress, "simulating all parts"):
            _simulate(made, runs)
        console.print(f"{runs} runs of all parts together: bits and cycles as predicted", highlight=False)
    folder = output_folder(output, file.label)
    with stage(progress, "writing"):
        written = _write(made, folder, figures)
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    write_json(json_file, figures)


def _table(made: SplitModel, label: str) -> Table:
    table = Table("part", title=f"{label} in {len(made.parts)} parts", title_justify="left")
    for column in ("kernels", "cycles", "interval", "bits of weights"):
        table.add_column(column, justify="right")
    for number, row in enumerate(_figures(made)["parts"]):
        table.add_row(
            str(number + 1), *(f"{row[n]:,}" for n in ("kernels", "cycles", "interval", "weight_bits"))
        )
    return table


def _figures(made: SplitModel) -> dict[str, Any]:
    rows = [
        {
            "name": part.name,
            "kernels": len(part.kernels),
            "cycles": part.predicted_cycles,
            "interval": interval,
            "weight_bits": part.memory.bits.get("weight", 0),
        }
        for part, interval in zip(made.parts, made.intervals, strict=True)
    ]
    links = [[{"buffer": name, "bits": bits} for name, bits in link] for link in made.links]
    return {
        "parts": rows,
        "links": links,
        "predicted_interval": made.predicted_interval,
        "balance": BALANCE,
    }


def _simulate(made: SplitModel, runs: int) -> None:
    inputs = [random_inputs(made.captured.inputs, seed) for seed in range(runs)]
    found = made.simulate(inputs)
    intervals = set(np.diff(found.ends).tolist())
    if intervals - {made.predicted_interval}:
        raise SimulationError(
            f"results come every {sorted(intervals)} cycles, not every {made.predicted_interval}",
            hint="please report this with the model",
        )
    made.reset()
    for number, (x, arrays) in enumerate(zip(inputs, found.outputs, strict=True)):
        golden = made.captured.flat(made.golden(*x))
        if not all(
            np.array_equal(a, np.ravel(b), equal_nan=b.dtype.kind == "f")
            for a, b in zip(arrays, golden, strict=True)
        ):
            raise SimulationError(
                f"run {number} of the parts has another result than the golden model",
                hint="please report this with the model",
            )


def _write(made: SplitModel, folder: Path, figures: dict[str, Any]) -> list[Path]:
    written = []
    for number, part in enumerate(made.parts):
        own = folder / f"part{number + 1}"
        write_files(own, {f"{part.name}.plan": part.plan() + "\n"})
        try:
            part.verilog(own / f"{part.name}.v")
            written.append(own / f"{part.name}.v")
        except ToolMissingError:  # Yosys
            part.rtlil(own / f"{part.name}.il")
            written.append(own / f"{part.name}.il")
    write_files(folder, {"split.json": json.dumps(figures, indent=1) + "\n"})
    return [*written, folder / "split.json"]
