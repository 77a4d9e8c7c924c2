"""Registration of the built-in ops through the public hooks."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import OpDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_ops"]


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """Operations that every frontend may use."""
    from tg2hdl_ir.ops import BUILTIN_OPS  # brings in numpy, which `tg2hdl --help` does not wait for

    return list(BUILTIN_OPS)
