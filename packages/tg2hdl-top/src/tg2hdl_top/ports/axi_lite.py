"""The port ``axi-lite``: the register map behind AXI4-Lite with 32 bits of data."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.memory.host import HostShape
from tg2hdl_top.ports.base import HostPort
from tg2hdl_top.ports.map_driver import MapDriver
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.register_map import Access, RegisterMap

__all__ = ["AxiLiteDriver", "AxiLitePort"]


class AxiLitePort(HostPort):
    """One access at a time; a refused one is answered with SLVERR, and its code is in ERROR.

    An access that the design is too busy for is refused at once, as is one with an address that is not a multiple of 4,
    or a write that does not enable all four bytes.  A write waits for its address and its data; of a read and a write
    that come together the one goes first whose kind did not go last.

    Members of `outside`: `s_axil` with the signals of AXI4-Lite.
    """

    by_element = True
    needs_identity = True

    def __init__(self, serves: HostShape) -> None:
        bits = RegisterMap(serves).address_bits
        bus = {
            **{"awvalid": Out(1), "awaddr": Out(bits), "awprot": Out(3), "awready": In(1)},
            **{"wvalid": Out(1), "wdata": Out(32), "wstrb": Out(4), "wready": In(1)},
            **{"bvalid": In(1), "bresp": In(2), "bready": Out(1)},
            **{"arvalid": Out(1), "araddr": Out(bits), "arprot": Out(3), "arready": In(1)},
            **{"rvalid": In(1), "rdata": In(32), "rresp": In(2), "rready": Out(1)},
        }
        super().__init__(serves, wiring.Signature({"s_axil": Out(wiring.Signature(bus))}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        axi = self.outside.s_axil
        m.submodules.registers = registers = RegisterFile(self.serves, waits=False)
        wiring.connect(m, wiring.flipped(self.design), registers.design)
        bus = registers.bus
        unfit, wrote = Signal(), Signal()
        with m.FSM():
            with m.State("IDLE"):
                writes = axi.awvalid & axi.wvalid
                with m.If(writes & ~(axi.arvalid & wrote)):
                    m.d.comb += [axi.awready.eq(1), axi.wready.eq(1)]
                    m.d.sync += [bus.address.eq(axi.awaddr), bus.data.eq(axi.wdata), bus.write.eq(1)]
                    m.d.sync += [unfit.eq(axi.awaddr[:2].any() | ~axi.wstrb.all()), wrote.eq(1)]
                    m.next = "ACCESS"
                with m.Elif(axi.arvalid):
                    m.d.comb += axi.arready.eq(1)
                    m.d.sync += [bus.address.eq(axi.araddr), bus.write.eq(0)]
                    m.d.sync += [unfit.eq(axi.araddr[:2].any()), wrote.eq(0)]
                    m.next = "ACCESS"
            with m.State("ACCESS"):
                m.d.comb += bus.valid.eq(~unfit)
                with m.If(bus.ready | unfit):
                    failed = unfit | (bus.code != Access.OK)
                    for response in (axi.bresp, axi.rresp):
                        m.d.sync += response.eq(failed << 1)
                    m.d.sync += [axi.rdata.eq(bus.value), axi.bvalid.eq(bus.write), axi.rvalid.eq(~bus.write)]
                    with m.If(unfit):
                        m.d.sync += axi.rdata.eq(0)
                    m.next = "ANSWER"
            with m.State("ANSWER"), m.If((axi.bvalid & axi.bready) | (axi.rvalid & axi.rready)):
                m.d.sync += [axi.bvalid.eq(0), axi.rvalid.eq(0)]
                m.next = "IDLE"
        return m


class AxiLiteDriver(MapDriver):
    """One access after the other."""

    def store(self, address: int, words: Sequence[int]) -> int:
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
            failed = simulation.get("s_axil__bresp")
            simulation.step()
            if failed:
                return self.value("ERROR") or Access.ADDRESS
        return 0

    def fetch(self, address: int, count: int) -> tuple[list[int], int]:
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
            failed = simulation.get("s_axil__rresp")
            simulation.step()
            if failed:
                return found, self.value("ERROR") or Access.ADDRESS
        return found, 0
