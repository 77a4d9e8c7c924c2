"""``-v`` and ``-q``: how much the commands say on standard error, through `logging`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tg2hdl.progress import VARIABLE

__all__ = ["with_verbosity"]


class _Messages(logging.Handler):
    """Messages of this project, and warnings of others, on standard error; below warnings with the seconds so far."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        if level < logging.WARNING:
            self.setFormatter(logging.Formatter("%(seconds)8.2f s  %(message)s"))

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message is shown."""
        return record.name.startswith("tg2hdl") or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        """Show it on the standard error of now, which tests and ``--json`` replace."""
        record.seconds = record.relativeCreated / 1000
        click.echo(self.format(record), err=True)


@contextmanager
def _level(level: int) -> Iterator[None]:
    """Show messages from a level on; without warnings no progress either."""
    root, handler = logging.getLogger(), _Messages(level)
    before, progress = root.level, os.environ.get(VARIABLE)
    root.addHandler(handler)
    root.setLevel(level)
    if level > logging.WARNING:
        os.environ[VARIABLE] = "0"
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        if progress is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = progress


def _chosen(context: click.Context, parameter: click.Parameter, count: Any) -> None:
    if not count:
        return
    if "verbosity" in context.meta:
        raise click.UsageError("-v and -q do not go together.", context)
    context.meta["verbosity"] = count
    quiet, verbose = logging.ERROR, logging.DEBUG if count > 1 else logging.INFO
    context.with_resource(_level(quiet if parameter.name == "quiet" else verbose))


def with_verbosity(command: Any) -> Any:
    """Add the options ``-v`` and ``-q``."""
    options = (
        (
            "-v",
            "--verbose",
            "Say on standard error what is done and how long it takes; -vv also which tools run.",
        ),
        ("-q", "--quiet", "Neither warnings nor progress on standard error."),
    )
    for short, long, text in reversed(options):
        is_count = short == "-v"
        option = click.option(
            short,
            long,
            count=is_count,
            is_flag=not is_count,
            is_eager=True,
            expose_value=False,
            callback=_chosen,
            help=text,
        )
        command = option(command)
    return command
