"""Ports to memory outside the chip: each reads the image once in a run, in bursts, from its first beat to its last."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Signal
from amaranth.hdl import Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.component import Component
from tg2hdl_top.external.memory_model import MEMORY_PORTS, MemoryModel

__all__ = ["Axi4ReadPort", "MemoryPort", "WishboneReadPort", "memory_port"]

ADDRESS_BITS = 32


class MemoryPort(Component):
    """Reads the image.

    Parameters
    ----------
    model : MemoryModel
        Its width and bursts; nothing depends on its times.
    beats : int
        Of the image.
    bus : dict of str to Member
        The bus, as its master drives it.

    Members
    -------
    outside : Out(Signature)
        The bus by its name; `memory_base`, the address (bytes) of the image, a multiple of a burst; and
        `memory_failed`, high after the memory has refused a read, or when a run starts with another address: no run
        ends then.
    start : In(1)
        Read it again, from its first beat on.
    valid, data : Out
        A beat.
    ready : In(1)
        It is taken.
    """

    name = ""

    def __init__(self, model: MemoryModel, beats: int, bus: dict[str, wiring.Member]) -> None:
        self.model = model
        self.beats = beats
        outside = {
            self.name: Out(wiring.Signature(bus)),
            "memory_base": In(ADDRESS_BITS),
            "memory_failed": Out(1),
        }
        super().__init__(
            {
                "outside": Out(wiring.Signature(outside)),
                "start": In(1),
                "valid": Out(1),
                "data": Out(model.bits),
                "ready": In(1),
            }
        )

    @property
    def bus(self) -> wiring.PureInterface:
        """The bus."""
        found: wiring.PureInterface = getattr(self.outside, self.name)
        return found

    def _failure(self, m: Module, refused: Value) -> None:
        burst = (self.model.burst * self.model.beat_bytes - 1).bit_length()
        with m.If(refused | (self.start & self.outside.memory_base[:burst].any())):
            m.d.sync += self.outside.memory_failed.eq(1)


class Axi4ReadPort(MemoryPort):
    """An AXI4 master that only reads: bursts of words, several ahead."""

    name = "m_axi"

    def __init__(self, model: MemoryModel, beats: int) -> None:
        bus = {
            **{"arvalid": Out(1), "arready": In(1), "arid": Out(1), "araddr": Out(ADDRESS_BITS)},
            **{"arlen": Out(8), "arsize": Out(3), "arburst": Out(2), "arcache": Out(4), "arprot": Out(3)},
            **{"rvalid": In(1), "rready": Out(1), "rid": In(1), "rdata": In(model.bits), "rresp": In(2)},
            "rlast": In(1),
        }
        super().__init__(model, beats, bus)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model = Module(), self.model
        bus = self.bus
        bursts, rest = divmod(self.beats, model.burst)
        total = bursts + (rest > 0)
        left = Signal(range(total + 1))
        flight = Signal(range(model.outstanding + 1))
        size = (model.burst * model.beat_bytes - 1).bit_length()
        address = Signal(ADDRESS_BITS - size)
        length = Const(model.burst - 1, 8)
        last_length = Mux(left == 1, rest - 1, length) if rest else length
        m.d.comb += [
            bus.arvalid.eq((left != 0) & (flight != model.outstanding)),
            bus.araddr.eq(Cat(Const(0, size), address)),
            bus.arlen.eq(last_length),
            bus.arsize.eq((model.beat_bytes - 1).bit_length()),
            bus.arburst.eq(0b01),
            bus.arcache.eq(0b0011),
            self.valid.eq(bus.rvalid & ~bus.rresp[1] & ~self.outside.memory_failed),
            self.data.eq(bus.rdata),
            bus.rready.eq(self.ready),
        ]
        asked, ended = bus.arvalid & bus.arready, bus.rvalid & bus.rready & bus.rlast
        self._failure(m, bus.rvalid & bus.rready & bus.rresp[1])
        m.d.sync += flight.eq(flight + asked - ended)
        with m.If(self.start):
            m.d.sync += [left.eq(total), address.eq(self.outside.memory_base[size:])]
        with m.Elif(asked):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1)]
        return m


class WishboneReadPort(MemoryPort):
    """A Wishbone (B4) master that only reads: classic cycles with incrementing bursts; `adr` counts words."""

    name = "m_wb"

    def __init__(self, model: MemoryModel, beats: int) -> None:
        low = (model.beat_bytes - 1).bit_length()
        bus = {
            **{"cyc": Out(1), "stb": Out(1), "we": Out(1), "adr": Out(ADDRESS_BITS - low)},
            **{"sel": Out(model.beat_bytes), "cti": Out(3), "bte": Out(2)},
            **{"dat_r": In(model.bits), "ack": In(1), "err": In(1)},
        }
        super().__init__(model, beats, bus)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        low = (model.beat_bytes - 1).bit_length()
        left = Signal(range(self.beats + 1))
        address = Signal(ADDRESS_BITS - low)
        burst = (model.burst - 1).bit_length()
        last = (left == 1) | address[:burst].all() if burst else Const(1)
        m.d.comb += [
            bus.cyc.eq(left != 0),
            bus.stb.eq((left != 0) & self.ready & ~self.outside.memory_failed),
            bus.adr.eq(address),
            bus.sel.eq(-1),
            bus.cti.eq(Mux(last, 0b111, 0b010)),
            self.valid.eq(bus.stb & bus.ack),
            self.data.eq(bus.dat_r),
        ]
        self._failure(m, bus.stb & bus.err)
        with m.If(self.start):
            m.d.sync += [left.eq(self.beats), address.eq(self.outside.memory_base[low:])]
        with m.Elif(self.valid):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1)]
        return m


_PORTS = dict(zip(MEMORY_PORTS, (Axi4ReadPort, WishboneReadPort), strict=True))


def memory_port(name: str, model: MemoryModel, beats: int) -> MemoryPort:
    """Port of a name, one of `MEMORY_PORTS`, for an image of so many beats."""
    return _PORTS[name](model, beats)
