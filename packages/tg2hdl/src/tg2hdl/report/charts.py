"""Charts of a report: figures of plotly as JSON, drawn by the page's script in the colours of its theme."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from markupsafe import Markup, escape

from tg2hdl_ir.errors import ToolMissingError

__all__ = ["COLORS", "chart", "plotly_script"]

COLORS = ("#3b7dd8", "#d9822b", "#3f9c6b", "#9a5bb8", "#c8504f", "#4aa3a8", "#8d7f3b", "#7783a1")
"""Readable on light and on dark ground."""

_numbers = count(1)


def chart(
    traces: Sequence[dict[str, Any]],
    layout: dict[str, Any],
    *,
    height: int,
    caption: str = "",
    zoom: str = "both",
) -> Markup:
    """A chart.

    Parameters
    ----------
    traces, layout : dict
        As plotly takes them; fonts, ground and grid come from the page.
    height : int
        In CSS pixels.
    caption : str
        Description of the chart, read where it cannot be seen.
    zoom : {"both", "x"}
        Directions in which the wheel zooms.
    """
    base: dict[str, Any] = {"height": height, "margin": {"l": 8, "r": 8, "t": 8, "b": 40}, "dragmode": "pan"}
    # Above the plot, however many lines it takes: plotly makes room for it.
    base["legend"] = {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"}
    base |= layout
    axes = {name: dict(base.get(name, {})) for name in ("xaxis", "yaxis")}
    for axis in axes.values():
        axis.setdefault("automargin", True)
    if zoom == "x":
        axes["yaxis"]["fixedrange"] = True
    figure = json.dumps({"data": list(traces), "layout": base | axes}).replace("</", "<\\/")
    name = f"chart{next(_numbers)}"
    return Markup(
        '<figure class="chart"><div id="{name}" style="height:{height}px" role="img" aria-label="{caption}"></div>'
        '<script type="application/json" data-chart="{name}">{figure}</script>'
        "<figcaption>{caption}</figcaption></figure>"
    ).format(name=name, height=height, caption=escape(caption), figure=Markup(figure))


@cache
def plotly_script() -> Markup:
    """The plotting library's own script, so that the page needs no network; gzip in base64, 1.9 MB in place of 4.8.

    Raises
    ------
    ToolMissingError
        When plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ToolMissingError(
            "a report needs the plotting library plotly, which is not installed",
            hint='pip install "tg2hdl[report]"',
        ) from error
    packed = gzip.compress(get_plotlyjs().encode(), mtime=0)
    return Markup(base64.b64encode(packed).decode())
