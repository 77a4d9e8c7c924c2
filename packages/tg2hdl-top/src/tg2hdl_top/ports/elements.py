"""Elements of a buffer as streams in the order of the model: to the words of its memory, and from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from amaranth import Array, Cat, Const, Module, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostBuffer
from tg2hdl_top.ports.element_walk import ElementWalk
from tg2hdl_top.register_map import element_bytes

__all__ = ["ElementReader", "ElementWriter", "add_readers", "add_writers", "padded"]

_Reader = TypeVar("_Reader", bound=wiring.Component)
_CHOICE = 8
"""Lanes that one stage of the reader's multiplexer selects from."""


class ElementWriter(wiring.Component):
    """Writes elements to their lanes.

    Members
    -------
    restart : In(1)
        Go to the first element; wins over `valid`.
    valid, element : In
        An element, taken in the same cycle.
    last : Out(1)
        Whether the next element is the last one.
    wen, waddr, wdata : Out
        To the design, as in `HostBuffer.signature(by_element=True)`.
    """

    def __init__(self, buffer: HostBuffer) -> None:
        self._buffer = buffer
        width, lanes = buffer.dtype.bit_width, buffer.layout.lanes
        super().__init__(
            {
                "restart": In(1),
                "valid": In(1),
                "element": In(width),
                "last": Out(1),
                "wen": Out(lanes),
                "waddr": Out(buffer.address_width),
                "wdata": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.walk = walk = ElementWalk(self._buffer.layout)
        m.d.comb += [
            walk.restart.eq(self.restart),
            walk.step.eq(self.valid),
            self.last.eq(walk.last),
            self.waddr.eq(walk.word),
            self.wdata.eq(self.element),
            self.wen.eq(self.valid << walk.lane),
        ]
        return m


def add_writers(
    m: Module, buffers: Sequence[HostBuffer], host: Any
) -> tuple[dict[int, ElementWriter], Value]:
    """Writers of the buffers that the host writes, by number; whether one that may wait still holds an element.

    Parameters
    ----------
    m : Module
        Gets them as submodules.
    buffers : sequence of HostBuffer
    host : interface
        The member `buffers` of a design.
    """
    found, held = {}, []
    for n, buffer in enumerate(buffers):
        if not buffer.writes:
            continue
        m.submodules[f"write_{buffer.name}"] = writer = ElementWriter(buffer)
        ports = getattr(host, buffer.name)
        values = [(ports.wen, writer.wen), (ports.waddr, writer.waddr), (ports.wdata, writer.wdata)]
        if buffer.waits:
            held.append(ports.wen)
            with m.If(ports.ready):
                m.d.sync += ports.wen.eq(0)
            with m.If(writer.wen):
                m.d.sync += [port.eq(value) for port, value in values]
        else:
            m.d.comb += [port.eq(value) for port, value in values]
        found[n] = writer
    return found, Cat(*held).any()


def add_readers(
    m: Module, buffers: Sequence[HostBuffer], host: Any, make: Callable[[HostBuffer], _Reader]
) -> dict[int, _Reader]:
    """Readers of the buffers that the host reads, by number.

    Parameters
    ----------
    m : Module
        Gets them as submodules.
    buffers : sequence of HostBuffer
    host : interface
        The member `buffers` of a design.
    make : callable
        Makes the reader of a buffer.
    """
    found = {}
    for n, buffer in enumerate(buffers):
        if buffer.reads:
            m.submodules[f"read_{buffer.name}"] = reader = make(buffer)
            ports = getattr(host, buffer.name)
            m.d.comb += [ports.raddr.eq(reader.raddr), reader.rdata.eq(ports.rdata)]
            found[n] = reader
    return found


def padded(element: Value, buffer: HostBuffer) -> Value:
    """An element in all of its bytes: an integer that is stored in fewer bits with its sign, others with zeros.

    Parameters
    ----------
    element : Value
    buffer : HostBuffer
        That it is of.
    """
    sign = element[-1] if buffer.dtype.kind == "int" else Const(0, 1)
    return Cat(element, sign.replicate(8 * element_bytes(buffer) - len(element)))


class ElementReader(wiring.Component):
    """Reads elements, one in a cycle while they are taken.

    Attributes
    ----------
    delay : int
        Cycles from `restart` to the first element.

    Members
    -------
    restart : In(1)
        Begin with the first element, and forget earlier reads.
    valid, element, last : Out
        An element, and whether it is the last one.
    take : In(1)
        Go to the next element.
    raddr, rdata : Out, In
        To the design.
    open, moves : In(1), Out(1)
        Only of a paced buffer, whose elements are read again and again without `restart`, see `HostBuffer.signature`.
    """

    def __init__(self, buffer: HostBuffer) -> None:
        self._buffer = buffer
        self.delay = self.delay_of(buffer)
        super().__init__(
            ({"open": In(1), "moves": Out(1)} if buffer.is_paced else {})
            | {
                "restart": In(1),
                "valid": Out(1),
                "element": Out(buffer.dtype.bit_width),
                "last": Out(1),
                "take": In(1),
                "raddr": Out(buffer.address_width),
                "rdata": In(buffer.width),
            }
        )

    @staticmethod
    def delay_of(buffer: HostBuffer) -> int:
        """`delay` of a reader of this buffer."""
        stages, lanes = 0, buffer.layout.lanes
        while lanes > 1:
            stages, lanes = stages + 1, -(-lanes // _CHOICE)
        return 3 + buffer.latency + stages

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        buffer = self._buffer
        m.submodules.walk = walk = ElementWalk(buffer.layout)
        issue, reading = Signal(), Signal()
        m.d.comb += [walk.restart.eq(self.restart), walk.step.eq(issue)]
        if buffer.is_paced:
            m.d.comb += [reading.eq(self.open), self.moves.eq(issue)]
        else:
            with m.If(self.restart):
                m.d.sync += reading.eq(1)
            with m.Elif(issue & walk.last):
                m.d.sync += reading.eq(0)
        m.d.sync += self.raddr.eq(walk.word)

        # Delayed with the read: whether there is one, the last flag, and the lane.
        here = Cat(walk.last, walk.lane)
        flags: list[Value] = [issue]
        tag: Value = here
        for stage in range(1 + buffer.latency):
            tag = self._register(m, tag, f"tag{stage}")
            flags.append(self._flag(m, flags[-1]))
        element, lane, last = self.rdata, tag[1:], tag[0]
        width, lanes = buffer.dtype.bit_width, buffer.layout.lanes
        while lanes > 1:
            step = min(_CHOICE, lanes)
            bits = (step - 1).bit_length()
            groups = -(-lanes // step)
            parts = [element.word_select(n, width) for n in range(lanes)]
            parts += [parts[-1]] * (groups * step - lanes)
            chosen = [Array(parts[g * step : (g + 1) * step])[lane[:bits]] for g in range(groups)]
            element = self._register(m, Cat(*chosen), f"lanes{groups}")
            flags.append(self._flag(m, flags[-1]))
            rest = self._register(m, Cat(last, lane[bits:]), f"rest{groups}")
            last, lane, lanes = rest[0], rest[1:], groups
        depth = len(flags) + 1
        fifo = SyncFIFO(width=width + 1, depth=depth)
        m.submodules.fifo = ResetInserter(self.restart)(fifo)
        free = Signal(range(depth + 1), init=depth)
        taken = Signal()
        m.d.comb += [
            issue.eq(reading & (free != 0) & ~self.restart),
            fifo.w_data.eq(Cat(last, element)),
            fifo.w_en.eq(flags[-1]),
            self.valid.eq(fifo.r_rdy & ~self.restart),
            self.last.eq(fifo.r_data[0]),
            self.element.eq(fifo.r_data[1:]),
            taken.eq(self.take & self.valid),
            fifo.r_en.eq(taken),
        ]
        m.d.sync += free.eq(free - issue + taken)
        with m.If(self.restart):
            m.d.sync += free.eq(depth)
        return m

    def _flag(self, m: Module, flag: Value) -> Signal:
        register = Signal()
        m.d.sync += register.eq(flag & ~self.restart)
        return register

    def _register(self, m: Module, value: Value, name: str) -> Signal:
        register = Signal(len(value), name=name, reset_less=True)
        m.d.sync += register.eq(value)
        return register
