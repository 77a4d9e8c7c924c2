"""The port ``axi-stream``: inputs and results as packets of AXI4-Stream, an element of the model in each transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_lower import HostBuffer, HostShape, from_words, to_words, variables_signature
from tg2hdl_top.ports.axi_stream_rows import follow_rows, send_rows, take_rows
from tg2hdl_top.ports.base import HostDriver, HostPort
from tg2hdl_top.ports.elements import ElementReader, ElementWriter, padded
from tg2hdl_top.register_map import element_bytes

__all__ = ["AxiStreamDriver", "AxiStreamPort", "streamed"]

_LOOP = ("limit", "stops", "stop")


class AxiStreamPort(HostPort):
    """A packet in starts a run, and its results are a packet out.

    A packet in has all inputs in the model's order, one element in each transfer, in C order, in the lower bits of
    TDATA, whose other bits are ignored; a packet out has all results in the same way, with zeros.  TDATA is as wide as
    the widest element, in 1, 2, 4 or 8 bytes; TLAST is high only in the last transfer of a packet.  A packet in of
    another length is dropped up to its TLAST: nothing runs, and `dropped` is high for a cycle.  TREADY is low where the
    design cannot take inputs yet.  While TREADY of the results is low, the design holds its results.

    With the schedule ``dataflow`` a packet is taken while others are computed, and as many results as runs may be
    under way have a place of their own, so that a host that does not take them holds up only the next start.

    With the schedule ``rows`` a packet is a frame whose elements are taken while rows are computed, and results leave
    as they come.  A packet in of another length gives a packet of wrong results: it is filled up with any elements, or
    dropped from there to its TLAST.

    A start with `loop.limit` above 0 gives the results of the loop in one packet out, as they come.

    Members of `outside`: `s_axis`, `m_axis` with the signals of AXI4-Stream; `status` with `busy`, `done`,
    `kernel_done` as of the design and `dropped`; `variables` where the model has them, and `loop` with `limit`, `stops`
    and `stop` where the design has one, which are sampled when a run starts.
    """

    by_element = True
    overlaps_runs = True

    def __init__(self, serves: HostShape) -> None:
        self._inputs, self._outputs = streamed(serves)
        outside = {
            "s_axis": Out(_stream(8 * _bytes(self._inputs))),
            "m_axis": In(_stream(8 * _bytes(self._outputs))),
            "status": Out(
                wiring.Signature(
                    {
                        "busy": In(1),
                        "done": In(1),
                        "kernel_done": In(1).array(serves.kernels),
                        "dropped": In(1),
                    }
                )
            ),
        }
        if serves.variables:
            outside["variables"] = Out(variables_signature(serves.variables))
        if serves.loop is not None:
            members = serves.loop.signature().members
            outside["loop"] = Out(wiring.Signature({name: members[name] for name in _LOOP}))
        super().__init__(serves, wiring.Signature(outside))

    @classmethod
    def claim(cls, free: HostShape) -> HostShape:
        """Control, inputs and results; weights that are loadable are left to another port."""
        if not free.control:
            return replace(free, buffers=())
        if not free.inputs:
            raise InputError(
                f"the model {free.program} has no input that could come in a stream",
                hint='use another host port, such as "native"',
            )
        inputs, outputs = set(free.inputs), set(free.outputs)
        served = [
            replace(b, writes=b.writes and b.name in inputs, reads=b.reads and b.name in outputs)
            for b in free.buffers
        ]
        return replace(free, buffers=tuple(b for b in served if b.writes or b.reads))

    @classmethod
    def describe(cls, serves: HostShape) -> dict[str, Any]:
        """The contents of the packets, in order."""
        return {
            name: {"tdata_bits": 8 * _bytes(buffers), "packet": [_described(b) for b in buffers]}
            for name, buffers in zip(("s_axis", "m_axis"), streamed(serves), strict=True)
        }

    @staticmethod
    def run_interval(serves: HostShape, cycles: int, interval: int = 0) -> int:
        """Clock cycles from a start to the next, for packets that never wait; exact.

        Without an interval the next packet in is taken while the results are sent, otherwise while the run is under way
        too.

        Parameters
        ----------
        serves : HostShape
        cycles : int
            From start to done.
        interval : int
            From a start to the next one that the schedule allows; 0 where runs take place one at a time.
        """
        inputs, outputs = streamed(serves)
        taken, sent = (sum(b.layout.depth for b in buffers) for buffers in (inputs, outputs))
        delays = sum(map(ElementReader.delay_of, outputs))
        if not interval:
            return cycles + 2 + max(taken, sent + delays)
        least = max(taken + 1, sent + 2 + delays + len(outputs))
        slots = -(-least // interval)
        return slots * interval if slots <= -(-cycles // interval) else least

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        design, status = self.design, self.outside.status
        reading, room, full, begin = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            status.busy.eq(design.busy),
            status.done.eq(design.done),
            *(seen.eq(done) for seen, done in zip(status.kernel_done, design.kernel_done, strict=True)),
        ]
        if any(buffer.is_paced for buffer in self.serves.buffers):
            hosts = [getattr(design.buffers, b.name) for b in (*self._inputs, *self._outputs)]
            take_rows(m, hosts[0], self._inputs[0], self.outside.s_axis, status.dropped)
            send_rows(m, hosts[1], self._outputs[0], self.outside.m_axis)
            return m
        if self.serves.streams:
            m.d.comb += [begin.eq(full & room & design.ready), design.start.eq(begin)]
            may_write = Signal(init=1)
        else:
            occupied, may_write = Signal(), Signal()
            m.d.comb += [occupied.eq(design.start | design.busy), begin.eq(full & room & ~occupied)]
            m.d.sync += design.start.eq(begin)
            in_place = any(b.writes and b.reads for b in self.serves.buffers)
            m.d.comb += may_write.eq(~occupied & ~(reading if in_place else 0))
        for variable in self.serves.variables:
            held = getattr(design.variables, variable.name)
            with m.If(begin):
                m.d.sync += held.eq(getattr(self.outside.variables, variable.name))
        if self.serves.loop is not None:
            with m.If(begin):
                m.d.sync += [getattr(design.loop, n).eq(getattr(self.outside.loop, n)) for n in _LOOP]
        self._take_packets(m, may_write, full, begin)
        self._send_packets(m, reading, room, begin)
        return m

    def _take_packets(self, m: Module, may_write: Signal, full: Signal, begin: Signal) -> None:
        source, status = self.outside.s_axis, self.outside.status
        writers = []
        for buffer in self._inputs:
            m.submodules[f"write_{buffer.name}"] = writer = ElementWriter(buffer)
            host = getattr(self.design.buffers, buffer.name)
            m.d.comb += [
                host.wen.eq(writer.wen),
                host.waddr.eq(writer.waddr),
                host.wdata.eq(writer.wdata),
                writer.element.eq(source.tdata),
            ]
            writers.append(writer)
        place, dropping = Signal(range(max(2, len(writers)))), Signal()
        here_last, packet_last, wrong = Signal(), Signal(), Signal()
        beat = source.tvalid & source.tready
        m.d.comb += [
            source.tready.eq(dropping | (may_write & ~full)),
            here_last.eq(Array(w.last for w in writers)[place]),
            packet_last.eq(here_last & (place == len(writers) - 1)),
            wrong.eq(beat & ~dropping & (source.tlast != packet_last)),
            status.dropped.eq((wrong | (beat & dropping)) & source.tlast),
            *(w.valid.eq(beat & ~dropping & (place == n)) for n, w in enumerate(writers)),
            *(w.restart.eq(wrong) for w in writers),
        ]
        with m.If(begin):
            m.d.sync += full.eq(0)
        with m.If(beat & (dropping | wrong)):
            m.d.sync += [dropping.eq(~source.tlast), place.eq(0)]
        with m.Elif(beat & here_last):
            m.d.sync += [place.eq(Mux(packet_last, 0, place + 1)), full.eq(packet_last)]

    def _send_packets(self, m: Module, reading: Signal, room: Signal, begin: Signal) -> None:
        readers: dict[str, ElementReader] = {}
        for buffer in self._outputs:
            if buffer.name not in readers:
                m.submodules[f"read_{buffer.name}"] = reader = ElementReader(buffer)
                host = getattr(self.design.buffers, buffer.name)
                m.d.comb += [host.raddr.eq(reader.raddr), reader.rdata.eq(host.rdata)]
                readers[buffer.name] = reader
        order = [readers[buffer.name] for buffer in self._outputs]
        place = Signal(range(max(2, len(order))))
        sink, done = self.outside.m_axis, self.design.done
        if self.serves.loop is not None:  # its results have left when it is done
            done = done & (self.design.loop.limit == 0)
        element, valid, last, take = Signal(len(sink.tdata)), Signal(), Signal(), Signal()
        goes_on, restart = Signal(), Signal()
        m.d.comb += [
            element.eq(Array(padded(r.element, b) for r, b in zip(order, self._outputs, strict=True))[place]),
            valid.eq(reading & Array(r.valid for r in order)[place]),
            last.eq(Array(r.last for r in order)[place]),
            goes_on.eq(valid & take & last),
        ]
        ends = last & (place == len(order) - 1)
        for name, reader in readers.items():
            places = [n for n, buffer in enumerate(self._outputs) if buffer.name == name]
            here = Cat(place == n for n in places).any()
            m.d.comb += [reader.take.eq(take & reading & here), reader.restart.eq(restart & here)]
        m.d.sync += restart.eq(done | (goes_on & ~ends))
        with m.If(goes_on):
            m.d.sync += place.eq(place + 1)
        with m.If(goes_on & ends):
            m.d.sync += [place.eq(0), reading.eq(0)]
        with m.If(done):
            m.d.sync += reading.eq(1)
        if not self.serves.streams:
            m.d.comb += [
                sink.tvalid.eq(valid),
                sink.tdata.eq(element),
                sink.tlast.eq(ends),
                take.eq(sink.tready),
            ]
            if self.serves.loop is not None:
                results = self.design.loop.results
                with m.If(self.design.loop.limit != 0):
                    m.d.comb += [
                        sink.tvalid.eq(results.valid),
                        sink.tdata.eq(results.payload.element),
                        sink.tlast.eq(results.payload.last),
                        results.ready.eq(sink.tready),
                    ]
            m.d.comb += room.eq(~reading)
            return
        # The result of a run is read before the next one is done, into a place that was kept for it.
        results = self.serves.overlap + 1
        size = sum(b.layout.depth for b in self._outputs)
        spacing = 1 + size + sum(1 + r.delay for r in order)
        m.submodules.results = fifo = SyncFIFOBuffered(width=len(element) + 1, depth=results * size)
        free, wait = Signal(range(results + 1), init=results), Signal(range(spacing + 1))
        m.d.comb += [
            fifo.w_data.eq(Cat(ends, element)),
            fifo.w_en.eq(valid),
            take.eq(1),
            sink.tvalid.eq(fifo.r_rdy),
            sink.tlast.eq(fifo.r_data[0]),
            sink.tdata.eq(fifo.r_data[1:]),
            fifo.r_en.eq(sink.tready),
            room.eq((free != 0) & (wait == 0)),
        ]
        m.d.sync += free.eq(free - begin + (sink.tvalid & sink.tready & sink.tlast))
        with m.If(begin):
            m.d.sync += wait.eq(spacing)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)


class AxiStreamDriver(HostDriver):
    """Sends all inputs in one packet, and reads the results from the other one."""

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        super().__init__(serves, simulation)
        self._inputs, self._outputs = streamed(serves)
        self._given: dict[str, list[int]] = {}
        self._found: dict[str, npt.NDArray[Any]] = {}

    def write(self, buffer: str, words: npt.NDArray[Any]) -> int:
        """Keep the elements for the packet, in which each takes a cycle."""
        chosen = next(b for b in self._inputs if b.name == buffer)
        elements = from_words(words, chosen.layout, chosen.dtype)
        self._given[buffer] = chosen.dtype.array_to_bits(elements).tolist()
        return len(self._given[buffer])

    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Send the packet, and watch `status`."""
        self._found = {}
        if self._outputs[0].is_paced:
            return self._follow(limit)
        before = self._begin(variables, limit)
        return self.watched(before, limit, "status__")

    def _follow(self, limit: int) -> tuple[int, ...]:
        """Send the packet, and take the results meanwhile."""
        (source,), (result,) = self._inputs, self._outputs
        sizes = self.serves.kernels, result.layout.depth
        ends, found = follow_rows(self.simulation, self._given[source.name], *sizes, limit)
        if len(found) < result.layout.depth:
            raise SimulationError(
                f"{len(found)} of {result.layout.depth} results are there after {limit} cycles",
                where=type(self).__name__,
                hint="please report this with the design: the simulated port is wrong",
            )
        self._found[result.name] = self._words(result, np.array(found, np.uint64))
        return ends

    def _words(self, buffer: HostBuffer, bits: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
        """Words of a buffer from its elements."""
        packed = buffer.layout.pack(buffer.dtype.bits_to_array(bits), buffer.dtype)
        return to_words(packed, buffer.dtype.bit_width)

    def _begin(self, variables: Mapping[str, int], limit: int) -> int:
        """Send the packet; returns the cycle of `start`."""
        simulation = self.simulation
        for name, value in variables.items():
            simulation.set(f"variables__{name}", value)
        beats = [element for b in self._inputs for element in self._given[b.name]]
        for number, element in enumerate(beats):
            simulation.set("s_axis__tdata", element)
            simulation.set("s_axis__tlast", int(number == len(beats) - 1))
            simulation.set("s_axis__tvalid", 1)
            simulation.run_until("s_axis__tready", limit=limit)
            simulation.step()
        simulation.set("s_axis__tvalid", 0)
        simulation.run_until("status__busy", limit=limit)
        return int(simulation.cycles - 1)

    def generate(
        self, variables: Mapping[str, int], results: int, stop: int | None, limit: int
    ) -> tuple[npt.NDArray[Any], int]:
        """Send the packet with a limit, and take the packet of all results."""
        simulation, loop = self.simulation, self.serves.loop
        assert loop is not None, "asked for a design with one"
        controls = {"limit": results, "stops": int(stop is not None), "stop": stop or 0}
        for name, value in controls.items():
            simulation.set(f"loop__{name}", value)
        before = self._begin(variables, limit)
        simulation.set("m_axis__tready", 1)
        found, last = list[int](), 0
        while not last:
            simulation.run_until("m_axis__tvalid", limit=limit)
            found.append(simulation.get("m_axis__tdata"))
            last = simulation.get("m_axis__tlast")
            simulation.step()
        simulation.set("m_axis__tready", 0)
        simulation.run_until("status__done", limit=limit)
        cycles = simulation.cycles - before
        simulation.step()
        simulation.set("loop__limit", 0)
        return np.array(found, np.uint64).reshape(-1, loop.elements), cycles

    def read(self, buffer: str) -> npt.NDArray[Any]:
        """Take the packet, and return the words of one buffer of it."""
        if not self._found:
            self._take_packet()
        return self._found[buffer]

    def _take_packet(self) -> None:
        simulation = self.simulation
        simulation.set("m_axis__tready", 1)
        for number, buffer in enumerate(self._outputs):
            bits = np.zeros(buffer.layout.depth, np.uint64)
            for n in range(len(bits)):
                simulation.run_until("m_axis__tvalid", limit=100)
                bits[n] = simulation.get("m_axis__tdata")
                ends = number == len(self._outputs) - 1 and n == len(bits) - 1
                if simulation.get("m_axis__tlast") != ends:
                    raise SimulationError(
                        f"TLAST of element {n} of {buffer.name!r} is {int(not ends)}",
                        where=type(self).__name__,
                        hint="please report this with the design: the simulated port is wrong",
                    )
                simulation.step()
            self._found[buffer.name] = self._words(buffer, bits)
        simulation.set("m_axis__tready", 0)


def _stream(bits: int) -> wiring.Signature:
    return wiring.Signature({"tvalid": Out(1), "tdata": Out(bits), "tlast": Out(1), "tready": In(1)})


def streamed(serves: HostShape) -> tuple[list[HostBuffer], list[HostBuffer]]:
    """Buffers of the packets in and out."""
    known = {b.name: b for b in serves.buffers}
    inputs = [known[name] for name in serves.inputs if name in known]
    return inputs, [known[name] for name in serves.outputs if name in known]


def _bytes(buffers: list[HostBuffer]) -> int:
    return max(map(element_bytes, buffers))


def _described(buffer: HostBuffer) -> dict[str, Any]:
    return {"name": buffer.title, "dtype": buffer.dtype.numpy().name, "shape": list(buffer.shape)}
