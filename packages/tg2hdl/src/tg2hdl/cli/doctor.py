"""``tg2hdl doctor``: what can be done here, and which tools are there."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.console import Console

from tg2hdl.cli.output import consoles, with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl.doctor import FEATURE, Finding, examine

__all__ = ["doctor"]


@click.command(epilog="\b\nExamples:\n  tg2hdl doctor\n  tg2hdl doctor --json")
@with_json
def doctor(json_file: str | None) -> None:
    """Say what can be done here, and which tools, packages, caches and plugins are there.

    A feature that is missing is not an error: the command that adds it is named. Below are the tools one by one.
    """
    console, _ = consoles(json_file)
    findings = examine()
    if json_file is not None:
        write_json(json_file, [asdict(finding) for finding in findings])
        return
    features = [finding for finding in findings if finding.name.startswith(FEATURE)]
    width = max(len(feature.name) for feature in features)
    for feature in features:
        _say(console, f"{feature.name:{width}}  {_answer(feature)}".removeprefix(FEATURE))
    console.print()
    table = Table("tool", "", "version", "needed for")
    tools = [finding for finding in findings if finding not in features]
    for tool in tools:
        mark = "[green]there[/]" if tool.found else "[yellow]missing[/]"
        table.add_row(tool.name, mark, tool.version, tool.purpose)
    console.print(table)
    for tool in tools:
        if not tool.found and tool.hint:
            _say(console, f"{tool.name}: {tool.hint}")


def _answer(feature: Finding) -> str:
    if not feature.found:
        return f"no: {feature.hint}"
    return f"yes, slowly; quickly with {feature.hint}" if feature.hint else "yes"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
