"""Registration of the built-in ops, rewrites and roundings through the public hooks."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import OpDef, PassDef, RoundingDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_ops", "tg2hdl_passes", "tg2hdl_roundings"]


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """Operations that every frontend may use."""
    from tg2hdl_ir.ops import BUILTIN_OPS  # brings in numpy, which `tg2hdl --help` does not wait for

    return list(BUILTIN_OPS)


@hookimpl
def tg2hdl_passes() -> list[PassDef]:
    """Rewrites of kernels and programs."""
    from tg2hdl_ir.passes.built_in import BUILTIN_PASSES

    return list(BUILTIN_PASSES)


@hookimpl
def tg2hdl_roundings() -> list[RoundingDef]:
    """Roundings of numbers, by their direction."""
    from tg2hdl_ir.tensors.roundings import BUILTIN_ROUNDINGS

    return list(BUILTIN_ROUNDINGS)
