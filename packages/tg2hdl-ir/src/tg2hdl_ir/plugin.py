"""Registration of the built-in ops through the public hooks."""

from __future__ import annotations

from tg2hdl_ir.ops import BUILTIN_OPS
from tg2hdl_ir.plugins.descriptors import OpDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_ops"]


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """Operations that every frontend may use."""
    return list(BUILTIN_OPS)
