"""Simulation of a synthesized netlist, cell by cell, through the same interface as the design itself."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tg2hdl_sim import PortInfo, Simulation
from tg2hdl_sim.cxxrtl import open_cells
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.result import SynthesisResult
from tg2hdl_synth.tools import Progress, run_tool

__all__ = ["open_netlist"]

_SCRIPT = """\
read_verilog -nooverwrite {library}
read_verilog models.v
read_json cells.json
hierarchy -top top
proc
flatten
opt_clean
write_rtlil simulated.il
"""
_CLOCK = "clk"


@dataclass
class _Elaboration:
    """A design as an engine sees it; see `tg2hdl_sim.model.Elaboration`."""

    rtlil: str
    ports: dict[str, PortInfo]
    model: Any
    cells: int
    memories: tuple[Any, ...] = ()
    names: dict[str, int] = field(default_factory=dict)


def open_netlist(result: SynthesisResult, progress: Progress = lambda message: None) -> Simulation:
    """Open the netlist of a synthesis.

    Memories are reached only through the ports of the design.

    Parameters
    ----------
    result : SynthesisResult
        With its netlist.
    progress : callable, optional
        Called with a message before each slow step.

    Raises
    ------
    SynthesisError, SimulationError, ToolMissingError
        When yosys or the C++ compiler fails or is missing.
    InputError
        For a family whose cells have no models.
    """
    netlist = json.loads((result.folder / "netlist.json").read_text())
    (name,) = [n for n, m in netlist["modules"].items() if int(m["attributes"].get("top", "0"), 2)]
    module = netlist["modules"][name]
    ports = {
        port: PortInfo(port, len(entry["bits"]), False, "in" if entry["direction"] == "input" else "out")
        for port, entry in module["ports"].items()
        if port != _CLOCK
    }
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        library, models = tools_of(result.family).simulation_models(module, work)
        (work / "cells.json").write_text(json.dumps({**netlist, "modules": {"top": module}}))
        (work / "models.v").write_text(models)
        (work / "script.ys").write_text(_SCRIPT.format(library=library))
        progress("yosys: cell models")
        run_tool("yosys", ["-q", "-s", "script.ys"], work, log="yosys.log")
        rtlil = (work / "simulated.il").read_text()
    elaboration = _Elaboration(rtlil, ports, SimpleNamespace(name=f"netlist of {name}"), len(module["cells"]))
    model: Any = SimpleNamespace(elaboration=elaboration, name=elaboration.model.name, expected=None)
    return open_cells(model, progress=progress)
