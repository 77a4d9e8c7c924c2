"""Components that a caller may only look at: Amaranth must not warn that they were never elaborated."""

from __future__ import annotations

from typing import TypeVar

from amaranth.hdl import Elaboratable

from tg2hdl_lower import CompiledKernel
from tg2hdl_top import TopModule

__all__ = ["may_stay_unused"]

Design = TypeVar("Design", CompiledKernel, TopModule)


def may_stay_unused(design: Design) -> Design:
    """Silence Amaranth's warning about a compiled design and its parts."""
    parts: list[Elaboratable] = [design]
    if isinstance(design, TopModule):
        parts += design.cores
    else:
        parts.append(design.core)
    for part in parts:
        part._MustUse__silence = True
    return design
