"""Registers the parts of this package; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import BoardDef, CommandDef, FlowDef, TargetDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_boards", "tg2hdl_commands", "tg2hdl_flows", "tg2hdl_targets"]


@hookimpl
def tg2hdl_targets() -> list[TargetDef]:
    """ECP5 and iCE40 parts."""
    from tg2hdl_synth.parts import PARTS

    return list(PARTS)


@hookimpl
def tg2hdl_flows() -> list[FlowDef]:
    """Yosys and nextpnr for both families."""
    return [
        FlowDef("ecp5", "Yosys and nextpnr-ecp5, from wheels", "tg2hdl_synth.flows.ecp5:Ecp5Flow"),
        FlowDef("ice40", "Yosys and nextpnr-ice40, from wheels", "tg2hdl_synth.flows.ice40:Ice40Flow"),
    ]


@hookimpl
def tg2hdl_boards() -> list[BoardDef]:
    """Boards of ECP5 and iCE40."""
    from tg2hdl_synth.boards.definitions import BOARDS

    return list(BOARDS)


@hookimpl
def tg2hdl_commands() -> list[CommandDef]:
    """Commands that synthesize; the front door, whose command they join, has their code."""
    return [
        CommandDef("synth", "Fmax and utilization of a model on an FPGA.", "tg2hdl.cli.synth:synth"),
        CommandDef("bench", "Measure the benchmark workloads.", "tg2hdl.cli.bench:bench"),
    ]
