"""A dimension of `tg2hdl explore`: deeper logic in a cycle takes fewer cycles, at a slower clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tg2hdl_ir import DimensionDef, hookimpl


def levels(program: Any, options: Any, part: Any) -> list[int]:
    """Levels to try; a part with few LUTs has slow ones."""
    return [2, 4] if part.lut < 10_000 else [2, 6]


def with_levels(options: Any, value: int, part: Any) -> Any:
    """Options with a number of levels."""
    return replace(options, stage_levels=value)


@hookimpl
def tg2hdl_dimensions() -> list[DimensionDef]:
    """The levels of a stage."""
    return [DimensionDef("myext.levels", "logic levels of a stage", levels, with_levels)]
