"""The port ``wishbone``: the register map behind a classic Wishbone bus (B4) with 32 bits of data."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.memory.host import HostShape
from tg2hdl_top.ports.base import HostPort
from tg2hdl_top.ports.map_driver import MapDriver
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.register_map import Access, RegisterMap

__all__ = ["WishboneDriver", "WishbonePort"]


class WishbonePort(HostPort):
    """One access at a time, answered by ACK, or by ERR where it is refused; its code is in ERROR then.

    An access that the design is too busy for is refused at once, as is a write that does not select all four bytes.

    Members of `outside`: `wb` with `cyc`, `stb`, `we`, `adr` (which counts words), `dat_w`, `sel`, `dat_r`, `ack` and
    `err`.
    """

    by_element = True
    needs_identity = True

    def __init__(self, serves: HostShape) -> None:
        bits = RegisterMap(serves).address_bits
        bus = {
            **{
                "cyc": Out(1),
                "stb": Out(1),
                "we": Out(1),
                "adr": Out(bits - 2),
                "dat_w": Out(32),
                "sel": Out(4),
            },
            **{"dat_r": In(32), "ack": In(1), "err": In(1)},
        }
        super().__init__(serves, wiring.Signature({"wb": Out(wiring.Signature(bus))}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        wb = self.outside.wb
        m.submodules.registers = registers = RegisterFile(self.serves, waits=False)
        wiring.connect(m, wiring.flipped(self.design), registers.design)
        bus = registers.bus
        unfit = Signal()
        m.d.sync += [wb.ack.eq(0), wb.err.eq(0)]
        with m.FSM():
            with m.State("IDLE"), m.If(wb.cyc & wb.stb & ~wb.ack & ~wb.err):
                m.d.sync += [
                    bus.address.eq(Cat(Const(0, 2), wb.adr)),
                    bus.data.eq(wb.dat_w),
                    bus.write.eq(wb.we),
                ]
                m.d.sync += unfit.eq(wb.we & ~wb.sel.all())
                m.next = "ACCESS"
            with m.State("ACCESS"):  # it ends even if the master gives up
                m.d.comb += bus.valid.eq(~unfit)
                with m.If(bus.ready | unfit):
                    failed = unfit | (bus.code != Access.OK)
                    asked = wb.cyc & wb.stb
                    m.d.sync += [
                        wb.dat_r.eq(bus.value),
                        wb.ack.eq(asked & ~failed),
                        wb.err.eq(asked & failed),
                    ]
                    m.next = "IDLE"
        return m


class WishboneDriver(MapDriver):
    """One access after the other."""

    def store(self, address: int, words: Sequence[int]) -> int:
        """Write words one by one."""
        for number, word in enumerate(words):
            self.simulation.set("wb__dat_w", word)
            if not self._accessed(address + 4 * number, 1):
                return self.value("ERROR") or Access.ADDRESS
        return 0

    def fetch(self, address: int, count: int) -> tuple[list[int], int]:
        """Read words one by one."""
        found: list[int] = []
        for number in range(count):
            if not self._accessed(address + 4 * number, 0):
                return found, self.value("ERROR") or Access.ADDRESS
            found.append(self.simulation.get("wb__dat_r"))
        return found, 0

    def _accessed(self, address: int, write: int) -> bool:
        """Whether an access ended with ACK."""
        simulation = self.simulation
        for name, value in {"adr": address >> 2, "we": write, "sel": 15, "cyc": 1, "stb": 1}.items():
            simulation.set(f"wb__{name}", value)
        simulation.step()
        for _ in range(100):
            if simulation.get("wb__ack") or simulation.get("wb__err"):
                break
            simulation.step()
        done = bool(simulation.get("wb__ack"))
        simulation.set("wb__cyc", 0)
        simulation.set("wb__stb", 0)
        return done
