"""High fan-out registers replicated, on the flat netlist of an ECP5, so that each copy is placed near its readers.

A register that enables every accumulator of a design that fills the part would have to reach all of it in one cycle.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from typing import Any

from tg2hdl_synth.flat_netlist import natural, top_module

__all__ = ["copy_registers", "keep_feedback_close"]

_READERS = 16
"""Readers of one copy, unless that takes more than `_COPIES` copies; a quarter of it if only LUTs read the register."""
_COPIES = 8
"""Maximum copies of a register; few enables or clears fit one tile, so that more copies would spread the slices."""
_NEAR = 48
"""Readers of one copy of a register that only delays another one and feeds only LUTs, as on the paths to some hundred
multipliers.  Each copy can be placed next to its readers, and has a cycle to get there."""
_MANY = 48
"""Readers above which a register is copied; a quarter where all of them are LUTs, such as the input multiplexers of
multipliers that kernels share."""

_ADDRESS = re.compile(r"AD[AB](?:[4-9]|1\d)")
"""Pins of a block of memory that are bits of an address; in wide blocks those below enable bytes."""
_ADDRESSES = 400
"""Maximum copies of addresses; with some hundred more, nextpnr's router did not find the last routes of a full part."""

Cell = dict[str, Any]


def copy_registers(netlist: dict[str, Any]) -> int:
    """Change a netlist of yosys' JSON in place; returns how many cells it has more.

    Clock and data of a copy are those of the original, so that it always has the same value.  A LUT that drives it is
    copied too; otherwise one LUT would have to drive all copies.  Readers are assigned to copies by the names of the
    signals that they drive, which number the lanes: a lane has the same neighbours everywhere.
    """
    module = top_module(netlist)
    cells: dict[str, Cell] = module["cells"]
    registers = {c["connections"]["Q"][0]: name for name, c in cells.items() if c["type"] == "TRELLIS_FF"}
    luts = {c["connections"]["Z"][0]: name for name, c in cells.items() if c["type"] == "LUT4"}
    readers: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                for place, bit in enumerate(bits):
                    if bit in registers:
                        readers[bit].append((name, pin, place))
    top_bit = max(bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int))
    ports = {bit for port in module["ports"].values() for bit in port["bits"]}
    delaying = {bit for bit, name in registers.items() if cells[name]["connections"]["DI"][0] in registers}
    blocks = _blocks(cells, {bit: found for bit, found in readers.items() if bit in delaying})
    order = _order(module)
    before = len(cells)
    for bit, found in readers.items():
        scale = 4 if all(cells[name]["type"] == "LUT4" for name, _, _ in found) else 1
        if scale * len(found) <= _MANY or bit in ports:
            continue
        found.sort(key=lambda reader: order[reader[0]])
        count = min(_COPIES, -(-scale * len(found) // _READERS))
        count = max(count, len(found) // _NEAR if scale > 1 and bit in delaying else 0, blocks.get(bit, 0))
        for n in range(1, count):
            top_bit += 1
            q, data = top_bit, cells[registers[bit]]["connections"]["DI"][0]
            if data in luts:
                top_bit += 1
                cells[f"{luts[data]}$copy{top_bit}"] = _with(cells[luts[data]], Z=top_bit)
                data = top_bit
            cells[f"{registers[bit]}$copy{q}"] = _with(cells[registers[bit]], DI=data, Q=q)
            for name, pin, place in found[n * len(found) // count : (n + 1) * len(found) // count]:
                cells[name]["connections"][pin][place] = q
    return len(cells) - before


def _blocks(cells: dict[str, Cell], readers: dict[int, list[tuple[str, str, int]]]) -> dict[int, int]:
    """Block RAMs (placed far apart) that registers drive: their enables, and their addresses if these are few."""
    enables: dict[int, int] = {}
    addresses: dict[int, int] = {}
    for bit, found in readers.items():
        pins = [(name, pin) for name, pin, _ in found if cells[name]["type"] == "DP16KD"]
        if pins and len(found) > _MANY:
            kind = addresses if all(_ADDRESS.fullmatch(pin) for _, pin in pins) else enables
            kind[bit] = len({name for name, _ in pins})
    return enables | (addresses if sum(addresses.values()) <= _ADDRESSES else {})


def _with(cell: Cell, **pins: int) -> Cell:
    """Copy of a cell with other nets at some pins."""
    copied = copy.deepcopy(cell)
    copied["connections"] |= {pin: [bit] for pin, bit in pins.items()}
    return copied


def _order(module: dict[str, Any]) -> dict[str, list[tuple[int, str]]]:
    """Key of each cell: the signal that it drives, or the register after it, as a name with numbers and a bit."""
    names: dict[int | str, str] = {}
    # Names that yosys makes are longer than the design's.
    for name, net in sorted(module["netnames"].items(), key=lambda item: len(item[0])):
        for place, bit in enumerate(net["bits"]):
            if not net.get("hide_name"):
                names.setdefault(bit, f"{name} {place}")
    register_of = {
        cell["connections"]["DI"][0]: cell["connections"]["Q"][0]
        for cell in module["cells"].values()
        if cell["type"] == "TRELLIS_FF"
    }
    keys = {}
    for name, cell in module["cells"].items():
        driven = [
            bit
            for pin, bits in cell["connections"].items()
            if cell["port_directions"][pin] == "output"
            for bit in bits
        ]
        bit = register_of.get(driven[0], driven[0]) if driven else name
        keys[name] = natural(names.get(bit, name))
    return keys


def keep_feedback_close(netlist: dict[str, Any]) -> int:
    """Let the other registers of a netlist of yosys' JSON take their data through ``M``; returns how many.

    The input ``DI`` of a flip-flop comes from its own slice, and ``M`` from anywhere.
    """
    module = top_module(netlist)
    cells: dict[str, Any] = module["cells"]
    drivers: dict[int, str] = {}
    inputs: dict[str, set[int]] = {}
    fed_by: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for name, cell in cells.items():
        if cell["type"] in ("CCU2C", "LUT4"):
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    inputs.setdefault(name, set()).update(bits)
                else:
                    drivers.update(dict.fromkeys(bits, name))
        elif cell["type"] == "TRELLIS_FF" and not cell["connections"].get("M"):
            fed_by[cell["connections"]["DI"][0]].append(cell)
    count = 0
    for bit, registers in fed_by.items():
        used = inputs[drivers[bit]] if bit in drivers else set()
        others = [r for r in registers if r["connections"]["Q"][0] not in used]
        if len(others) < len(registers):
            count += len(others)
            for register in others:
                for pins in (register["connections"], register["port_directions"]):
                    pins["M"] = pins.pop("DI")
    return count
