"""Programs that must run, and how their results are compared."""

from __future__ import annotations

from tg2hdl_backend.testing.comparison import (
    Comparison,
    compare_with_interpreter,
    interpreted_outputs,
    operations,
    ulp_difference,
)
from tg2hdl_ir.lazy import lazy_names

__all__ = [
    "PROGRAMS",
    "Comparison",
    "compare_with_interpreter",
    "interpreted_outputs",
    "operations",
    "ulp_difference",
]

__getattr__, __dir__ = lazy_names(__name__, {".programs": ("PROGRAMS",)})
