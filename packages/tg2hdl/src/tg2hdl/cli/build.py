"""``tg2hdl build``: a model to a folder for a board or its simulation."""

from __future__ import annotations

from typing import Any

import click

from tg2hdl.cli.common import compile_file, kernel_table, output_folder, stage, with_model_options
from tg2hdl.cli.output import check_folder, consoles, with_json, write_json

__all__ = ["build"]

_EPILOG = """\b
Examples:
  tg2hdl build model.py -o build/digits       for the simulation: tg2hdl.connect("simulate:build/digits")
"""


@click.command("build", epilog=_EPILOG)
@with_model_options
@click.option("-o", "--output", metavar="DIR", help="Where to write.  [default: build/NAME]")
@click.option("--vectors", default=8, show_default=True, help="Random vectors for `tg2hdl selftest`.")
@with_json
def build(output: str | None, vectors: int, json_file: str | None, **model_options: Any) -> None:
    """Build a model for a board, or for a simulated one.

    Writes the design, its register map as a page and a C header, the description for the driver, and vectors for
    `tg2hdl selftest`.
    """
    console, progress = consoles(json_file)
    if output is not None:
        check_folder(output)
    model_options["ports"] = model_options["ports"] or ("uart",)
    with stage(progress, f"compiling {model_options['model']}"):
        file, _, accelerator = compile_file(**model_options)
    console.print(
        kernel_table(accelerator, f"{file.label}: {accelerator.predicted_cycles:,} cycles from start to done")
    )
    folder = output_folder(output, file.label)
    with stage(progress, "writing the folder"):
        accelerator.build(folder, vectors=vectors)
    console.print(
        f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}", highlight=False
    )
    write_json(json_file, {"folder": str(folder), "predicted_cycles": accelerator.predicted_cycles})
