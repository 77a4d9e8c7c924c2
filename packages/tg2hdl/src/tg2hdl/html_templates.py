"""HTML from templates: of the report, and short tables for Jupyter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["environment", "html_table"]


@cache
def environment() -> Environment:
    """Templates of the report; undefined names are errors, and text is escaped."""
    found = Environment(
        loader=PackageLoader("tg2hdl", "report/templates"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["count"] = lambda n: f"{n:,}"
    found.filters["short"] = lambda x: f"{x:.4g}"
    return found


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A title above a table.

    Parameters
    ----------
    title : str
    head : sequence of str
        Titles of the columns.
    rows : sequence of sequence of object
        Cells; text is escaped.
    """
    return environment().get_template("table.html.j2").render(title=title, head=head, rows=rows)
