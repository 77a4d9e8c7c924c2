"""Charts of a page: SVG in the colours of its theme, with a legend below, and heat maps drawn by the script."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup

from tg2hdl.html_templates import environment

__all__ = ["COLORS", "Dot", "Series", "as_json", "heat_map", "scatter"]

COLORS = 8
"""Colours of series, which the style sheet names ``--c0`` to ``--c7``."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 380, 66, 14, 10, 46

_STEPS = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    *(tuple(k / n for k in range(n, 10 * n)) for n in (1, 2, 4)),
)
"""Multiples of a power of ten at which an axis has ticks, the coarsest first."""


class Dot(NamedTuple):
    """A point: where it is, the text that is shown at it, and the id of what it opens."""

    x: float
    y: float
    text: str = ""
    opens: str = ""


@dataclass(frozen=True)
class Series:
    """Points of one colour.

    Parameters
    ----------
    name : str
        In the legend.
    dots : sequence of Dot
    color : int
        Below `COLORS`.
    line : bool
        Whether a line joins the points.
    has_dots : bool
        Whether the points themselves are drawn.
    """

    name: str
    dots: Sequence[Dot]
    color: int = 0
    line: bool = False
    has_dots: bool = True


def scatter(series: Sequence[Series], *, x: str, y: str, caption: str) -> Markup:
    """Points over two logarithmic axes, whose titles are `x` and `y`.

    Parameters
    ----------
    series : sequence of Series
    x, y : str
        Titles of the axes.
    caption : str
    """
    dots = [dot for s in series for dot in s.dots]
    xs, ys = [d.x for d in dots], [d.y for d in dots]
    across, up = _Axis.over(xs, _LEFT, _WIDTH - _RIGHT), _Axis.over(ys, _HEIGHT - _BOTTOM, _TOP)
    drawn = [
        {
            "name": s.name,
            "color": s.color % COLORS,
            "path": " ".join(f"{across.at(d.x):.1f},{up.at(d.y):.1f}" for d in s.dots) if s.line else "",
            "dots": [(across.at(d.x), up.at(d.y), d.text, d.opens) for d in s.dots] if s.has_dots else [],
        }
        for s in series
    ]
    return _rendered(
        "scatter",
        series=drawn,
        size=(_WIDTH, _HEIGHT),
        box=(_LEFT, _TOP, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM),
        ticks=(across.ticks(), up.ticks()),
        titles=(x, y),
        caption=caption,
    )


def heat_map(name: str, rows: Sequence[dict[str, Any]], cycles: tuple[int, int], caption: str) -> Markup:
    """Rows of shares from 0 to 1 over the cycles of a run.

    Parameters
    ----------
    name : str
        Id of the element.
    rows : sequence of dict
        ``name``, ``note``, and ``used``: a share for each column.
    cycles : (int, int)
        The first cycle, and the one after the last.
    caption : str
    """
    runs = [[(n, len([*same])) for n, same in groupby(round(100 * x) for x in row["used"])] for row in rows]
    data = [dict(row) | {"used": run} for row, run in zip(rows, runs, strict=True)]
    return _rendered(
        "heat", name=name, data=as_json({"rows": data, "cycles": cycles}), caption=caption, rows=rows
    )


def as_json(data: Any) -> Markup:
    """Data for a script element of the page."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _rendered(template: str, **values: Any) -> Markup:
    return Markup(environment().get_template(f"{template}.html.j2").render(**values))


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from `low` to `high`, drawn from `first` to `last` pixels."""

    low: float
    high: float
    first: int
    last: int

    @classmethod
    def over(cls, values: Sequence[float], first: int, last: int) -> _Axis:
        found = [v for v in values if v > 0] or [1.0]
        low, high = min(found), max(found)
        margin = max((high / low) ** 0.06, 1.15)
        return cls(low / margin, high * margin, first, last)

    def at(self, value: float) -> float:
        share = (math.log(max(value, self.low)) - math.log(self.low)) / (
            math.log(self.high) - math.log(self.low)
        )
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        """At least four round numbers: powers of ten, or also their multiples."""
        decades = math.log10(self.high / self.low)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = max(1, math.ceil(decades / 6))
        found: list[float] = []
        for steps in _STEPS:
            values = (step * 10.0**power for power in powers if power % every == 0 for step in steps)
            found = [value for value in values if self.low <= value <= self.high]
            if len(found) >= 4:
                break
        return [(self.at(v), f"{v:,.0f}" if v == int(v) else f"{v:,.4g}") for v in found]
