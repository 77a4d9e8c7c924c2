"""Simulation of a synthesized netlist, cell by cell, through the same interface as the design itself."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tg2hdl_sim import Simulation
from tg2hdl_sim.cxxrtl import open_cxxrtl
from tg2hdl_sim.model import PortInfo
from tg2hdl_synth.cell_models import MULTIPLIER, memory_model
from tg2hdl_synth.tools import Progress, run_tool, yosys_share

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
_ECP5_CELLS = "+/lattice/cells_sim_ecp5.v"
_MODULE = re.compile(r"(?:^\(\*[^\n]*\*\)\s*\n)*^module (\w+).*?^endmodule\s*?\n", re.MULTILINE | re.DOTALL)
_CLOCK = "clk"
_MEMORY_VECTORS = {"DI": 18, "AD": 14, "DO": 18, "CS": 3}
_MEMORY_PINS = ("CE", "OCE", "CLK", "WE", "RST")


@dataclass
class _Elaboration:
    """What an engine needs to know of a design; see `tg2hdl_sim.model.Elaboration`."""

    rtlil: str
    ports: dict[str, PortInfo]
    model: Any
    cells: int
    memories: tuple[Any, ...] = ()
    names: dict[str, int] = field(default_factory=dict)


def open_netlist(folder: Path, progress: Progress = lambda message: None) -> Simulation:
    """Open the netlist in a folder of `SynthesisResult`.

    All memories are reached through the ports of the design alone.

    Raises
    ------
    SynthesisError, SimulationError, ToolMissingError
        When yosys or the C++ compiler fails or is missing.
    """
    netlist = json.loads((folder / "netlist.json").read_text())
    (name,) = [n for n, m in netlist["modules"].items() if int(m["attributes"].get("top", "0"), 2)]
    module = netlist["modules"][name]
    models = _bind_models(module, name)
    ports = {
        port: PortInfo(port, len(entry["bits"]), False, "in" if entry["direction"] == "input" else "out")
        for port, entry in module["ports"].items()
        if port != _CLOCK
    }
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "cells.json").write_text(json.dumps({**netlist, "modules": {"top": module}}))
        (work / "models.v").write_text(models)
        library = _library({cell["type"] for cell in module["cells"].values()}, work)
        (work / "script.ys").write_text(_SCRIPT.format(library=library))
        progress("yosys: cell models")
        run_tool("yosys", ["-q", "-s", "script.ys"], work, log="yosys.log")
        rtlil = (work / "simulated.il").read_text()
    elaboration = _Elaboration(rtlil, ports, SimpleNamespace(name=f"netlist of {name}"), len(module["cells"]))
    model: Any = SimpleNamespace(elaboration=elaboration, name=elaboration.model.name, expected=None)
    return open_cxxrtl(model, progress=progress)


def _library(kinds: set[str], work: Path) -> str:
    """File with yosys' models; of iCE40 only those in use, as yosys takes a minute to read its largest RAM."""
    if not any(kind.startswith("SB_") for kind in kinds):
        return _ECP5_CELLS
    text = (yosys_share() / "ice40" / "cells_sim.v").read_text()
    (work / "cells.v").write_text(_MODULE.sub(lambda match: match[0] if match[1] in kinds else "", text))
    return "cells.v"


def _bind_models(module: dict[str, Any], name: str) -> str:
    """Give multipliers and memories modules with behaviour; returns their Verilog."""
    models = [MULTIPLIER]
    for number, cell in enumerate(module["cells"].values()):
        if cell["type"] == "DP16KD":
            kind = f"memory_model{number}"
            models.append(memory_model(kind, cell))
            _join(cell, {f"{pin}{side}": width for side in "AB" for pin, width in _MEMORY_VECTORS.items()})
            _keep(cell, [f"{pin}{side}" for side in "AB" for pin in (*_MEMORY_VECTORS, *_MEMORY_PINS)])
            cell["type"], cell["parameters"] = kind, {}
        elif cell["type"] == "MULT18X18D":
            registered = cell["parameters"].get("REG_OUTPUT_CLK", "NONE") == "CLK0"
            _join(cell, {"A": 18, "B": 18, "P": 36})
            _keep(cell, ["CLK0", "A", "B", "SIGNEDA", "SIGNEDB", "P"])
            cell["type"], cell["parameters"] = "multiplier_model", {"REGISTERED": f"{int(registered):032b}"}
    return "".join(models)


def _join(cell: dict[str, Any], vectors: dict[str, int]) -> None:
    """Collect pins with numbers into vectors; unconnected inputs are 0."""
    pins, directions = cell["connections"], cell["port_directions"]
    for vector, width in vectors.items():
        bits = [(pins.pop(f"{vector}{n}", None) or ["x"])[0] for n in range(width)]
        for n in range(width):
            direction = directions.pop(f"{vector}{n}", "input")
        if direction == "input":
            bits = ["0" if bit == "x" else bit for bit in bits]
        pins[vector], directions[vector] = bits, direction


def _keep(cell: dict[str, Any], names: list[str]) -> None:
    for table in ("connections", "port_directions"):
        cell[table] = {pin: value for pin, value in cell[table].items() if pin in names}
