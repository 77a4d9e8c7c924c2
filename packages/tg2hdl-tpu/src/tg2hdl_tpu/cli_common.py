"""Common parts of the commands of ``tg2hdl tpu``: options, files, figures as JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tg2hdl_ir import InputError, ToolMissingError
from tg2hdl_tpu.config import Config

__all__ = ["FILE", "OUT", "no_boards", "read_config", "say", "with_config", "with_json", "write_json"]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class OutputFile(click.Path):
    """A file to write, or - for standard output; that it can be written is checked before the work."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        target = Path(os.fsdecode(path))
        if str(path) != "-" and not os.access(
            target if target.exists() else target.resolve().parent, os.W_OK
        ):
            raise InputError(f"cannot write {target}", hint="give a file in a folder that exists")
        return path


def say(message: str) -> None:
    """Progress, for people only."""
    if sys.stderr.isatty():
        click.echo(message, err=True)


OUT = OutputFile(dir_okay=False, path_type=Path)


def read_config(name: str | None, **changes: Any) -> Config:
    """Return the machine that ``--config`` names, with changes; registers of ecp5 follow from the changed lanes.

    Raises
    ------
    InputError
        For a file that is not there, or is not a machine, and a change that does not go with the others.
    """
    if name == "ecp5":
        return Config.ecp5(**changes)
    if name and not Path(name).is_file():
        raise InputError(f"no file is named {name}", where="--config", hint="name a JSON file, or ecp5")
    return replace(Config.from_json(Path(name).read_text()) if name else Config(), **changes)


with_config = click.option(
    "--config",
    metavar="FILE|ecp5",
    help="JSON file with parameters of the machine; ecp5 is one for these FPGAs.",
)


with_json = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    is_flag=False,
    flag_value="-",
    type=OutputFile(allow_dash=True, dir_okay=False),
    help="Write the figures as JSON, - for standard output; then nothing else is printed there.",
)


def write_json(json_file: str | None, facts: Any) -> None:
    """Write figures where ``--json`` says, if it does.

    Parameters
    ----------
    json_file : str or None
        A path, or ``-`` for standard output; none to write nothing.
    facts
        Of types that JSON has.
    """
    if json_file:
        with click.open_file(json_file, "w") as file:
            file.write(json.dumps(facts, indent=2) + "\n")


def no_boards(error: ImportError) -> ToolMissingError:
    """Return the error of a package that boards need and that is not installed."""
    return ToolMissingError(
        f"the Python package {str(error.name).split('.')[0]} is not installed",
        hint='pip install "tg2hdl-tpu[board]"',
    )
