"""Elements of a buffer as bytes in the order of the model."""

from __future__ import annotations

from amaranth import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostBuffer
from tg2hdl_top.ports.element_walk import ElementWalk, merged
from tg2hdl_top.ports.elements import padded
from tg2hdl_top.register_map import element_bytes

__all__ = ["ElementBytes"]


class ElementBytes(wiring.Component):
    """Reads the bytes of elements one after the other.

    Unlike `ElementReader` it does not prefetch: one byte-wide multiplexer follows the memory.  Elements are padded to a
    power of two of bytes, see `padded`.

    Parameters
    ----------
    buffer : HostBuffer

    Attributes
    ----------
    delay : int
        Cycles from a `restart` or `step` to a byte of that element.

    Members
    -------
    restart : In(1)
        Go to the first byte; wins over `next`.
    next, step : In(1)
        Go to the next byte; and to the next element with it.
    byte, last : Out
        The byte, and whether the element is the last one.
    raddr, rdata : Out, In
        To the design.
    """

    def __init__(self, buffer: HostBuffer) -> None:
        self._buffer, self._size = buffer, element_bytes(buffer)
        self.delay = 1 + buffer.latency
        super().__init__(
            {
                "restart": In(1),
                "next": In(1),
                "step": In(1),
                "byte": Out(8),
                "last": Out(1),
                "raddr": Out(buffer.address_width),
                "rdata": In(buffer.width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        buffer, width = self._buffer, self._buffer.dtype.bit_width
        m.submodules.walk = walk = ElementWalk(buffer.layout)
        m.d.comb += [walk.restart.eq(self.restart), walk.step.eq(self.step), self.last.eq(walk.last)]
        m.d.comb += self.raddr.eq(walk.word)
        lanes = buffer.layout.lanes
        words = [self.rdata[n * width : (n + 1) * width] for n in range(lanes)]
        data = Signal(8 * self._size * lanes)
        m.d.comb += data.eq(Cat(padded(word, buffer) for word in words))
        m.d.comb += self.byte.eq(self._choose(m, walk, data))
        return m

    def _choose(self, m: Module, walk: ElementWalk, data: Value) -> Value:
        """Select the current byte of a word."""
        count = len(data) // 8
        if all(split == 1 for split in merged(self._buffer.layout).split[:-1]):
            # Bytes follow one another: a one-hot flag shifts along, and a LUT gates two of them.
            flags = Signal(count, init=1)
            with m.If(self.restart | (self.step & walk.wraps)):
                m.d.sync += flags.eq(1)
            with m.Elif(self.next):
                m.d.sync += flags.eq(flags << 1)
            return Cat((Cat(data[bit::8]) & flags).any() for bit in range(8)) if count > 1 else data
        index, lane = Signal((self._size - 1).bit_length()), walk.lane
        with m.If(self.restart | self.step):
            m.d.sync += index.eq(0)
        with m.Elif(self.next):
            m.d.sync += index.eq(index + 1)
        place = Signal(len(index) + len(lane))
        m.d.comb += place.eq(Cat(index, lane))
        return data.word_select(place, 8)
