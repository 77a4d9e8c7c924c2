"""Numbers: ranges of the computed values, agreement with tinygrad, and quantization error."""

from __future__ import annotations

from tg2hdl.html_templates import environment
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """A table of ranges; nothing when the report was made without inputs."""
    numbers = context.facts.get("numbers")
    if numbers is None:
        return ""
    writers: dict[str, str] = {}
    for kernel in context.facts["kernels"]:
        writers |= dict.fromkeys(kernel["writes"], kernel["layer"] or kernel["name"])
    return environment().get_template("numbers.html.j2").render(numbers=numbers, writers=writers)
