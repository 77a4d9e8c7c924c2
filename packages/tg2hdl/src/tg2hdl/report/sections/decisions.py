"""Decisions of the search and the planner, with the cost of each alternative."""

from __future__ import annotations

from markupsafe import Markup

from tg2hdl.explain import explain_design
from tg2hdl.report.context import ReportContext

__all__ = ["render"]

WIDTH = 110
"""Columns of the text."""


def render(context: ReportContext) -> str:
    """The text of `tg2hdl explain`, without the options that would change the design: each takes a compilation."""
    model = context.accelerator
    text = explain_design(model.captured, model.design, variants=False).format(WIDTH)
    return Markup('<div class="wide"><pre>{}</pre></div>').format(text)
