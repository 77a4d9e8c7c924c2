"""Where a command writes: files are checked before the work, JSON goes to a file or to standard output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.files import write_file

__all__ = ["check_file", "check_folder", "consoles", "with_json", "write_json"]

_F = TypeVar("_F", bound=Callable[..., Any])


def with_json(function: _F) -> _F:
    """Add the option ``--json``, whose value is ``json_file``."""
    option = click.option(
        "--json",
        "json_file",
        metavar="FILE",
        is_flag=False,
        flag_value="-",
        callback=_checked,
        help="Write the figures as JSON; - is standard output, and all other text goes to standard error.",
    )
    return option(function)


def consoles(json_file: str | None = None) -> tuple[Console, Console]:
    """Console of the results, and that of the progress, which is always standard error."""
    progress = Console(stderr=True)
    return (progress if json_file == "-" else Console()), progress


def write_json(json_file: str | None, data: Any) -> None:
    """Write figures where ``--json`` says, if it does."""
    text = json.dumps(data, indent=2)
    if json_file == "-":
        click.echo(text)
    elif json_file is not None:
        write_file(json_file, text + "\n")
        click.echo(f"wrote {json_file}")


def check_file(path: str, *suffixes: str) -> Path:
    """Path of a file that can be written; makes its folder.

    Raises
    ------
    InputError
        When it cannot be, or has none of the suffixes.
    """
    file = Path(path)
    if suffixes and file.suffix not in suffixes:
        raise InputError(
            f"{path!r} does not end in {' or '.join(suffixes)}", hint=f"e.g. {file.stem}{suffixes[0]}"
        )
    if file.is_dir():
        raise InputError(f"{path!r} is a folder", hint="give the name of a file")
    check_folder(str(file.parent))
    if file.exists() and not os.access(file, os.W_OK):
        raise InputError(f"{path!r} cannot be written", hint="choose another name, or change its permissions")
    return file


def check_folder(path: str) -> Path:
    """A folder that can be written to; made when it is missing.

    Raises
    ------
    InputError
        When it cannot be made or written to.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"folder {path!r} cannot be made: {error.strerror}", hint="choose another folder for the output"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"folder {path!r} cannot be written to", hint="choose another folder for the output")
    return folder


def _checked(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value not in (None, "-"):
        check_file(str(value))
    return value
