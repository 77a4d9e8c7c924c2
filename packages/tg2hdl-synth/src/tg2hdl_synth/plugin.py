"""Registers the targets of this package; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_targets"]


@hookimpl
def tg2hdl_targets() -> list[TargetDef]:
    """ECP5 and iCE40 parts."""
    from tg2hdl_synth.targets import TARGETS

    return list(TARGETS)
