"""A host that writes, starts and reads while the kernels work, for runs that follow each other in a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from amaranth.sim import Simulator

from tg2hdl_ir import SimulationError
from tg2hdl_top.design import Design
from tg2hdl_top.top_module import TopModule

__all__ = ["Host", "Ports", "Streamed", "StreamingHost", "packed_words", "simulate_host", "stream"]


class Ports(Protocol):
    """Ports of a simulated design by their names, with ``__`` between the levels."""

    def set(self, name: str, value: int) -> None:
        """Set an input.

        Parameters
        ----------
        name : str
        value : int
            Unsigned.
        """

    def get(self, name: str) -> int:
        """Value of an output."""


class Host(Protocol):
    """Drives the ports of a design, cycle by cycle."""

    inputs: Sequence[Mapping[str, npt.NDArray[Any]]]
    outputs: list[list[npt.NDArray[Any]]]

    @property
    def is_done(self) -> bool:
        """Whether all results are there."""

    def drive(self, ports: Ports, cycle: int) -> None:
        """Set the ports for a cycle.

        Parameters
        ----------
        ports : Ports
            Of the design.
        cycle : int
            From 0.
        """


class Streamed(NamedTuple):
    """Outputs of each run, and the cycles in which runs began and were done."""

    outputs: list[list[npt.NDArray[Any]]]
    starts: list[int]
    dones: list[int]


def stream(
    design: Design,
    inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
    delay: Callable[[int], int] = lambda run: 0,
    limit: int = 100_000,
) -> Streamed:
    """Run inputs one after the other on Amaranth's simulator, each as soon as it is written and the design is ready.

    Parameters
    ----------
    delay : callable
        Cycles that the host waits before it starts a run, by its number.
    limit : int
        Cycles until all runs must be done.

    Raises
    ------
    SimulationError
        When they are not.
    """
    host = StreamingHost(design, inputs, delay)
    simulate_host(design, host, limit)
    return host.streamed()


def simulate_host(design: Design, host: Host, limit: int) -> None:
    """Let a host drive a design on Amaranth's simulator until it is done.

    Parameters
    ----------
    design : Design
    host : Host
    limit : int
        In cycles.

    Raises
    ------
    SimulationError
        When it is not done after `limit` cycles.
    """
    top = TopModule(design)

    async def bench(ctx: Any) -> None:
        ports = _SignalPorts(ctx, top)
        for cycle in range(limit):
            host.drive(ports, cycle)
            if host.is_done:
                return
            await ctx.tick()
        raise SimulationError(
            f"{len(host.outputs)} of {len(host.inputs)} runs are done after {limit} cycles",
            hint="give a larger limit if the work takes longer",
        )

    simulator = Simulator(top)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


class _SignalPorts:
    def __init__(self, ctx: Any, top: TopModule) -> None:
        self.ctx = ctx
        self.top = top

    def set(self, name: str, value: int) -> None:
        self.ctx.set(self._signal(name), value)

    def get(self, name: str) -> int:
        return int(self.ctx.get(self._signal(name)))

    def _signal(self, name: str) -> Any:
        return reduce(getattr, name.split("__"), self.top)


class StreamingHost:
    """Writes inputs a word a cycle, starts runs and reads results; `drive` is called once in each cycle.

    Parameters
    ----------
    design : Design
    inputs : sequence of mapping of str to ndarray
        For each run, by buffer name.
    delay : callable
        Cycles that the host waits before it starts a run, by its number.
    """

    def __init__(
        self,
        design: Design,
        inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
        delay: Callable[[int], int] = lambda run: 0,
    ) -> None:
        self.design = design
        self.inputs = inputs
        self.delay = delay
        self.starts: list[int] = []
        self.dones: list[int] = []
        self.outputs: list[list[npt.NDArray[Any]]] = []
        self.written = 0
        self.longest = 0
        self.since = 0
        self.reading: dict[int, list[int]] | None = None
        self.read = 0
        self._load()

    @property
    def is_done(self) -> bool:
        """Whether the results of all runs are read."""
        return len(self.outputs) == len(self.inputs)

    def streamed(self) -> Streamed:
        """The results so far."""
        return Streamed(self.outputs, self.starts, self.dones)

    def _load(self) -> None:
        """Take the words of the next run."""
        if len(self.starts) == len(self.inputs):
            self.words: dict[int, list[int]] = {}
        else:
            loads = self.design.loads(self.inputs[len(self.starts)])
            self.words = {
                number: packed_words(words, self.design.memory(number).dtype.bit_width)
                for number, words in loads.items()
                if not (self.design.memory(number).role.is_weight and self.starts)
            }
        self.written = 0
        self.longest = max((len(words) for words in self.words.values()), default=0)

    def drive(self, ports: Ports, cycle: int) -> None:
        """Set the ports for this cycle.

        Parameters
        ----------
        ports : Ports
            Of the simulated design.
        cycle : int
            Cycles since the first call, from 0.
        """
        self._start(ports, cycle)
        self._write(ports)
        self._read(ports, cycle)

    def _start(self, ports: Ports, cycle: int) -> None:
        pending = len(self.starts) < len(self.inputs) and self.written >= self.longest
        waited = pending and cycle - self.since >= self.delay(len(self.starts))
        begins = waited and self._has_room(cycle) and self._is_ready(ports)
        ports.set("start", int(begins))
        if begins:
            self.starts.append(cycle)
            self._load()
            self.written = -1  # the inputs of the next run from the cycle after start on
            self.since = cycle

    def _is_ready(self, ports: Ports) -> bool:
        """Whether a start begins a run."""
        return bool(ports.get("ready")) if self.design.sequencer.interval else not ports.get("busy")

    def _has_room(self, cycle: int) -> bool:
        """Whether the results before those of the next run will have been read by the time it is done."""
        if not self.design.sequencer.interval:
            return len(self.starts) == len(self.outputs)
        memories = [self.design.memory(number) for number in self.design.program.outputs]
        reading = max(memory.layout.words + memory.read_latency for memory in memories) + 1
        return not self.starts or cycle - self.starts[-1] >= reading

    def _write(self, ports: Ports) -> None:
        # Where runs do not overlap the host writes while the design is idle, after reading words that it may overwrite.
        waits = not self.design.sequencer.interval and len(self.starts) > len(self.outputs)
        for number in self.design.memories:
            memory = self.design.memory(number)
            if memory.role.host_writes:
                port = f"buffers__{memory.name}"
                words = self.words.get(number, [])
                writes = not waits and 0 <= self.written < len(words)
                ports.set(f"{port}__wen", int(writes))
                if writes:
                    ports.set(f"{port}__waddr", self.written)
                    ports.set(f"{port}__wdata", words[self.written])
        self.written += not waits

    def _read(self, ports: Ports, cycle: int) -> None:
        if self.reading is not None:
            finished = True
            for number, found in self.reading.items():
                memory = self.design.memory(number)
                port = f"buffers__{memory.name}"
                if self.read >= memory.read_latency and len(found) < memory.layout.words:
                    found.append(ports.get(f"{port}__rdata"))
                if self.read < memory.layout.words:
                    ports.set(f"{port}__raddr", self.read)
                finished &= len(found) == memory.layout.words
            self.read += 1
            if finished:
                self.outputs.append([self._unpacked(n, found) for n, found in self.reading.items()])
                self.reading = None
        if ports.get("done"):
            assert self.reading is None, "the host reads results before the next ones are there"
            self.dones.append(cycle)
            self.reading = {number: [] for number in self.design.program.outputs}
            self.read = 0  # from the cycle after done on

    def _unpacked(self, number: int, words: Sequence[int]) -> npt.NDArray[Any]:
        memory = self.design.memory(number)
        layout, width = memory.layout, memory.dtype.bit_width
        packed = np.zeros((layout.words, layout.lanes), np.uint64)
        for address, word in enumerate(words):
            packed[address] = [(word >> (n * width)) & ((1 << width) - 1) for n in range(layout.lanes)]
        dtype = self.design.program.buffers[number].dtype.numpy()
        return layout.unpack(packed, memory.dtype).astype(dtype, copy=False)


def packed_words(packed: npt.NDArray[np.uint64], width: int) -> list[int]:
    """Words as Python integers, of any width.

    Parameters
    ----------
    packed : ndarray of uint64
        Bit patterns of shape (words, lanes).
    width : int
        Bits of a lane.
    """
    return [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]
