"""The search over forms of a program: each rewrite that may save cycles is planned, and taken where it is worth it."""

from __future__ import annotations

from tg2hdl_lower import Alternative, Cost, Decision
from tg2hdl_lower.decisions import LARGEST_RATIO, most_cycles

__all__ = ["LARGEST_RATIO", "Alternative", "Cost", "Decision", "most_cycles"]
