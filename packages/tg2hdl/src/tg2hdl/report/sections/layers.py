"""Kernels: layer, time, multipliers, and where they come from in the user's program."""

from __future__ import annotations

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """A table of the kernels; the notes of the planner fold out."""
    total = max(1, sum(k["cycles"] for k in context.facts["kernels"]))
    return environment().get_template("layers.html.j2").render(kernels=context.facts["kernels"], total=total)
