"""``tg2hdl plugins``: what is loaded, and what is broken."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from tg2hdl_ir.plugins.registry import registry

__all__ = ["plugins"]


@click.group()
def plugins() -> None:
    """Show the loaded plugins."""


@plugins.command(
    "list", epilog="\b\nExamples:\n  tg2hdl plugins list\n  tg2hdl plugins list --json | jq '.plugins[].name'"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_plugins(as_json: bool) -> None:
    """List plugins, their distributions and what each provides.

    A plugin is an entry point of the group `tg2hdl` of any installed distribution.
    """
    found = registry().describe()
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = Console()
    table = Table("plugin", "distribution", "version", "provides")
    for plugin in found["plugins"]:
        provides = "\n".join(
            f"{hook.removeprefix('tg2hdl_').replace('_', ' ')}: {', '.join(names)}"
            for hook, names in plugin["provides"].items()
        )
        table.add_row(plugin["name"], plugin["distribution"], plugin["version"], provides or plugin["status"])
    console.print(table)
    for broken in found["broken"]:
        console.print(
            f"broken: {broken['name']} of {broken['distribution']}: {broken['reason']}",
            style="red",
            markup=False,
        )
    for conflict in found["conflicts"]:
        console.print(f"conflict: {conflict}", style="red", markup=False)
