"""Registers the families and commands of this package; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir import CommandDef, FamilyDef, hookimpl

__all__ = ["tg2hdl_commands", "tg2hdl_families"]


@hookimpl
def tg2hdl_families() -> list[FamilyDef]:
    """ECP5, iCE40 and Gowin, with their parts, boards and tools."""
    from tg2hdl_synth.parts import FAMILIES

    return list(FAMILIES)


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """Commands that synthesize; the front door, whose command they join, has their code."""
    return [
        CommandDef("synth", "Fmax and utilization of a model on an FPGA.", "tg2hdl.cli.synth:synth"),
        CommandDef("bench", "Measure the benchmark workloads.", "tg2hdl.cli.bench:bench"),
    ]
