"""The command group: commands come from the plugin hook, errors are printed without a traceback."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from tg2hdl.cli.config_file import find_config, read_config, settings_of
from tg2hdl.cli.interrupts import interrupts_reach_the_command, stop_quietly
from tg2hdl.cli.output import asks_for_json, error_json
from tg2hdl.cli.verbosity import with_verbosity
from tg2hdl_ir import PluginError, Tg2hdlError, registry
from tg2hdl_ir.limits import little_memory, refuse_little_memory, system_error

__all__ = ["CommandGroup", "cli", "main"]

_EXAMPLES = """\b
Examples:
  tg2hdl demo                          two trained digit classifiers, from tinygrad to simulated hardware
  tg2hdl demo --images 20              the same with fewer images
  tg2hdl compile model.py              Verilog, RTLIL and a plan of the `model` in model.py
  tg2hdl compile model.py:net --input int8:1x784 --multipliers 16
  tg2hdl simulate model.py --engine amaranth --vcd run.vcd
  tg2hdl plugins list --json

\b
A model file is a Python file with a tinygrad function or callable object:
  from tinygrad import Tensor
  def model(x): return x.relu() * 2
  example_inputs = (Tensor.empty(1, 16),)      # or give --input float32:1x16
"""


class CommandGroup(click.Group):
    """A group of the commands that plugins register; a command is imported when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of registration."""
        return [command.name for command in registry().commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        Parameters
        ----------
        ctx, cmd_name
            As of `click.Group`.
        """
        found = registry().command(cmd_name)
        if found is None:
            return None
        command = registry().factory(found, "command")
        if not isinstance(command, click.Command):
            plugin = registry().plugin(found)
            raise PluginError(
                f"command {found.name!r} of plugin {plugin!r} is {type(command).__name__}, not a click command",
                hint=f"decorate it with @click.command(), or disable the plugin with --no-plugin {plugin}",
            )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; an error names one that is written alike.

        Parameters
        ----------
        ctx, args
            As of `click.Group`.
        """
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = get_close_matches(args[0], self.list_commands(ctx), 1)
            if not meant:
                raise
            raise click.UsageError(f"{error.message} Did you mean {meant[0]!r}?", ctx) from None
        if name and command and not ctx.resilient_parsing and not ctx.params.get("no_config"):
            ctx.default_map = self._settings(ctx, name, command)
        return name, command, rest

    def _settings(self, ctx: click.Context, name: str, command: click.Command) -> dict[str, Any]:
        """Defaults of the options of a command, of the project's file."""
        path = find_config(Path.cwd())
        if path is None:
            return {}
        tables = read_config(path, self.list_commands(ctx))
        return {name: settings_of(command, name, tables, path, ctx)}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for; an option of the group that follows the command is named as such."""
        refuse_little_memory()
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if any(error.option_name in parameter.opts for parameter in self.params):
                where = f"tg2hdl {error.option_name} {ctx.invoked_subcommand}"
                text = f"{error.message.rstrip('.')}. It goes before the command: {where}."
                raise click.UsageError(text, error.ctx) from None
            raise
        except KeyboardInterrupt:
            raise click.exceptions.Abort from None  # click itself would print an empty line first

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by their descriptors, without loading them.

        Parameters
        ----------
        ctx, formatter
            As of `click.Group`.
        """
        with formatter.section("Commands"):
            formatter.write_dl([(c.name, c.description) for c in registry().commands()])


def _disable(ctx: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> None:
    if names:
        registry().disable(*names)


@click.group(cls=CommandGroup, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("tg2hdl"), prog_name="tg2hdl")
@click.option(
    "--no-plugin",
    metavar="NAME",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_disable,
    help="Leave out a plugin, by its name in `tg2hdl plugins list`; the variable TG2HDL_DISABLE_PLUGINS takes several, "
    "separated by commas.",
)
@click.option(
    "--no-config",
    is_flag=True,
    help="Ignore tg2hdl.toml, the options of the project in this folder or one above.",
)
@with_verbosity
@click.option(
    "--traceback", is_flag=True, expose_value=False, help="Show where in the program an error arose."
)
def cli(no_config: bool) -> None:
    """Compile tinygrad models to FPGA hardware, simulate them cycle by cycle and check every bit."""


def main() -> None:
    """Entry point: 0, or 1 with the error on stderr, or 2 for wrong usage, or 3 for a bug of the
    compiler, or 130 after Ctrl-C.

    With ``--json`` for standard output the error is there too, as JSON.
    """
    if "_TG2HDL_COMPLETE" in os.environ:
        importlib.import_module("tg2hdl.cli.completion")  # for Bash
    try:
        with interrupts_reach_the_command(), _errors_as_json():
            cli(standalone_mode=False, prog_name="tg2hdl")
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        stop_quietly()
        # A terminal shows ^C at the beginning of the line.
        click.echo("\nstopped" if sys.stderr.isatty() else "stopped", err=True)
        sys.exit(130)
    except Exception as error:
        found = _explained(error)
        if found is None:
            raise
        # Amaranth warns of the components of a design that was never finished.
        warnings.simplefilter("ignore")
        if "--traceback" in sys.argv[1:]:
            traceback.print_exc()
        click.echo(str(found), err=True)
        sys.exit(found.exit_status)


def _explained(error: Exception) -> Tg2hdlError | None:
    """An error of ours or of the system, or any where there is little memory; None for a bug."""
    found = error if isinstance(error, Tg2hdlError) else system_error(error)
    limit = little_memory()
    if found is None and limit:
        found = Tg2hdlError(f"not enough memory: {type(error).__name__}: {error}", hint="raise the limit")
    if found and limit and limit not in found.notes:
        found.notes = (*found.notes, limit)
    return found


@contextmanager
def _errors_as_json() -> Iterator[None]:
    """Write an error to standard output where ``--json`` asks for figures there."""
    try:
        yield
    except (click.exceptions.Exit, click.exceptions.Abort):
        raise
    except Exception as error:
        if asks_for_json(sys.argv[1:]):
            shown = error if isinstance(error, click.ClickException) else _explained(error) or error
            with suppress(OSError):  # the error may be that it cannot be written to
                click.echo(error_json(shown))
        raise
