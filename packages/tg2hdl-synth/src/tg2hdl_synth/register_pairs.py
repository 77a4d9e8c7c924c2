"""Which of two registers behind an adder stays beside it, on the flat netlist of an ECP5.

The output of a carry chain or LUT has one flip-flop in its own slice.  nextpnr packs cells from the last one to the
first by name, so that this place goes to any of several registers; it belongs to the one that leads back to the same
logic, such as an accumulator, and not to one that takes its final sum, which can stand anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

__all__ = ["MARK", "keep_feedback_close"]

MARK = "!"
"""Prefix that sorts before all other names."""


def keep_feedback_close(netlist: dict[str, Any]) -> int:
    """Rename the other registers of a netlist of yosys' JSON, in place; returns how many."""
    (module,) = [m for m in netlist["modules"].values() if int(m["attributes"].get("top", "0"), 2)]
    cells: dict[str, Any] = module["cells"]
    drivers: dict[int, str] = {}
    inputs: dict[str, set[int]] = {}
    behind: dict[int, list[str]] = defaultdict(list)
    for name, cell in cells.items():
        if cell["type"] in ("CCU2C", "LUT4"):
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    inputs.setdefault(name, set()).update(bits)
                else:
                    drivers.update(dict.fromkeys(bits, name))
        elif cell["type"] == "TRELLIS_FF":
            behind[cell["connections"]["DI"][0]].append(name)
    renamed: dict[str, str] = {}
    for bit, registers in behind.items():
        if len(registers) < 2 or bit not in drivers:
            continue
        used = inputs[drivers[bit]]
        others = [r for r in registers if cells[r]["connections"]["Q"][0] not in used]
        if len(others) < len(registers):
            renamed.update((r, MARK + r) for r in others)
    module["cells"] = {renamed.get(name, name): cell for name, cell in cells.items()}
    return len(renamed)

