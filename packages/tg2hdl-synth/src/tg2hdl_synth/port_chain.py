"""A chain of registers that connects the ports of an iCE40 netlist to two pins: nextpnr-ice40 needs a pin per port."""

from __future__ import annotations

from typing import Any

from tg2hdl_synth.flat_netlist import top_module

__all__ = ["CLOCK", "chain_ports", "chained_bits"]

CLOCK = "clk"
_XOR = f"{0x6666:016b}"

Module = dict[str, Any]


def chained_bits(netlist: dict[str, Any]) -> int:
    """Registers that `chain_ports` adds, each in a logic cell of its own."""
    return sum(len(_joined(port)) for name, port in top_module(netlist)["ports"].items() if name != CLOCK)


def chain_ports(netlist: dict[str, Any]) -> None:
    """Change a netlist of yosys' JSON in place.

    Each input bit gets a register that is fed by the one before; each output bit is mixed into the register after it.
    Paths from and to ports are thus timed from register to register.
    """
    module = top_module(netlist)
    ports: dict[str, Module] = module["ports"]
    if CLOCK not in ports:
        return
    clock = ports[CLOCK]["bits"][0]
    free = 1 + max(
        (
            bit
            for cell in module["cells"].values()
            for bits in cell["connections"].values()
            for bit in bits
            if isinstance(bit, int)
        ),
        default=1,
    )
    free = max(free, *(bit + 1 for port in ports.values() for bit in port["bits"] if isinstance(bit, int)))
    first = last = free
    free += 1
    for direction in ("input", "output"):
        for name, port in ports.items():
            if name == CLOCK or port["direction"] != direction:
                continue
            for number, bit in enumerate(_joined(port)):
                cell = f"ports.{name}.{number}"
                if direction == "input":
                    module["cells"][cell] = _register(clock, last, bit)
                    last = bit
                    continue
                module["cells"][f"{cell}.mix"] = _mix(last, bit, free)
                module["cells"][cell] = _register(clock, free, free + 1)
                last = free + 1
                free += 2
    module["ports"] = {
        CLOCK: ports[CLOCK],
        "chain_in": {"direction": "input", "bits": [first]},
        "chain_out": {"direction": "output", "bits": [last]},
    }


def _joined(port: Module) -> list[int]:
    return [bit for bit in port["bits"] if isinstance(bit, int)]


def _register(clock: int, data: int, output: int) -> Module:
    return _cell("SB_DFF", {}, {"C": clock, "D": data}, {"Q": output})


def _mix(a: int, b: int, output: int) -> Module:
    return _cell("SB_LUT4", {"LUT_INIT": _XOR}, {"I0": a, "I1": b, "I2": "0", "I3": "0"}, {"O": output})


def _cell(kind: str, parameters: dict[str, str], inputs: dict[str, Any], outputs: dict[str, int]) -> Module:
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": parameters,
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
        "connections": {pin: [bit] for pin, bit in (inputs | outputs).items()},
    }
