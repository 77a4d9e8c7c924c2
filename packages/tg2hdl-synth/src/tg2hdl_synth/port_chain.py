"""A chain of registers that connects the ports of a netlist to two pins, for a nextpnr that needs a pin per port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tg2hdl_synth.flat_netlist import top_module

__all__ = ["CHAIN", "CLOCK", "cell", "chain_ports", "chained_bits"]

CLOCK, CHAIN = "clk", ("chain_in", "chain_out")
"""Ports that a netlist has afterwards."""

Module = dict[str, Any]


def chained_bits(netlist: dict[str, Any]) -> int:
    """Registers that `chain_ports` adds, each in a logic cell of its own."""
    return sum(len(_joined(port)) for name, port in top_module(netlist)["ports"].items() if name != CLOCK)


def chain_ports(
    netlist: dict[str, Any],
    register: Callable[[int, int, int], Module],
    mix: Callable[[int, int, int], Module],
) -> None:
    """Change a netlist of yosys' JSON in place.

    Each input bit gets a register that is fed by the one before; each output bit is mixed into the register after it.
    Paths from and to ports are thus timed from register to register.

    Parameters
    ----------
    register, mix : callable
        Make cells of the family as `cell` does: a flip-flop from the numbers of the nets of its clock, data and
        output, an exclusive or from those of its inputs and output.
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
                label = f"ports.{name}.{number}"
                if direction == "input":
                    module["cells"][label] = register(clock, last, bit)
                    last = bit
                    continue
                module["cells"][f"{label}.mix"] = mix(last, bit, free)
                module["cells"][label] = register(clock, free, free + 1)
                last = free + 1
                free += 2
    module["ports"] = {
        CLOCK: ports[CLOCK],
        CHAIN[0]: {"direction": "input", "bits": [first]},
        CHAIN[1]: {"direction": "output", "bits": [last]},
    }


def _joined(port: Module) -> list[int]:
    return [bit for bit in port["bits"] if isinstance(bit, int)]


def cell(kind: str, parameters: dict[str, str], inputs: dict[str, Any], outputs: dict[str, int]) -> Module:
    """Cell of yosys' JSON, with the numbers of the nets or the constants at its pins of one bit.

    Parameters
    ----------
    kind : str
        Type of the cell.
    parameters : dict of str to str
        By name, as in Yosys' JSON.
    inputs : dict of str to object
        Net or constant, by pin.
    outputs : dict of str to int
        Net, by pin.
    """
    return {
        "hide_name": 0,
        "type": kind,
        "parameters": parameters,
        "attributes": {},
        "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
        "connections": {pin: [bit] for pin, bit in (inputs | outputs).items()},
    }
