"""FPGA families: one object each, which a plugin's hook ``tg2hdl_families`` describes and `Family` equips with tools.

The package of a family has its `FamilyDef`, which is loaded by every command; all else is loaded on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_synth.families.base import Family, tools_of

__all__ = ["Family", "tools_of"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tg2hdl_synth.families import base

    return getattr(base, name)
