"""Selects which of several registers fed by one adder is packed with it, on the flat netlist of an ECP5.

The output of a carry chain or LUT has one flip-flop in its own slice, into which nextpnr packs any of the registers
that it feeds.  It should be the register that feeds back to the same logic, such as an accumulator, and not one that
only takes the final sum, which can be placed anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tg2hdl_synth.flat_netlist import top_module

__all__ = ["keep_feedback_close"]


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
