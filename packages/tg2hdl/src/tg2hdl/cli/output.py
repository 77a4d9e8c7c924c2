"""Where a command writes: files are checked before the work, JSON goes to a file or to standard output."""

from __future__ import annotations

import errno
import functools
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console

from tg2hdl_ir import InputError, Tg2hdlError
from tg2hdl_ir.files import write_file

__all__ = [
    "asks_for_json",
    "check_file",
    "check_folder",
    "consoles",
    "error_json",
    "with_json",
    "write_json",
]

_json_output: TextIO | None = None
"""Standard output while it is kept for JSON."""


def with_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--json``, whose value is ``json_file``; all other output of the command is then kept apart."""

    @functools.wraps(function)
    def command(*arguments: Any, json_file: str | None, **options: Any) -> Any:
        if json_file != "-":
            return function(*arguments, json_file=json_file, **options)
        with _output_for_json():
            return function(*arguments, json_file=json_file, **options)

    option = click.option(
        "--json",
        "json_file",
        metavar="FILE",
        is_flag=False,
        flag_value="-",
        callback=_checked,
        help="Write the figures as JSON; - is standard output, and all other text goes to standard error.",
    )
    return option(command)


@contextmanager
def _output_for_json() -> Iterator[None]:
    """Send output of model files, plugins and the programs that they call to standard error."""
    global _json_output
    _json_output, kept = sys.stdout, None
    with suppress(io.UnsupportedOperation):  # a test that collects the output in memory
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            _json_output = os.fdopen(kept, "w", encoding=sys.stdout.encoding)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        written, _json_output = _json_output, None
        if kept is not None:
            os.dup2(kept, 1)
            written.close()


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether the arguments of the command send JSON to standard output."""
    following = [*arguments[1:], "-"]
    return any(
        a == "--json=-" or (a == "--json" and b.startswith("-"))
        for a, b in zip(arguments, following, strict=True)
    )


def error_json(error: Exception) -> str:
    """An error as ``{"error": {"kind", "message", "at", "hint"}}``."""
    kind, message, at, hint = "internal error", f"{type(error).__name__}: {error}", None, None
    if isinstance(error, Tg2hdlError):
        kind, message, at, hint = error.kind, error.message, error.where, error.hint
    elif isinstance(error, click.ClickException):
        kind, message = "usage", error.format_message()
        context = getattr(error, "ctx", None)
        hint = None if context is None else f"{context.command_path} --help"
    return json.dumps({"error": {"kind": kind, "message": message, "at": at, "hint": hint}}, indent=2)


def consoles(json_file: str | None = None) -> tuple[Console, Console]:
    """Console of the results, and that of the progress, which is always standard error."""
    progress = Console(stderr=True)
    return (progress if json_file == "-" else Console()), progress


def write_json(json_file: str | None, data: Any) -> None:
    """Write figures where ``--json`` says, if it does.

    Parameters
    ----------
    json_file : str or None
        ``-`` for standard output; None writes nothing.
    data
        Numbers, strings, lists and dicts.
    """
    text = json.dumps(data, indent=2)
    if json_file == "-":
        click.echo(text, file=_json_output)
    elif json_file is not None:
        write_file(json_file, text + "\n")
        click.echo(f"wrote {json_file}")


def check_file(path: str, *suffixes: str) -> Path:
    """Path of a file that can be written; its folder is made with it.

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
    """A folder that can be written to, or made: that is left to the first file, so that an error leaves none.

    Raises
    ------
    InputError
        When it cannot be.
    """
    folder = Path(path)
    found = next(place for place in (folder, *folder.absolute().parents) if os.path.exists(place))
    if not found.is_dir():
        raise InputError(
            f"folder {path!r} cannot be made: {os.strerror(errno.ENOTDIR)}",
            hint="choose another folder for the output",
        )
    if not os.access(found, os.W_OK | os.X_OK):
        raise InputError(f"folder {path!r} cannot be written to", hint="choose another folder for the output")
    return folder


def _checked(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value not in (None, "-"):
        check_file(str(value))
    return value
