"""A command: ``tg2hdl cycles model.py`` prints one number."""

from __future__ import annotations

import click

from tg2hdl_ir import CommandDef, hookimpl


@click.command()
@click.argument("model", metavar="FILE[:NAME]")
def cycles(model: str) -> None:
    """Print the clock cycles of a model."""
    import tg2hdl
    from tg2hdl.model_file import load_model_file

    file = load_model_file(model)
    click.echo(tg2hdl.compile(file.model, *(file.example_inputs or ())).predicted_cycles)


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """The name, the line in ``tg2hdl --help``, and the click command."""
    return [CommandDef("cycles", "Print the clock cycles of a model.", cycles)]
