"""Datapath: a drawing of each kernel."""

from __future__ import annotations

from markupsafe import Markup

from tg2hdl.report.context import ReportContext
from tg2hdl.report.datapath import draw_datapath

__all__ = ["render"]

MOST = 24
"""Kernels that are drawn: those of most cycles."""


def render(context: ReportContext) -> str:
    """Drawings that fold out; the kernel of most cycles is open."""
    kernels = context.facts["kernels"]
    order = sorted(range(len(kernels)), key=lambda n: -kernels[n]["cycles"])[:MOST]
    parts = [
        Markup('<details{}><summary><code>{}</code> {}</summary><div class="wide">{}</div></details>').format(
            Markup(" open") if number == order[0] else "",
            kernels[number]["name"],
            kernels[number]["layer"],
            draw_datapath(context.accelerator.design.kernels[number]),
        )
        for number in sorted(order)
    ]
    if len(kernels) > MOST:
        parts.append(Markup("<p>The {} kernels of most cycles; the printed plan has all.</p>").format(MOST))
    legend = Markup(
        '<p class="remark">Paths from loads to stores, without the arithmetic of addresses; equal lanes are one box. '
        '<span class="key memory">memory</span> <span class="key unit">multiplier or pipelined unit</span> '
        '<span class="key logic">logic</span> <span class="key register">accumulator</span></p>'
    )
    return legend + Markup("\n").join(parts)
