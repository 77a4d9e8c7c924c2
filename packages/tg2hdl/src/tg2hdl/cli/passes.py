"""Options that show the work of passes, for their authors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from tg2hdl_ir import KernelIR, ProgramIR
from tg2hdl_ir.passes.instrument import (
    PassWatcher,
    Rewritten,
    made_kernels,
    verify_each,
    watch_passes,
)
from tg2hdl_ir.pipeline import ChangeLog, pass_names

__all__ = ["watched_passes", "with_pass_options"]


class _PassName(click.ParamType[str]):
    """Name of a pass; those of plugins too."""

    name = "PASS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = pass_names()
        if value not in known:
            self.fail(f"{value!r} is not one of {', '.join(known)}", param, ctx)
        return str(value)


_OPTIONS = (
    click.option("--verify-each", is_flag=True, help="Verify the kernels after each pass."),
    click.option(
        "--print-after", type=_PassName(), multiple=True, help="Print the kernels after this pass, to stderr."
    ),
    click.option(
        "--print-changes", is_flag=True, help="Name the passes that changed each kernel, on stderr."
    ),
)


def with_pass_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@contextmanager
def watched_passes(
    verify_each_pass: bool, print_after: tuple[str, ...], print_changes: bool
) -> Iterator[None]:
    """Watch the passes as the options say.

    Parameters
    ----------
    verify_each_pass : bool
        Verify the IR after each rewrite.
    print_after : tuple of str
        Names of rewrites whose result is printed.
    print_changes : bool
        Print which rewrites changed a kernel.
    """
    changes = ChangeLog()
    watchers: list[PassWatcher] = [verify_each] if verify_each_pass else []

    def print_kernels(name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
        if name in print_after:
            for _, made in made_kernels(before, after):
                click.echo(f"after {name}:\n{made.format()}", err=True)

    if print_after:
        watchers.append(print_kernels)
    if print_changes:
        watchers.append(changes)
    with watch_passes(*watchers):
        yield
    for kernel, names in changes.changes.items():
        click.echo(f"{kernel}: changed by {', '.join(names)}", err=True)
