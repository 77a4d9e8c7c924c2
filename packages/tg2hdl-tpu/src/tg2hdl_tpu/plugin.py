"""Registers the parts of this package; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir import CommandDef, hookimpl

__all__ = ["tg2hdl_commands"]


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """The command ``tg2hdl tpu``."""
    return [CommandDef("tpu", "Programs of the tensor processor.", "tg2hdl_tpu.cli:tpu")]
