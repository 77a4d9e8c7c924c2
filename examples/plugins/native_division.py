"""A mapped operation: a quotient is one division, rounded once, and not a product with the reciprocal."""

from __future__ import annotations

from tg2hdl_ir import TinygradOpDef, hookimpl


@hookimpl
def tg2hdl_tinygrad_ops() -> list[TinygradOpDef]:
    """tinygrad's FDIV as the IR's ``div``, for which there is a float unit."""
    return [TinygradOpDef("FDIV", "div")]
