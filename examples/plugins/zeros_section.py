"""A section of the report: how many weights are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tg2hdl_ir import ReportSection, hookimpl


def render(context: Any) -> str:
    """HTML of the section; an empty text leaves it out."""
    rows = []
    for buffer in context.accelerator.design.program.buffers:
        if buffer.role == "weight" and buffer.initial is not None:
            share = 1 - np.count_nonzero(buffer.initial) / max(1, buffer.depth)
            rows.append(f"<tr><td>{buffer.name}</td><td>{share:.0%}</td></tr>")
    return f"<table><tr><th>weights</th><th>zero</th></tr>{''.join(rows)}</table>" if rows else ""


@hookimpl
def tg2hdl_report_sections() -> list[ReportSection]:
    """Between the built-in sections, which are at 10 to 80."""
    return [ReportSection("zeros", "Zero weights", render, order=45)]
