"""Hardware of a loop: copies the output to the input after each run, and starts the next one."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import Component, HostBuffer, HostShape, variables_signature
from tg2hdl_top.ports.elements import ElementReader, ElementWriter

__all__ = ["RunLoop"]


class RunLoop(Component):
    """Between a host port and the sequencer; a start with `limit` 0 passes through.

    Parameters
    ----------
    shape : HostShape
        With a loop.
    buffers : mapping of str to HostBuffer
        Buffers that the host reaches, through any port.

    Members
    -------
    start, done, busy : In, Out, Out
        Of the host: those of all runs of a start.
    control : In(shape.loop.signature())
    run, ended, running : Out, In, In
        Of the sequencer: starts a run, a run has ended, a run is under way.
    active : Out(1)
        Whether the loop has the buffers and the counter, and not the host.
    first, position : In, Out
        The host's value of the counter, and that of the run; absent without a counter.
    raddr, rdata : Out, In
        Reads the output.
    wen, waddr, wdata : Out
        Write the input, element by element, with an enable for each lane.
    results : In(read port)
        Of the host, to the memory of the results; absent without one.
    """

    def __init__(self, shape: HostShape, buffers: Mapping[str, HostBuffer]) -> None:
        assert shape.loop is not None, "the design has a loop"
        self.loop = shape.loop
        self.source, self.target = buffers[self.loop.output], buffers[self.loop.target]
        self._kept = None if self.loop.results is None else buffers[self.loop.results]
        self._high = {v.name: v.high for v in shape.variables}.get(self.loop.counter or "")
        members: dict[str, wiring.Member] = {
            "start": In(1),
            "done": Out(1),
            "busy": Out(1),
            "control": In(self.loop.signature()),
            "run": Out(1),
            "ended": In(1),
            "running": In(1),
            "active": Out(1),
            "raddr": Out(self.source.address_width),
            "rdata": In(self.source.width),
            "wen": Out(self.target.layout.lanes),
            "waddr": Out(self.target.address_width),
            "wdata": Out(self.target.dtype.bit_width),
        }
        if self.loop.counter is not None:
            counter = variables_signature(shape.variables).members[self.loop.counter].shape
            members |= {"first": In(counter), "position": Out(counter)}
        if self._kept is not None:
            members["results"] = In(self._kept.signature())
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        loop, control, results = self.loop, self.control, self.control.results
        m.submodules.reader = reader = ElementReader(self.source)
        m.submodules.writer = writer = ElementWriter(self.target)
        accepted, again, finish, taken = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            accepted.eq(self.start & (~self.busy | self.done)),
            self.run.eq(accepted | again),
            self.done.eq(Mux(self.active, finish, self.ended)),
            self.busy.eq(self.running | self.active),
            control.begins.eq(again),
            reader.restart.eq(self.active & self.ended),
            self.raddr.eq(reader.raddr),
            reader.rdata.eq(self.rdata),
            results.valid.eq(reader.valid & self.active),
            taken.eq(results.valid & results.ready),
            reader.take.eq(taken),
            writer.valid.eq(taken),
            writer.element.eq(self._value(reader.element)),
            self.wen.eq(writer.wen),
            self.waddr.eq(writer.waddr),
            self.wdata.eq(writer.wdata),
        ]
        # Whether all elements so far equal `stop`.
        equal, same, last = Signal(), Signal(), Signal()
        count = control.count
        ends: Value = (count + 1 == control.limit) | (control.stops & equal & same)
        if loop.counter is not None:
            held = Signal.like(self.position)
            ends |= held == self._high
            m.d.comb += self.position.eq(Mux(self.active, held, self.first))
        m.d.comb += [
            same.eq(self._equals(reader.element, control.stop)),
            last.eq(reader.last & ends),
            results.payload.element.eq(reader.element),
            results.payload.last.eq(last),
        ]
        m.d.sync += [
            again.eq(taken & reader.last & ~last),
            finish.eq(taken & last),
            equal.eq((equal & (same | ~taken)) | reader.restart),
        ]
        with m.If(taken & reader.last):
            m.d.sync += count.eq(count + 1)
        with m.If(finish):
            m.d.sync += self.active.eq(0)
        if loop.counter is not None:
            with m.If(taken & reader.last):
                m.d.sync += held.eq(held + 1)
        with m.If(accepted):
            m.d.sync += [self.active.eq(control.limit != 0), count.eq(0)]
            m.d.sync += [] if loop.counter is None else held.eq(self.first)
        if self._kept is not None:
            self._keep(m, taken, reader.element, accepted)
        return m

    def _keep(self, m: Module, taken: Value, element: Value, restart: Value) -> None:
        """A memory of the results, in their order."""
        assert self._kept is not None, "there is one"
        m.submodules.results = memory = Memory(shape=self._kept.width, depth=self._kept.words, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(taken),
            write.data.eq(element),
            read.addr.eq(self.results.raddr),
            self.results.rdata.eq(read.data),
        ]
        with m.If(restart):
            m.d.sync += write.addr.eq(0)
        with m.Elif(taken):
            m.d.sync += write.addr.eq(write.addr + 1)

    def _value(self, element: Value) -> Value:
        """An element as a number, which a wider signal extends by its sign."""
        return element.as_signed() if self.loop.dtype.kind == "int" else element

    def _equals(self, element: Value, stop: Value) -> Value:
        """Whether an element equals a value of the model's type; zeros of both signs are equal."""
        if self.loop.dtype.is_float:
            return (element == stop) | ~(element[:-1].any() | stop[:-1].any())
        return self._value(element) == (stop.as_signed() if self.loop.stop.kind == "int" else stop)
