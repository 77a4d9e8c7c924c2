"""Rules of tinygrad's lowering that make numbers wrong, corrected for the whole process.

They would be wrong in captured kernels, in weights that tinygrad computes, and in its own result, the reference.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad import codegen
from tinygrad.codegen import simplify
from tinygrad.uop.ops import Ops, PatternMatcher, UOp

__all__ = ["correct_tinygrad"]

_MERGE = simplify.simplify_merge_adjacent


def correct_tinygrad() -> None:
    """Replace the wrong rules; a second call changes nothing."""
    ranges: Any = codegen.pm_simplify_ranges
    if any(function is _MERGE for _, function in ranges.patterns):
        rules = [(p, _merged if function is _MERGE else function) for p, function in ranges.patterns]
        codegen.pm_simplify_ranges = PatternMatcher(rules)
    # tinygrad 0.14 drops `float -> half -> float`, which is legal only where GPU images are read.
    if hasattr(codegen, "pm_simplify_add_image"):
        codegen.pm_simplify_add_image = PatternMatcher([])


def _merged(u: UOp) -> UOp | None:
    """Merge ranges; tinygrad 0.13 and 0.14 also merge one that they have merged before.

    With a range that the summand does not depend on, as in ``x.repeat(2, 1).sum()``, the sum was multiplied twice.
    """
    if u.op is Ops.REDUCE:
        bare = simplify.reduce_unparented(u)
        if bare is not None:
            return bare
    merged = _MERGE(u)
    return merged if merged is None or _trips(merged) == _trips(u) else None


def _trips(u: UOp) -> int:
    return math.prod(int(r.vmax) + 1 for r in u.ended_ranges)
