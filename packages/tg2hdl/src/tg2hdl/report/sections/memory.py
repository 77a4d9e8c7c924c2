"""Memory map: buffers, words and lanes."""

from __future__ import annotations

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """A table of the memories."""
    memories = context.facts["memories"]
    template = environment().get_template("memory.html.j2")
    return template.render(
        memories=memories,
        largest=max((m["bits"] for m in memories), default=1),
        ecp5=any(m["block_rams_ecp5"] for m in memories),
    )
