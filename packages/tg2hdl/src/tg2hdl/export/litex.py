"""LiteX: a module with a bus, CSRs and an interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl.export.python_files import class_name, listed, sources

if TYPE_CHECKING:
    from tg2hdl.export.export import Export

__all__ = ["files"]

_MODULE = '''\
"""The tg2hdl design {name} as a LiteX module; written by `tg2hdl export`.

    from {name}_litex import add_{name}

    add_{name}(soc, origin=0x40000000)

The registers are in the memory region of the bus (registers/{name}.md); the CSRs of the module hold it in reset, tell
which design it is, and have the events of its interrupt.
"""

from pathlib import Path

from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import {package}
from litex.soc.interconnect.csr import CSRStatus, CSRStorage
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, {constant}Instance, ResetSignal

__all__ = ["{cls}", "add_{name}"]

{sources}
SIZE = 0x{size:X}
"""Bytes of the memory region."""
REGISTERS = (
{registers}
)
"""Names, addresses and sizes in bytes."""

{located}
class {cls}(LiteXModule):
    """The design, with `bus`, the event `ev.design`, and the CSRs `reset`, `id_low` and `id_high`."""

    def __init__(self, platform):
        self.bus = bus = {interface}
        self.reset = CSRStorage(1, description="Holds the design in reset.")
        self.id_low = CSRStatus(32, description="Low half of the identity of the design.")
        self.id_high = CSRStatus(32, description="High half of the identity of the design.")
        self.ev = EventManager()
        self.ev.design = EventSourceLevel(description="High while an event of IRQ_ENABLE is pending in IRQ_PENDING.")
        self.ev.finalize()
        self.comb += [self.id_low.status.eq(0x{low}), self.id_high.status.eq(0x{high})]
        for path in SOURCES:
            platform.add_source(str({source}))
        self.specials += Instance(
            "{name}",
            i_aclk=ClockSignal("sys"),
            i_aresetn=~(ResetSignal("sys") | self.reset.storage),
{connections}
        )


def add_{name}(soc, origin=None, name="{name}"):
    """Add the design to a SoC: its region of the bus, its CSRs and its interrupt; returns the module."""
    module = {cls}(soc.platform)
    soc.add_module(name=name, module=module)
    soc.bus.add_slave(name=name, slave=module.bus, region=SoCRegion(origin=origin, size=SIZE, cached=False))
    if soc.irq.enabled:
        soc.irq.add(name, use_loc_if_exists=True)
    return module
'''

_LOCATED = '''
def located(path):
    """A copy of a source that reads the contents of memories from any folder."""
    text, copy = path.read_text(), Path(__file__).resolve().parent / "litex" / path.name
    for content in path.parent.glob("*.hex"):
        text = text.replace(f'"{content.name}"', f'"{content.as_posix()}"')
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(text)
    return copy

'''

_AXI_SIGNALS = {
    **{f"{c}{n}": f"{c}.{n}" for c in ("aw", "ar") for n in ("valid", "ready", "addr")},
    **{f"w{n}": f"w.{n}" for n in ("valid", "ready", "data", "strb")},
    **{f"b{n}": f"b.{n}" for n in ("valid", "ready", "resp")},
    **{f"r{n}": f"r.{n}" for n in ("valid", "ready", "data", "resp")},
}


def files(export: Export) -> dict[str, str]:
    """``NAME_litex.py``."""
    name, found = export.name, export.registers
    assert found is not None, "the port has a register map"
    is_axi = export.port_kind.startswith("axi")
    connections = []
    for port in export.ports:
        if port.group == "irq":
            inner = "self.ev.design.trigger"
        elif is_axi:
            inner = (
                f"bus.{_AXI_SIGNALS[port.signal]}"
                if port.signal in _AXI_SIGNALS
                else f"Constant(0, {port.width})"
            )
        else:
            inner = f"bus.{port.signal}"
        if port.signal.endswith(("addr", "adr")):
            inner += f"[:{port.width}]"  # the bus has addresses of 32 bits
        connections.append(f"            {'i' if port.is_input else 'o'}_{port.name}={inner},")
    identity = found.serves.identity.rjust(16, "0")
    text = _MODULE.format(
        name=name,
        cls=class_name(name),
        constant="Constant, " if is_axi else "",
        package="axi" if is_axi else "wishbone",
        interface="axi.AXILiteInterface(data_width=32, address_width=32)"
        if is_axi
        else "wishbone.Interface(data_width=32)",
        sources=sources(export.verilog_files),
        located=_LOCATED if export.memory_files else "",
        source="located(path)" if export.memory_files else "path",
        size=1 << found.address_bits,
        registers=listed(export.places),
        low=identity[8:],
        high=identity[:8],
        connections="\n".join(connections),
    )
    return {f"{name}_litex.py": text}
