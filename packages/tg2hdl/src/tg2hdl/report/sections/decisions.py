"""Decisions about the whole program; those about a kernel are in its own page."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from tg2hdl.explain import explain_design
from tg2hdl.report.context import ReportContext

__all__ = ["render"]

WIDTH = 110
"""Columns of the text."""


def render(context: ReportContext) -> str:
    """The text of `tg2hdl explain`, without kernels and without options that would change the design."""
    model = context.accelerator
    found = explain_design(model.captured, model.design, variants=False)
    if not found.decisions and not found.notes:
        return ""
    return Markup('<div class="wide"><pre>{}</pre></div>').format(replace(found, kernels=()).format(WIDTH))
