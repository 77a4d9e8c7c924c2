"""``tg2hdl plugins``: loaded plugins and their problems."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from tg2hdl.cli.new_plugin import new_plugin
from tg2hdl.cli.output import with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl_ir import InputError, registry
from tg2hdl_ir.plugins.catalog import KINDS

__all__ = ["plugins"]

_WORDS = {hook: kind.label.split()[-1] for hook, kind in KINDS.items()} | {
    "tg2hdl_frontends": "front-end",
    "tg2hdl_tinygrad_ops": "tinygrad-op",
    "tg2hdl_memory_kinds": "memory",
    "tg2hdl_memory_ports": "memory-port",
    "tg2hdl_report_sections": "section",
}
"""One word for the contributions of a hook."""


@click.group()
def plugins() -> None:
    """Show the plugins, or start a new one.

    A plugin is an entry point of the group `tg2hdl` of any installed distribution.
    """


@plugins.command(
    "list",
    epilog="\b\nExamples:\n  tg2hdl plugins list\n  tg2hdl plugins list --kind unit\n"
    "  tg2hdl plugins list --json | jq '.plugins[].name'",
)
@click.option("--kind", type=click.Choice(sorted(_WORDS.values())), help="List only the names of this kind.")
@with_json
def list_plugins(kind: str | None, json_file: str | None) -> None:
    """List plugins and how much each provides; problems are a line each."""
    found = registry().describe()
    if json_file is not None:
        write_json(json_file, found)
        return
    hook = next((h for h, word in _WORDS.items() if word == kind), None)
    console = Console()
    table = Table("plugin", "version", "status", "provides")
    for plugin in found["plugins"]:
        names = plugin["provides"].get(hook, []) if hook else None
        if names or names is None:
            provides = _counts(plugin["provides"]) if names is None else ", ".join(names)
            table.add_row(plugin["name"], plugin["version"], plugin["status"], provides)
    console.print(table)
    _print_problems(console, found["problems"])


@plugins.command(epilog="\b\nExamples:\n  tg2hdl plugins show tg2hdl-fp32\n  tg2hdl plugins show sigmoid")
@click.argument("name")
@with_json
def show(name: str, json_file: str | None) -> None:
    """Show all that a plugin provides; NAME is that of the plugin, its entry point or its distribution."""
    found = registry().describe()
    chosen = [
        p for p in found["plugins"] if name in (p["name"], p["distribution"], p["name"].partition(":")[2])
    ]
    if not chosen:
        known = ", ".join(p["name"] for p in found["plugins"])
        raise InputError(f"no plugin is named {name!r}", hint=f"known: {known}")
    if json_file is not None:
        write_json(json_file, chosen)
        return
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for plugin in chosen:
        console.print(f"{plugin['name']}, version {plugin['version'] or 'unknown'}, {plugin['status']}")
        for hook, descriptors in registry().contributions(plugin["name"]).items():
            console.print(f"  {KINDS[hook].label}:")
            for descriptor in descriptors:
                text = getattr(descriptor, "description", "")
                console.print(f"    {descriptor.name}" + (f": {text}" if text else ""))
        _print_problems(console, [p for p in found["problems"] if p["plugin"] == plugin["name"]])


def _counts(provides: dict[str, list[str]]) -> str:
    return ", ".join(f"{len(names)} {_plural(_WORDS[hook], len(names))}" for hook, names in provides.items())


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    if word == "pass":
        return "passes"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _print_problems(console: Console, problems: list[dict[str, Any]]) -> None:
    for problem in problems:
        hook = f", {problem['hook']}" if problem["hook"] else ""
        line = f"problem: {problem['plugin']}{hook}: {problem['reason']}; hint: {problem['hint']}"
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)


plugins.add_command(new_plugin)
