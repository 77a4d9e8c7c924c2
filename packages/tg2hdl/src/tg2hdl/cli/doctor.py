"""``tg2hdl doctor``: which tools are there, and what is missing for what."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from tg2hdl.cli.output import consoles, with_json, write_json
from tg2hdl.doctor import examine

__all__ = ["doctor"]


@click.command(epilog="\b\nExamples:\n  tg2hdl doctor\n  tg2hdl doctor --json")
@with_json
def doctor(json_file: str | None) -> None:
    """Say which tools, packages, caches and plugins are there, and what is missing for what.

    What is missing is not an error: it is named with the command that installs it.
    """
    console, _ = consoles(json_file)
    findings = examine()
    if json_file is not None:
        write_json(json_file, [asdict(finding) for finding in findings])
        return
    table = Table("", "tool", "version", "needed for")
    for finding in findings:
        mark = "[green]there[/]" if finding.found else "[yellow]missing[/]"
        table.add_row(mark, finding.name, finding.version, finding.purpose)
    console.print(table)
    for finding in findings:
        if not finding.found and finding.hint:
            text = f"{finding.name}: {finding.hint}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
