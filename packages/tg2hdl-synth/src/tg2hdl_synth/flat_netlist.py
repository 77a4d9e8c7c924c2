"""The JSON of yosys for a flat netlist: its module, and the order of its names."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["natural", "top_module"]


def top_module(netlist: dict[str, Any]) -> dict[str, Any]:
    """Return the top module."""
    modules: list[dict[str, Any]] = list(netlist["modules"].values())
    return next(m for m in modules if int(m["attributes"].get("top", "0"), 2))


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within names by their value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
