"""amaranth-soc: a component with a Wishbone interface and its memory map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl.export.python_files import class_name, listed, sources

if TYPE_CHECKING:
    from tg2hdl.export.export import Export

__all__ = ["files"]

_MODULE = '''\
"""The tg2hdl design {name} as a component of amaranth-soc; written by `tg2hdl export`.

    from {name}_soc import {cls}

    m.submodules.{name} = {name} = {cls}()
    decoder.add({name}.bus, addr=0x40000000)
"""

from pathlib import Path

from amaranth import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth_soc import wishbone
from amaranth_soc.memory import MemoryMap

__all__ = ["{cls}"]

{sources}
REGISTERS = (
{registers}
)
"""Names, addresses and sizes in bytes; the meaning is in registers/{name}.md."""


class _Place(wiring.Component):
    """A register or a buffer in the memory map."""

    def __init__(self):
        super().__init__({{}})

    def elaborate(self, platform):
        return Module()


class {cls}(wiring.Component):
    """The design behind a Wishbone bus: addresses count words of 32 bits.

    Members
    -------
    bus : In
        With a memory map.
    irq : Out(1)
        High while an enabled event is pending.
    """

    def __init__(self):
        signature = wishbone.Signature(addr_width={bits}, data_width=32, granularity=8, features={features})
        super().__init__({{"bus": In(signature), "irq": Out(1)}})
        memory_map = MemoryMap(addr_width={bits} + 2, data_width=8)
        for name, address, size in REGISTERS:
            memory_map.add_resource(_Place(), name=(name,), addr=address, size=size)
        self.bus.memory_map = memory_map

    def elaborate(self, platform):
        m = Module()
        if platform is not None:
            for path in SOURCES:
                platform.add_file(path.name, path.read_text())
        m.submodules.core = Instance(
            "{name}",
            i_aclk=ClockSignal(),
            i_aresetn=~ResetSignal(),
{connections}
        )
        return m
'''


def files(export: Export) -> dict[str, str]:
    """``NAME_soc.py``."""
    name, found = export.name, export.registers
    assert found is not None, "a Wishbone port has a register map"
    connections = []
    for port in export.ports:
        inner = "irq" if port.group == "irq" else f"bus.{port.signal}"
        if inner == "bus.err" and export.port_kind == "wishbone":
            continue  # it is constant
        connections.append(f"            {'i' if port.is_input else 'o'}_{port.name}=self.{inner},")
    text = _MODULE.format(
        name=name,
        cls=class_name(name),
        sources=sources([*export.verilog_files, *export.memory_contents]),
        registers=listed(export.places),
        bits=found.address_bits - 2,
        features='{"err"}' if export.port_kind == "wishbone-err" else "()",
        connections="\n".join(connections),
    )
    return {f"{name}_soc.py": text}
