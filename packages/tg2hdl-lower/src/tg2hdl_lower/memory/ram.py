"""Memories that synthesis infers from one array of words."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.memory.kind import BuiltMemory
from tg2hdl_lower.memory.plan import MemoryPlan

__all__ = ["Ram", "registered"]


class Ram(BuiltMemory):
    """An array of words with one write port and any number of read ports, in the style of its plan."""

    def __init__(self, m: Module, memory: MemoryPlan) -> None:
        self.memory = memory
        style = memory.style.ram_style
        self.ram = Memory(memory.data(), attrs={"ram_style": style} if style else {})
        m.submodules[f"memory_{memory.name}"] = self.ram

    def write(self, m: Module, address: Value, data: Value, enable: Value) -> None:
        """Connect the write port."""
        memory = self.memory
        port = self.ram.write_port(granularity=memory.dtype.bit_width if memory.layout.lanes > 1 else None)
        m.d.comb += [port.addr.eq(address), port.data.eq(data), port.en.eq(enable)]

    def read(self, m: Module, number: int, address: Value) -> Value:
        """Data of a read port, with registers for all cycles of the latency but the first."""
        memory = self.memory
        port = self.ram.read_port(domain="comb" if memory.style.address_register else "sync")
        if memory.style.address_register:
            register = Signal.like(port.addr, name=f"{memory.name}_a{number}", reset_less=True)
            m.d.sync += register.eq(address)
            address = register
        m.d.comb += port.addr.eq(address)
        return registered(m, port.data, memory.read_latency - 1, f"{memory.name}_r{number}")


def registered(m: Module, data: Value, cycles: int, name: str) -> Value:
    """Data after `cycles` registers.

    Parameters
    ----------
    m : Module
    data : Value
    cycles : int
        0 returns the data itself.
    name : str
        Prefix of the registers.
    """
    for stage in range(cycles):
        register = Signal(len(data), name=f"{name}_{stage}", reset_less=True)
        m.d.sync += register.eq(data)
        data = register
    return data
