"""The port ``axi-lite``: the register map behind AXI4-Lite with 32 bits of data."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.base import HostPort
from tg2hdl_top.ports.map_driver import BusDriver
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.register_map import AccessCode, RegisterMap

__all__ = ["AxiLiteDriver", "AxiLiteErrorPort", "AxiLitePort"]


class AxiLitePort(HostPort):
    """One access at a time; the code of a refused one is in ERROR.

    A refused access is answered with OKAY, because SLVERR aborts the program on many processors; `AxiLiteErrorPort`
    answers it with SLVERR.  An access that the design is too busy for is refused at once.  The two lowest bits of an
    address are ignored: strobes select the bytes of a write.  A write waits for its address and its data; of a read and
    a write that come together the one goes first whose kind did not go last.

    Members of `outside`: `s_axil` with the signals of AXI4-Lite, `irq`.
    """

    by_element = True
    needs_identity = True
    has_bus = True
    reports_errors = False

    def __init__(self, serves: HostShape) -> None:
        bits = RegisterMap(serves, has_bus=True).address_bits
        bus = {
            **{"awvalid": Out(1), "awaddr": Out(bits), "awprot": Out(3), "awready": In(1)},
            **{"wvalid": Out(1), "wdata": Out(32), "wstrb": Out(4), "wready": In(1)},
            **{"bvalid": In(1), "bresp": In(2), "bready": Out(1)},
            **{"arvalid": Out(1), "araddr": Out(bits), "arprot": Out(3), "arready": In(1)},
            **{"rvalid": In(1), "rdata": In(32), "rresp": In(2), "rready": Out(1)},
        }
        super().__init__(serves, wiring.Signature({"s_axil": Out(wiring.Signature(bus)), "irq": In(1)}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        axi = self.outside.s_axil
        m.submodules.registers = registers = RegisterFile(self.serves)
        wiring.connect(m, wiring.flipped(self.design), registers.design)
        bus, wrote = registers.bus, Signal()
        m.d.comb += self.outside.irq.eq(registers.irq)
        with m.FSM():
            with m.State("IDLE"):
                writes = axi.awvalid & axi.wvalid
                with m.If(writes & ~(axi.arvalid & wrote)):
                    m.d.comb += [axi.awready.eq(1), axi.wready.eq(1)]
                    m.d.sync += [bus.address.eq(Cat(Const(0, 2), axi.awaddr[2:])), bus.data.eq(axi.wdata)]
                    m.d.sync += [bus.strobes.eq(axi.wstrb), bus.write.eq(1), wrote.eq(1)]
                    m.next = "ACCESS"
                with m.Elif(axi.arvalid):
                    m.d.comb += axi.arready.eq(1)
                    m.d.sync += [
                        bus.address.eq(Cat(Const(0, 2), axi.araddr[2:])),
                        bus.write.eq(0),
                        wrote.eq(0),
                    ]
                    m.next = "ACCESS"
            with m.State("ACCESS"):
                m.d.comb += bus.valid.eq(1)
                with m.If(bus.ready):
                    if self.reports_errors:
                        for response in (axi.bresp, axi.rresp):
                            m.d.sync += response.eq((bus.code != AccessCode.OK) << 1)
                    m.d.sync += [axi.rdata.eq(bus.value), axi.bvalid.eq(bus.write), axi.rvalid.eq(~bus.write)]
                    m.next = "ANSWER"
            with m.State("ANSWER"), m.If((axi.bvalid & axi.bready) | (axi.rvalid & axi.rready)):
                m.d.sync += [axi.bvalid.eq(0), axi.rvalid.eq(0)]
                m.next = "IDLE"
        return m


class AxiLiteErrorPort(AxiLitePort):
    """As `AxiLitePort`, but a refused access is answered with SLVERR."""

    reports_errors = True


class AxiLiteDriver(BusDriver):
    """One access after the other."""

    def store_words(self, address: int, words: Sequence[int]) -> None:
        """Write words one by one."""
        simulation = self.simulation
        for number, word in enumerate(words):
            for name, value in {"awaddr": address + 4 * number, "wdata": word, "wstrb": 15}.items():
                simulation.set(f"s_axil__{name}", value)
            for name in ("awvalid", "wvalid", "bready"):
                simulation.set(f"s_axil__{name}", 1)
            simulation.run_until("s_axil__awready", limit=100)
            simulation.step()
            for name in ("awvalid", "wvalid"):
                simulation.set(f"s_axil__{name}", 0)
            simulation.run_until("s_axil__bvalid", limit=100)
            simulation.step()

    def fetch_words(self, address: int, count: int) -> list[int]:
        """Read words one by one."""
        simulation, found = self.simulation, []
        for number in range(count):
            simulation.set("s_axil__araddr", address + 4 * number)
            simulation.set("s_axil__arvalid", 1)
            simulation.set("s_axil__rready", 1)
            simulation.run_until("s_axil__arready", limit=100)
            simulation.step()
            simulation.set("s_axil__arvalid", 0)
            simulation.run_until("s_axil__rvalid", limit=100)
            found.append(simulation.get("s_axil__rdata"))
            simulation.step()
        return found
