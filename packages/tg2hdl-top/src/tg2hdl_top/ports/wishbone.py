"""The port ``wishbone``: the register map behind a classic Wishbone bus (B4) with 32 bits of data."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.base import HostPort
from tg2hdl_top.ports.map_driver import BusDriver
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.register_map import AccessCode, RegisterMap

__all__ = ["WishboneDriver", "WishboneErrorPort", "WishbonePort"]


class WishbonePort(HostPort):
    """One access at a time, answered by ACK; the code of a refused one is in ERROR.

    `WishboneErrorPort` answers a refused access by ERR.  An access that the design is too busy for is refused at once.

    Members of `outside`: `wb` with `cyc`, `stb`, `we`, `adr` (which counts words), `dat_w`, `sel`, `dat_r`, `ack` and
    `err`; `irq`.
    """

    by_element = True
    needs_identity = True
    has_bus = True
    reports_errors = False

    def __init__(self, serves: HostShape) -> None:
        bits = RegisterMap(serves, has_bus=True).address_bits
        bus = {
            "cyc": Out(1),
            "stb": Out(1),
            "we": Out(1),
            "adr": Out(bits - 2),
            "dat_w": Out(32),
            "sel": Out(4),
            "dat_r": In(32),
            "ack": In(1),
            "err": In(1),
        }
        super().__init__(serves, wiring.Signature({"wb": Out(wiring.Signature(bus)), "irq": In(1)}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        wb = self.outside.wb
        m.submodules.registers = registers = RegisterFile(self.serves)
        wiring.connect(m, wiring.flipped(self.design), registers.design)
        bus = registers.bus
        m.d.comb += self.outside.irq.eq(registers.irq)
        m.d.sync += [wb.ack.eq(0), wb.err.eq(0)]
        with m.FSM():
            with m.State("IDLE"), m.If(wb.cyc & wb.stb & ~wb.ack & ~wb.err):
                m.d.sync += [
                    bus.address.eq(Cat(Const(0, 2), wb.adr)),
                    bus.data.eq(wb.dat_w),
                    bus.write.eq(wb.we),
                    bus.strobes.eq(wb.sel),
                ]
                m.next = "ACCESS"
            with m.State("ACCESS"):  # it ends even if the master gives up
                m.d.comb += bus.valid.eq(1)
                with m.If(bus.ready):
                    failed = (bus.code != AccessCode.OK) if self.reports_errors else Const(0)
                    asked = wb.cyc & wb.stb
                    m.d.sync += [
                        wb.dat_r.eq(bus.value),
                        wb.ack.eq(asked & ~failed),
                        wb.err.eq(asked & failed),
                    ]
                    m.next = "IDLE"
        return m


class WishboneErrorPort(WishbonePort):
    """As `WishbonePort`, but a refused access is answered by ERR."""

    reports_errors = True


class WishboneDriver(BusDriver):
    """One access after the other."""

    def store_words(self, address: int, words: Sequence[int]) -> None:
        """Write words one by one."""
        for number, word in enumerate(words):
            self.simulation.set("wb__dat_w", word)
            self._access(address + 4 * number, 1)

    def fetch_words(self, address: int, count: int) -> list[int]:
        """Read words one by one."""
        found: list[int] = []
        for number in range(count):
            self._access(address + 4 * number, 0)
            found.append(self.simulation.get("wb__dat_r"))
        return found

    def _access(self, address: int, write: int) -> None:
        simulation = self.simulation
        for name, value in {"adr": address >> 2, "we": write, "sel": 15, "cyc": 1, "stb": 1}.items():
            simulation.set(f"wb__{name}", value)
        simulation.step()
        for _ in range(100):
            if simulation.get("wb__ack") or simulation.get("wb__err"):
                break
            simulation.step()
        simulation.set("wb__cyc", 0)
        simulation.set("wb__stb", 0)
