"""Rows of the measured table as text; figures next to their limits, peers and estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

__all__ = ["COLUMNS", "cells", "markdown", "markdown_table", "peer_lines", "tools"]

Row = dict[str, Any]

COLUMNS = (
    "workload",
    "mult",
    "predicted",
    "simulated",
    "at most",
    "ideal",
    "bits",
    "ratio",
    "compile s",
    "Fmax",
    "seeds",
    "COMB",
    "FF",
    "DSP",
    "BRAM",
    "us/result",
)
_KINDS = ("comb", "ff", "dsp", "bram")


def cells(row: Row) -> tuple[str, ...]:
    """Texts of a row in the order of `COLUMNS`; ``!`` marks figures above their limit."""
    synthesis: Row = row["synthesis"] or {}
    predicted = row["predicted"]
    placed = synthesis.get("fmax_mhz")
    return (
        row["workload"],
        str(row["multipliers"] or "auto"),
        "refused" if predicted is None else _count(predicted) + " !" * (predicted > row["limit"]),
        _count(row["simulated"]),
        _count(row["limit"]),
        _count(row["ideal"]),
        {True: "exact", False: "WRONG", None: ""}[row["exact"]],
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "" if row["compile_seconds"] is None else f"{row['compile_seconds']:.1f}",
        f"{placed:.0f}" if placed else "",
        "{:.0f}-{:.0f}".format(*synthesis["fmax_range_mhz"]) if placed else "",
        *(_count(synthesis.get(kind)) for kind in _KINDS),
        "" if row["microseconds"] is None else f"{row['microseconds']:.2f}",
    )


def peer_lines(row: Row) -> list[str]:
    """A line for each peer: its figures, and how much longer it takes."""
    lines = []
    for peer in row["peers"]:
        text = f"{peer['system']}: {peer['cycles']:,} cycles"
        if peer["mhz"]:
            text += f" at {peer['mhz']:g} MHz, {peer['cycles'] / peer['mhz']:,.1f} us"
        if row["predicted"]:
            text += f"; {peer['cycles'] / row['predicted']:.2f} x our cycles"
            if peer["mhz"] and row["microseconds"]:
                text += f", {peer['cycles'] / peer['mhz'] / row['microseconds']:.2f} x our time"
        lines.append(text + (f"; {peer['note']}" if peer["note"] else ""))
    return lines


def markdown(rows: Sequence[Row]) -> str:
    """The whole table, peers, critical paths and the error of the estimates as Markdown."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `tg2hdl bench -o FILE.json`. Cycles from start to done of one call, data on chip; `!` marks what",
        "is above its limit. `ratio` is cycles x multipliers / MACs. Fmax (MHz) is the median over the seeds of place",
        "and route, out of context, without pins; with each seed the faster of what nextpnr's two placers lead to. The",
        "JSON names that placer; where it names none, only `heap` was tried.",
    ]
    for target in dict.fromkeys(row["target"] for row in rows):
        of = (cells(row) for row in rows if row["target"] == target)
        lines += ["", f"## Compiled for {target}", "", *markdown_table(COLUMNS, of)]
    lines += _listed("Beside other systems", rows, peer_lines)
    lines += _listed("Critical paths", rows, _critical)
    lines += _listed(
        "Refused", rows, lambda row: [row["refused"].replace("\n", " ")] if row["refused"] else []
    )
    lines += _estimates(rows)
    lines += ["", "## Versions", ""]
    for text in dict.fromkeys(tools(row) for row in rows):
        lines.append(f"- {text}")
    return "\n".join(lines) + "\n"


def markdown_table(columns: Sequence[str], rows: Iterable[Iterable[Any]], right: int = 0) -> list[str]:
    """Lines of a Markdown table.

    Parameters
    ----------
    rows : iterable of iterable
        Cells of each row.  Numbers get commas between thousands, None is an empty cell.
    right : int
        How many columns at the end are aligned to the right.
    """
    marks = "---|" * (len(columns) - right) + "---:|" * right
    return [_line(columns), "|" + marks, *(_line(row) for row in rows)]


def _line(row: Iterable[Any]) -> str:
    return "| " + " | ".join(map(_cell, row)) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def _title(row: Row) -> str:
    return f"{row['workload']} x{row['multipliers'] or 'auto'}, {row['target']}"


def _listed(title: str, rows: Sequence[Row], describe: Any) -> list[str]:
    found = [(row, describe(row)) for row in rows]
    lines = [f"- {_title(row)}: {'; '.join(texts)}" for row, texts in found if texts]
    return ["", f"## {title}", "", *lines] if lines else []


def _critical(row: Row) -> list[str]:
    path = (row["synthesis"] or {}).get("critical_path") or []
    return [" -> ".join(f"{step['what']} {step['delay']:.1f}" for step in path) + " ns"] if path else []


def _estimates(rows: Sequence[Row]) -> list[str]:
    found = [row for row in rows if row["synthesis"] and row["synthesis"]["estimate"]]
    found = [row for row in found if row["synthesis"]["fmax_mhz"]]
    if not found:
        return []
    columns = ("workload", *(f"{k.upper()} est. / result" for k in _KINDS), "Fmax est. / result")
    errors: dict[str, list[float]] = {kind: [] for kind in (*_KINDS, "fmax")}
    body = []
    for row in found:
        estimate, result = row["synthesis"]["estimate"], dict(row["synthesis"])
        result["fmax"] = round(result["fmax_mhz"])
        texts = [_title(row)]
        for kind in errors:
            expected, real = round(estimate[kind]), result[kind]
            change = (expected - real) / real if real else float(expected != real)
            errors[kind].append(change)
            texts.append(f"{expected:,} / {real:,} ({change:+.0%})")
        body.append(texts)
    summary = [
        f"{kind}: median {median(map(abs, e)):.0%}, worst {max(e, key=abs):+.0%}"
        for kind, e in errors.items()
    ]
    return [
        "",
        "## Estimate before synthesis against place and route",
        "",
        "`python benchmarks/synth/fit_table.py --update` estimates all rows anew.",
        "",
        f"Error of {len(found)} designs, " + "; ".join(summary) + ".",
        "",
        *markdown_table(columns, body),
    ]


def tools(row: Row) -> str:
    """Date and versions of a row, or of a record of `write_results`."""
    return f"{row['date']}: " + ", ".join(f"{name} {version}" for name, version in row["versions"].items())


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
