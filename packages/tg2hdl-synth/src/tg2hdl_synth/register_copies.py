"""Registers with very many readers copied, on the flat netlist of an ECP5, so that each copy stands near its own.

One register that enables every accumulator of a design that fills the part would have to reach all of it in one cycle.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from typing import Any

__all__ = ["copy_registers"]

_LARGE = 20000
"""Flip-flops above which a design is so wide that copies pay."""
_MANY = 100
"""Readers above which a register is copied."""
_GROUP = 32
"""Readers of one copy."""
_HOPS = 2
"""Registers in a row that are copied where nothing is between them; the way to the readers takes as many cycles."""
_SITES = {"TRELLIS_DPR16X4": 4}
"""Slices that a cell becomes, each with its own wire."""

Cell = dict[str, Any]


def copy_registers(netlist: dict[str, Any]) -> int:
    """Change a netlist of yosys' JSON in place; returns how many flip-flops it has more.

    Clock and data are those of the original, so that a copy always has the same value.
    """
    (module,) = [m for m in netlist["modules"].values() if int(m["attributes"].get("top", "0"), 2)]
    cells: dict[str, Cell] = module["cells"]
    registers = {
        cell["connections"]["Q"][0]: name for name, cell in cells.items() if cell["type"] == "TRELLIS_FF"
    }
    if len(registers) <= _LARGE:
        return 0
    readers: dict[int, list[tuple[str, str]]] = defaultdict(list)
    top_bit = max(bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int))
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                for bit in bits:
                    if bit in registers:
                        readers[bit].append((name, pin))
    ports = {bit for port in module["ports"].values() for bit in port["bits"]}
    before = len(cells)
    for bit, found in readers.items():
        sites = sum(_SITES.get(cells[name]["type"], 1) for name, _ in found)
        if sites <= _MANY or bit in ports or isinstance(_data(cells[registers[bit]]), str):
            continue
        found.sort(key=lambda reader: _natural(reader[0]))
        for group in _groups(found, cells)[1:]:
            top_bit = _copy(cells, registers, bit, top_bit)
            for name, pin in group:
                pins = cells[name]["connections"]
                pins[pin] = [top_bit if b == bit else b for b in pins[pin]]
    return len(cells) - before


def _copy(cells: dict[str, Cell], registers: dict[int, str], bit: int, top_bit: int) -> int:
    """Copy a register and the ones in a row before it; returns the bit of the last one, the highest in use."""
    chain = [registers[bit]]
    while len(chain) < _HOPS and (pin := _data(cells[chain[-1]])) in registers:
        chain.append(registers[pin])
    data: Any = None
    for name in reversed(chain):
        cell = copy.deepcopy(cells[name])
        if data is not None:
            cell["connections"]["DI"] = [data]
        top_bit += 1
        cells[f"{name}${top_bit}"] = cell
        cell["connections"]["Q"] = [top_bit]
        data = top_bit
    return top_bit


def _data(cell: Cell) -> Any:
    return cell["connections"]["DI"][0]


def _groups(readers: list[tuple[str, str]], cells: dict[str, Cell]) -> list[list[tuple[str, str]]]:
    groups: list[list[tuple[str, str]]] = []
    room = 0
    for reader in readers:
        sites = _SITES.get(cells[reader[0]]["type"], 1)
        if sites > room:
            groups.append([])
            room = _GROUP
        groups[-1].append(reader)
        room -= sites
    return groups


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
