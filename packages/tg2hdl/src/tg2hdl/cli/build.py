"""``tg2hdl build``: a model to a folder for a board or its simulation."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from tg2hdl.cli.common import compile_file, kernel_table, output_folder, stage, with_model_options

__all__ = ["build"]

_EPILOG = """\b
Examples:
  tg2hdl build model.py -o build/digits       for the simulation: tg2hdl.connect("simulate:build/digits")
"""


@click.command("build", epilog=_EPILOG)
@with_model_options
@click.option("-o", "--output", metavar="DIR", help="Where to write.  [default: build/NAME]")
@click.option("--vectors", default=8, show_default=True, help="Random vectors for `tg2hdl selftest`.")
def build(output: str | None, vectors: int, **model_options: Any) -> None:
    """Build a model for a board, or for a simulated one.

    Writes the design, its register map as a page and a C header, the description for the driver, and vectors for
    `tg2hdl selftest`.
    """
    console = Console()
    model_options["ports"] = model_options["ports"] or ("uart",)
    with stage(console, f"compiling {model_options['model']}"):
        file, _, accelerator = compile_file(**model_options)
    console.print(
        kernel_table(accelerator, f"{file.label}: {accelerator.predicted_cycles:,} cycles from start to done")
    )
    folder = output_folder(output, file.label)
    with stage(console, "writing the folder"):
        accelerator.build(folder, vectors=vectors)
    console.print(
        f"wrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}", highlight=False
    )
