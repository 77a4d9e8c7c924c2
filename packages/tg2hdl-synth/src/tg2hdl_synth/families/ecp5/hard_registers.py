"""Registers next to ECP5 multipliers and block RAMs moved into these blocks, on the flat netlist.

A multiplier takes the registers of both operands and of its product together, or none of them.  A block RAM port takes
its output register.  A register qualifies when it has no enable, no reset and the clock of the block.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tg2hdl_synth.flat_netlist import top_module

__all__ = ["absorb_registers"]

_OPERANDS = {"A": 18, "B": 18}
_PRODUCT = 36

Cell = dict[str, Any]


def absorb_registers(netlist: dict[str, Any], *, wide: bool = False) -> dict[str, int]:
    """Change a netlist of yosys' JSON in place.

    Parameters
    ----------
    wide : bool
        Whether block RAM ports of 36 bits, which use the outputs of both ports, take output registers too.

    Returns
    -------
    dict of str to int
        Multipliers and block RAM ports that got registers, and the flip-flops that this saved.
    """
    module = top_module(netlist)
    work = _Absorber(module)
    before = len(module["cells"])
    multipliers = sum(work.multiplier(c) for c in list(module["cells"].values()) if c["type"] == "MULT18X18D")
    work.sweep()
    ports = sum(
        work.memory_port(cell, port, wide)
        for cell in list(module["cells"].values())
        if cell["type"] == "DP16KD"
        for port in "AB"
    )
    return {"multipliers": multipliers, "ports": ports, "flip_flops": before - len(module["cells"])}


class _Absorber:
    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, Cell] = module["cells"]
        self.registers: dict[int, str] = {}
        self.uses: Counter[int | str] = Counter()
        self.reader: dict[int | str, str] = {}
        for port in module["ports"].values():
            if port["direction"] != "input":
                self.uses.update(port["bits"])
        for name, cell in self.cells.items():
            if cell["type"] == "TRELLIS_FF" and _plain(cell):
                self.registers[cell["connections"]["Q"][0]] = name
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    self.uses.update(bits)
                    for bit in bits:
                        self.reader[bit] = name if pin == "DI" else ""

    def multiplier(self, cell: Cell) -> bool:
        """Absorb the registers of both operands and the product."""
        pins = cell["connections"]
        operands = {
            p: self._driving(pins, [f"{p}{n}" for n in range(width)]) for p, width in _OPERANDS.items()
        }
        product = self._output_registers(pins, [f"P{n}" for n in range(_PRODUCT)])
        if not product or not all(operands.values()):
            return False
        groups = (*operands.values(), product)
        clocks = {self._clock(name) for group in groups for name in (group or {}).values()}
        if len(clocks) != 1:
            return False
        for group in operands.values():
            for pin, name in (group or {}).items():
                source = self.cells[name]["connections"]["DI"][0]
                self.uses[pins[pin][0]] -= 1
                pins[pin] = [source]
                self.uses[source] += 1
        self._move_outputs(cell, product)
        for register in ("INPUTA", "INPUTB", "OUTPUT"):
            cell["parameters"] |= {
                f"REG_{register}_CLK": "CLK0",
                f"REG_{register}_CE": "CE0",
                f"REG_{register}_RST": "RST0",
            }
        self._connect(cell, CLK0=clocks.pop(), CE0="1", RST0="0")
        return True

    def memory_port(self, cell: Cell, port: str, wide: bool) -> bool:
        """Absorb the output register of a port; one of 36 bits, which reads through B, uses the outputs of both."""
        widths = {int(cell["parameters"].get(f"DATA_WIDTH_{p}", "0"), 2) for p in "AB"}
        ports = port
        if max(widths) > 18:
            if widths != {36} or port != "B" or not wide:
                return False
            ports = "AB"
        pins = cell["connections"]
        outputs = self._output_registers(pins, [f"DO{p}{n}" for p in ports for n in range(18)])
        clocks = {pins.get(f"CLK{p}", ["x"])[0] for p in ports}
        if not outputs or len(clocks) != 1 or {self._clock(n) for n in outputs.values()} != clocks:
            return False
        self._move_outputs(cell, outputs)
        for p in ports:
            cell["parameters"][f"REGMODE_{p}"] = "OUTREG"
            self._connect(cell, **{f"OCE{p}": "1"})
        return True

    def sweep(self) -> None:
        """Remove registers that nothing reads any more."""
        for bit, name in list(self.registers.items()):
            if not self.uses[bit]:
                self._remove(name)

    def _driving(self, pins: dict[str, list[Any]], names: list[str]) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for pin in names:
            (bit,) = pins.get(pin) or ["0"]
            if isinstance(bit, str):
                if bit == "1":
                    return None
            elif bit in self.registers:
                found[pin] = self.registers[bit]
            else:
                return None
        return found

    def _output_registers(self, pins: dict[str, list[Any]], names: list[str]) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for pin in names:
            bits = pins.get(pin) or []
            if not bits or not self.uses[bits[0]]:
                continue
            name = self.reader.get(bits[0], "")
            if self.uses[bits[0]] != 1 or name not in self.cells:
                return None
            q = self.cells[name]["connections"]["Q"][0]
            if self.registers.get(q) != name:
                return None
            found[pin] = name
        return found

    def _move_outputs(self, cell: Cell, registers: dict[str, str]) -> None:
        for pin, name in registers.items():
            cell["connections"][pin] = self.cells[name]["connections"]["Q"]
            self._remove(name)

    def _remove(self, name: str) -> None:
        pins = self.cells.pop(name)["connections"]
        self.registers.pop(pins["Q"][0], None)
        self.uses[pins["DI"][0]] -= 1

    def _clock(self, name: str) -> Any:
        return self.cells[name]["connections"]["CLK"][0]

    @staticmethod
    def _connect(cell: Cell, **pins: Any) -> None:
        for pin, bit in pins.items():
            cell["connections"][pin] = [bit]
            cell["port_directions"][pin] = "input"


def _plain(cell: Cell) -> bool:
    """Whether a flip-flop has neither enable nor reset, and starts at 0."""
    parameters, pins = cell["parameters"], cell["connections"]
    enabled = parameters.get("CEMUX", "CE").strip() == "1" or pins.get("CE") == ["1"]
    unreset = pins.get("LSR", ["0"]) == ["0"]
    rising = parameters.get("CLKMUX", "CLK") == "CLK"
    return bool(enabled and unreset and rising and parameters.get("REGSET", "RESET") == "RESET")
