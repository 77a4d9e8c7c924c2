"""``tg2hdl completion``: completion of commands, options, files and names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

_WHERE = {
    "bash": 'add to ~/.bashrc:  eval "$(tg2hdl completion bash)"',
    "zsh": 'add to ~/.zshrc:   eval "$(tg2hdl completion zsh)"',
    "fish": "tg2hdl completion fish > ~/.config/fish/completions/tg2hdl.fish",
}


@click.command(epilog="\b\nTo install it:\n" + "\n".join(f"  {line}" for line in _WHERE.values()))
@click.argument("shell", type=click.Choice(sorted(_WHERE)))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, files, and the names of engines, parts and families, those of plugins too.
    """
    from tg2hdl.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, "click knows the shells of the choice"
    click.echo(found(cli, {}, "tg2hdl", "_TG2HDL_COMPLETE").source())
