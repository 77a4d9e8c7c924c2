"""``tg2hdl completion``: completion of commands, options, files and names in a shell."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

__all__ = ["completion"]

_WHERE = {
    "bash": 'add to ~/.bashrc:  eval "$(tg2hdl completion bash)"',
    "zsh": 'add to ~/.zshrc:   eval "$(tg2hdl completion zsh)"',
    "fish": "tg2hdl completion fish > ~/.config/fish/completions/tg2hdl.fish",
}


@add_completion_class
class _Bash(BashComplete):
    """Completion of values such as ``add=fp32.add.fast``, which Bash takes for three words."""

    _kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and this one, with parts of one word joined."""
        last = int(os.environ["COMP_CWORD"])
        words = [*split_arg_string(os.environ["COMP_WORDS"]), ""][: last + 1]
        joined = words[:1]
        for before, word in pairwise(words):
            if word == "=" and joined[-1].startswith("-"):
                continue  # of --option=value, which click takes as two words
            if word == "=" or (before == "=" and "=" in joined[-1]):
                joined[-1] += word
            else:
                joined.append(word)
        if words[-1] == "=":
            words[-1] = ""
            joined += [""] if joined[-1].startswith("-") else []
        self._kept = joined[-1].removesuffix(words[-1])
        return joined[1:-1], joined[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Without the words that Bash keeps."""
        return super().format_completion(CompletionItem(item.value.removeprefix(self._kept), item.type))


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
