"""A programmable tensor processor: machine, assembler and simulators."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_tpu.assembler import assemble
    from tg2hdl_tpu.bundle import Bundle, Output, Region
    from tg2hdl_tpu.config import Config
    from tg2hdl_tpu.disassembler import disassemble
    from tg2hdl_tpu.isa import Instruction
    from tg2hdl_tpu.machine import Machine, Result, run_bundle

# Loaded on demand, as in the other packages.
_OWNERS = {
    "Bundle": "bundle",
    "Config": "config",
    "Instruction": "isa",
    "Machine": "machine",
    "Output": "bundle",
    "Region": "bundle",
    "Result": "machine",
    "assemble": "assembler",
    "disassemble": "disassembler",
    "run_bundle": "machine",
}

__all__ = [
    "Bundle",
    "Config",
    "Instruction",
    "Machine",
    "Output",
    "Region",
    "Result",
    "assemble",
    "disassemble",
    "run_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)
