"""Results of the fuzzers on disk: one JSON file and one Markdown page each, with date and versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tg2hdl.bench import json_text, markdown_table, versions

__all__ = ["HERE", "write_record"]

HERE = Path(__file__).parent


def write_record(
    path: Path, title: str, command: str, totals: Mapping[str, Any], **tables: Mapping[str, Any]
) -> None:
    """Write `path`, a JSON file, and beside it a Markdown page of the same name.

    Parameters
    ----------
    path : Path
        Ends in ``.json``.
    title : str
        One line: what was compared with what.
    command : str
        The command line that gives these figures.
    totals : mapping of str to figure
        First table of the page.
    tables : mapping of str to figure, each
        Further tables of the page, under their names: for example counts by reason.  An empty one is left out of the
        page.
    """
    found = versions("onnx", "onnxruntime")
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    record = {"date": date, "versions": found, "command": command, "totals": dict(totals)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(record | {k: dict(v) for k, v in tables.items()}))
    tools = ", ".join(f"{name} {version}" for name, version in found.items())
    lines = [f"# {title}", "", f"`{command}`, {date}; {tools}.", "", *_table(totals)]
    for name, rows in tables.items():
        if rows:
            lines += ["", f"## {name.replace('_', ' ').capitalize()}", "", *_table(rows)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


def _table(rows: Mapping[str, Any]) -> list[str]:
    return markdown_table(("", ""), rows.items(), right=1)
