"""``tg2hdl explain``: why a design takes its cycles, and what would change it."""

from __future__ import annotations

from typing import Any

import click

from tg2hdl.cli.common import ModelCommand, compile_file, stage, with_model_options
from tg2hdl.cli.output import consoles, with_json, write_json

__all__ = ["explain"]

_EPILOG = """\b
Examples:
  tg2hdl explain model.py --multipliers 16
  tg2hdl explain model.py --kernel r_784 --json
"""


@click.command(cls=ModelCommand, epilog=_EPILOG)
@with_model_options
@click.option("--kernel", metavar="NAME", help="Explain only this kernel.")
@click.option(
    "--variants/--no-variants",
    default=True,
    show_default=True,
    help="Plan the design with other options too, to show which would change its cycles; estimate LUTs and clock.",
)
@with_json
def explain(kernel: str | None, variants: bool, json_file: str | None, **model_options: Any) -> None:
    """Say why a design takes its cycles, and what would change it.

    Shows each decision with its alternatives and what each costs, and why a step starts as often as it does: the value
    that it waits for, the unit and its latency, or the port.  * marks the alternative that was taken.
    """
    out, console = consoles()
    with stage(console, f"compiling {model_options['model']}"):
        _, _, accelerator = compile_file(**model_options)
    found = accelerator.explain(kernel, variants=variants)
    click.echo(found.format(out.width))
    write_json(json_file, found.describe())
