"""Programs that must run, and how their results are compared."""

from __future__ import annotations

from typing import Any

from tg2hdl_backend.testing.comparison import (
    Comparison,
    compare_with_interpreter,
    interpreted_outputs,
    operations,
    ulp_difference,
)

__all__ = [
    "PROGRAMS",
    "Comparison",
    "compare_with_interpreter",
    "interpreted_outputs",
    "operations",
    "ulp_difference",
]


def __getattr__(name: str) -> Any:
    if name != "PROGRAMS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tg2hdl_backend.testing.programs import PROGRAMS

    return PROGRAMS
