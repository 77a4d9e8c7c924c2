"""``tg2hdl ir-opt``: rewrites on printed IR, for those who write or mend one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

import tg2hdl_top.search.alone  # noqa: F401  enters the rewrites of programs in the table
from tg2hdl.cli.families import complete_file
from tg2hdl.cli.output import with_json, write_json
from tg2hdl_ir import InputError, registry
from tg2hdl_ir.opt import PARAMETERS, rewrite_text

__all__ = ["ir_opt"]

_EPILOG = """\b
Examples:
  tg2hdl ir-opt --pass split-axis --set inner=4 kernel.ir
  tg2hdl ir-opt --pass flatten --pass forward-registers kernel.ir
  tg2hdl ir-opt --list
"""


@click.command("ir-opt", epilog=_EPILOG)
@click.argument("file", metavar="FILE", required=False, shell_complete=complete_file)
@click.option("--pass", "names", metavar="NAME", multiple=True, help="A rewrite; several run in this order.")
@click.option(
    "--set",
    "texts",
    metavar="KEY=N[,N...]",
    multiple=True,
    help="Parameter of a rewrite; --list shows them with their defaults.",
)
@click.option(
    "--form", type=click.IntRange(1), default=1, show_default=True, help="Which candidate to print."
)
@click.option("--list", "lists", is_flag=True, help="List the rewrites.")
@with_json
def ir_opt(
    file: str | None,
    names: tuple[str, ...],
    texts: tuple[str, ...],
    form: int,
    lists: bool,
    json_file: str | None,
) -> None:
    """Run rewrites on the printed kernel or program of FILE, and print the result; - is standard input.

    A kernel that a rewrite does not apply to is printed as it was.  The weights of a program hold 1 to 7, again and
    again, as its text has no contents.
    """
    if lists:
        lines = _listed()
        click.echo("\n".join(lines))
        write_json(json_file, {"rewrites": lines})
        return
    if file is None or not names:
        raise click.UsageError("give --pass NAME and a FILE, or --list")
    made = rewrite_text(_text(file), names, dict(map(_option, texts)), form)
    click.echo(made, nl=False)
    write_json(json_file, {"passes": names, "text": made})


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError(
            f"cannot read {file}: {reason}", hint="give a file with printed IR, as --print-after prints it"
        ) from error


def _option(text: str) -> tuple[str, list[int]]:
    key, _, values = text.partition("=")
    try:
        return key, [int(value) for value in values.split(",")]
    except ValueError as error:
        raise InputError(
            f"--set {text!r} is not of the form KEY=N[,N...]", hint="e.g. --set axis=0"
        ) from error


def _listed() -> list[str]:
    """All rewrites, in the order in which they run."""
    lines = []
    for entry in registry().passes():
        lines.append(f"{entry.name}: {entry.description}" + (f" ({entry.term})" if entry.term else ""))
        lines += [f"    {key}=N, else {default}" for key, default in PARAMETERS.get(entry.name, {}).items()]
    return lines
