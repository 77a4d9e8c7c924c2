"""Roofline: whether multipliers or memory ports limit each kernel."""

from __future__ import annotations

from typing import Any

from tg2hdl.report.charts import Dot, Series, scatter
from tg2hdl.report.context import ReportContext

__all__ = ["render"]


def render(context: ReportContext) -> str:
    """MACs per cycle over MACs per bit read; nothing for a model without multiplications."""
    kernels = [
        (n, k)
        for n, k in enumerate(context.facts["kernels"])
        if k["macs"] and k["bits_read"] and k["multipliers"]
    ]
    if not kernels:
        return ""
    roofs: dict[tuple[int, int], list[tuple[int, dict[str, Any]]]] = {}
    for n, kernel in kernels:
        roofs.setdefault((kernel["bits_read_per_cycle"], kernel["multipliers"]), []).append((n, kernel))
    places = [k["macs"] / k["bits_read"] for _, k in kernels] + [m / bits for bits, m in roofs]
    low, high = min(places) / 4, max(places) * 4
    series = []
    for color, ((bits, many), below) in enumerate(roofs.items()):
        roof = [Dot(low, low * bits), Dot(many / bits, many), Dot(high, many)]
        dots = [Dot(k["macs"] / k["bits_read"], k["macs"] / k["cycles"], _text(k), f"k{n}") for n, k in below]
        series.append(
            Series(f"{bits:,} bits a cycle, {many:,} multipliers", roof, color, line=True, has_dots=False)
        )
        series.append(Series("", dots, color))
    caption = (
        "Each kernel below its own roof, in one colour: the slope is the bits that its memory ports give in a "
        "cycle, the flat part its multipliers."
    )
    return scatter(series, x="MACs per bit read from memory", y="MACs per cycle", caption=caption)


def _text(kernel: dict[str, Any]) -> str:
    return (
        f"{kernel['label']}: {kernel['macs'] / kernel['cycles']:.3g} MACs a cycle of {kernel['multipliers']:,}, "
        f"{kernel['macs'] / kernel['bits_read']:.3g} per bit read"
    )
