"""``tg2hdl cache``: results kept on disk, and removing them."""

from __future__ import annotations

import time
from collections import defaultdict

import click
from rich.console import Console
from rich.filesize import decimal

from tg2hdl.cli.output import with_json, write_json
from tg2hdl.cli.table import Table
from tg2hdl_ir.content_cache import CacheEntry, ContentCache, cache_entries, cache_root, clear_cache

__all__ = ["cache"]

_KINDS = {
    "plans": "hardware plans of device kernels",
    "sim": "compiled simulations",
    "synth": "runs of FPGA tools",
}


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  tg2hdl cache\n  tg2hdl cache --json\n  tg2hdl cache clear sim",
)
@with_json
@click.pass_context
def cache(ctx: click.Context, json_file: str | None) -> None:
    """Show the cache of compiled simulations, tool runs and plans, or clear it.

    It is the folder TG2HDL_CACHE_DIR, else one in the user's cache folder.  Above TG2HDL_CACHE_LIMIT bytes (2 GiB) the
    entries that were used longest ago are removed.
    """
    if ctx.invoked_subcommand is not None:
        return
    by_kind: dict[str, list[CacheEntry]] = defaultdict(list)
    for entry in cache_entries():
        by_kind[entry.kind].append(entry)
    limit = ContentCache("sim").limit
    if json_file is not None:
        kinds = {
            kind: {"entries": len(found), "bytes": sum(e.size for e in found)}
            for kind, found in by_kind.items()
        }
        write_json(json_file, {"folder": str(cache_root()), "limit": limit, "kinds": kinds})
        return
    table = Table("kind", "contents")
    for column in ("entries", "size", "last used"):
        table.add_column(column, justify="right")
    for kind, found in sorted(by_kind.items()):
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(entry.used for entry in found)))
        size = decimal(sum(entry.size for entry in found))
        table.add_row(kind, _KINDS.get(kind, ""), f"{len(found):,}", size, last)
    console = Console()
    total = sum(entry.size for found in by_kind.values() for entry in found)
    console.print(
        f"{cache_root()}: {decimal(total)} of at most {decimal(limit)}", highlight=False, soft_wrap=True
    )
    if by_kind:
        console.print(table)


@cache.command(epilog="\b\nExamples:\n  tg2hdl cache clear\n  tg2hdl cache clear sim plans")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
def clear(kinds: tuple[str, ...]) -> None:
    """Remove all entries, or those of some kinds."""
    there = {entry.kind for entry in cache_entries()}
    for kind in kinds:
        if kind not in there | set(_KINDS):
            raise click.BadParameter(f"{kind!r} is not one of {', '.join(sorted(there | set(_KINDS)))}")
    click.echo(f"{decimal(clear_cache(kinds))} freed")
