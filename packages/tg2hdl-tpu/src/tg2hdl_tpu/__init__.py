"""A programmable tensor processor: machine, assembler and simulators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_tpu.assembler import assemble
    from tg2hdl_tpu.bundle import Bundle, Output, Region
    from tg2hdl_tpu.config import Config
    from tg2hdl_tpu.disassembler import disassemble
    from tg2hdl_tpu.isa import Instruction
    from tg2hdl_tpu.machine import Machine, Result, run_bundle

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

# Loaded on demand, as in the other packages.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".assembler": ("assemble",),
        ".bundle": ("Bundle", "Output", "Region"),
        ".config": ("Config",),
        ".disassembler": ("disassemble",),
        ".isa": ("Instruction",),
        ".machine": ("Machine", "Result", "run_bundle"),
    },
)
