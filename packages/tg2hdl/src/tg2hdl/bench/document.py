"""The measured table as a file: JSON, with Markdown next to it; rows of several runs are merged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tg2hdl.bench.suite import BenchRow, versions
from tg2hdl.bench.table import markdown
from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_files

__all__ = ["json_text", "merge_document", "write_results"]

Document = dict[str, Any]

_WIDTH = 300
"""Characters of a record that stays on one line."""


def json_text(value: Any) -> str:
    """Results as JSON with a record on each line, so that a diff shows the rows that changed.

    Lists and objects of up to 300 characters are one line each; longer ones, and the whole, have a line for each
    of their items.
    """
    return _lines(json.loads(json.dumps(value)), 0, 0) + "\n"  # keys are strings


def _lines(value: Any, indent: int, width: int = _WIDTH) -> str:
    flat = json.dumps(value)
    if not isinstance(value, dict | list) or not value or len(flat) <= width:
        return flat
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_lines(item, indent + 1)}" for key, item in value.items()]
    else:
        items = [_lines(item, indent + 1) for item in value]
    begin = "\n" + " " * (indent + 1)
    return flat[0] + begin + f",{begin}".join(items) + "\n" + " " * indent + flat[-1]


def merge_document(path: Path, rows: Sequence[BenchRow], order: Sequence[str]) -> Document:
    """Put rows into a JSON file, in the place of those of the same workload, multipliers and target.

    A row without synthesis keeps that of the row before it when the hardware is the same.

    Parameters
    ----------
    path : Path
        Made when it is missing; ``path.with_suffix(".md")`` gets the same as Markdown.
    order : sequence of str
        Names of the workloads in the order of the table.

    Returns
    -------
    dict
        The whole document.

    Raises
    ------
    InputError
        When the file exists and is not such a table.
    """
    kept = {_key(row): row for row in _read(path)["rows"]}
    for row in rows:
        before = kept.get(row.key)
        if row.synthesis is None and before and before.get("rtlil_digest") == row.rtlil_digest is not None:
            row.synthesis = before["synthesis"]
        kept[row.key] = row.to_dict()
    places = {name: place for place, name in enumerate(order)}
    ordered = sorted(
        kept.values(),
        key=lambda r: (r["target"] != "generic", places.get(r["workload"], len(places)), r["multipliers"]),
    )
    document: Document = {"rows": ordered}
    write_files(
        path.parent, {path.name: json_text(document), path.with_suffix(".md").name: markdown(ordered)}
    )
    return document


def write_results(path: Path, results: Mapping[str, Any], table: Callable[[Document], str]) -> None:
    """Write results with date and versions of the tools as JSON, with their table as Markdown next to it.

    Parameters
    ----------
    path : Path
        Ends in ``.json``.
    results : mapping
        An earlier ``date`` and ``versions`` in it are replaced.
    table : callable
        Markdown of what is written as JSON; `tools` gives its line of date and versions.
    """
    made = {"date": datetime.now(UTC).date().isoformat(), "versions": versions()}
    document: Document = made | dict(results) | made
    write_files(path.parent, {path.name: json_text(document), path.with_suffix(".md").name: table(document)})


def _key(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["workload"], row["multipliers"], row["target"]


def _read(path: Path) -> Document:
    if not path.is_file():
        return {"rows": []}
    try:
        document: Document = json.loads(path.read_text())
        for row in document["rows"]:
            _key(row)
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not a table of `tg2hdl bench`", hint="give another file, or remove this one"
        ) from None
    return document
