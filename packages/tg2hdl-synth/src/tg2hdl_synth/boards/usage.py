"""The cells of a placed design, as a whole and by kernel and host port."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tg2hdl_synth.families import tools_of
from tg2hdl_synth.netlist import KINDS
from tg2hdl_top import Design

__all__ = ["COLUMNS", "BoardComponent", "limiting_part", "split_clocks", "usage_by_part"]

COLUMNS = ("LUT", "FF", "DSP", "RAM")
"""LUT sites (also those of carries and LUT RAM), flip-flops, multipliers, block RAMs: `KINDS` of cells."""
_NO_MODULE = "clock and pins"
_REST = "memories and control"


@dataclass(frozen=True)
class BoardComponent:
    """Components that a board takes besides a compiled design.

    Parameters
    ----------
    name : str
    make : callable
        Makes the component: its member `uart` is that of the host port ``uart``.
    units : mapping of str to str
        Titles of its submodules.
    hint : str
        A way to make it smaller.
    """

    name: str
    make: Callable[[], Any]
    units: Mapping[str, str]
    hint: str


def usage_by_part(
    netlist: Mapping[str, Any], family: str, design: Design | BoardComponent
) -> dict[str, dict[str, int]]:
    """Cells of each column for each kernel and host port, and for the rest; the columns add up to the whole.

    Parameters
    ----------
    netlist : mapping
        JSON that nextpnr wrote, of a design in the instance ``design``.
    """
    cells = netlist["modules"]["top"]["cells"]
    tools = tools_of(family)
    modules = _modules(cells)
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0))
    for name, cell in cells.items():
        counts = found[_title(modules.get(name, ""), design)]
        for kind, number in tools.counts(cell).items():
            counts[COLUMNS[KINDS.index(kind)]] += number
    return {name: dict(found[name]) for name in sorted(found, key=_order) if any(found[name].values())}


def split_clocks(report: dict[str, Any]) -> tuple[tuple[float, float], ...]:
    """Keep only the clock of the design in nextpnr's report; MHz that each other clock has, and that it reaches.

    A report without a net of this name stays as it is.

    Parameters
    ----------
    report : dict of str to object
        Decoded JSON of ``nextpnr --report``; changed.
    """
    own = {name for name in report["fmax"] if name.removeprefix("$glbnet$") == "clk"}
    if not own:
        return ()
    others = [entry for name, entry in report["fmax"].items() if name not in own]
    report["fmax"] = {name: report["fmax"][name] for name in own}
    report["critical_paths"] = [p for p in report["critical_paths"] if p["to"].split()[-1] in own]
    return tuple((entry["constraint"], entry["achieved"]) for entry in others)


def limiting_part(
    report: Mapping[str, Any], netlist: Mapping[str, Any], design: Design | BoardComponent
) -> str:
    """Kernel or host port where the slowest path from register to register is, from nextpnr's report.

    Parameters
    ----------
    report : mapping of str to object
        Decoded JSON of ``nextpnr --report``.
    netlist : mapping of str to object
        Decoded JSON of the placed netlist.
    design : Design or BoardComponent
    """
    paths = [
        p["path"]
        for p in report["critical_paths"]
        if p["from"] == p["to"] and not p["to"].startswith("<async>")
    ]
    if not paths:
        return ""
    slowest = max(paths, key=lambda path: sum(float(step["delay"]) for step in path))
    modules = _modules(netlist["modules"]["top"]["cells"])
    ends = (slowest[0]["from"]["cell"], slowest[-1]["to"]["cell"])
    return " to ".join(dict.fromkeys(_title(modules.get(cell, ""), design) for cell in ends))


def _modules(cells: Mapping[str, Any]) -> dict[str, str]:
    """First two levels of the names of cells; a cell that nextpnr made has those of a neighbour on its smallest net."""
    found, new = {}, []
    for name in cells:
        if name.startswith("$"):
            new.append(name)
        else:
            found[name] = ".".join(name.split(".")[:2])
    nets: dict[int, list[str]] = defaultdict(list)
    for name, cell in cells.items() if new else ():
        for bit in _bits(cell):
            nets[bit].append(name)
    while new:
        left = []
        for name in new:
            near = sorted((nets[bit] for bit in _bits(cells[name])), key=len)
            module = next((found[other] for net in near for other in net if other in found), None)
            left.append(name) if module is None else found.update({name: module})
        if len(left) == len(new):
            break
        new = left
    return found


def _bits(cell: Mapping[str, Any]) -> Iterator[int]:
    return (bit for bits in cell["connections"].values() for bit in bits if isinstance(bit, int))


def _title(module: str, design: Design | BoardComponent) -> str:
    if not module.startswith("design."):
        return _NO_MODULE
    if isinstance(design, BoardComponent):
        return design.units.get(module.removeprefix("design."), _REST)
    kernel, port = (re.fullmatch(rf"design\.{kind}(\d+)", module) for kind in ("kernel", "port"))
    if kernel:
        return f"kernel {kernel[1]} ({design.core_plans[int(kernel[1])].kernel.name})"
    if port:
        return f"port {design.ports[int(port[1])].kind}"
    return "multipliers" if module == "design.multipliers" else _REST


def _order(title: str) -> tuple[int, int]:
    words = title.split()
    kinds = ("kernel", "multipliers", "memories", "port", "clock")
    if words[0] not in kinds:
        return 0, 0
    return kinds.index(words[0]), int(words[1]) if words[0] == "kernel" else 0
