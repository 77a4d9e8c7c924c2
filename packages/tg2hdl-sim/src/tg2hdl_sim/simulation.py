"""The interface that all engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_sim import words as w
from tg2hdl_sim.model import Elaboration, MemoryInfo, PortInfo

__all__ = ["Simulation"]

Addresses = Sequence[int] | range | NDArray[Any]


class Simulation(ABC):
    """A running design; a context manager.

    Engines implement the methods with a leading underscore, which take indices and 32-bit chunks.

    Parameters
    ----------
    elaboration : Elaboration
        The design.
    engine : str
        Name of the engine.

    Attributes
    ----------
    engine : str
        Name of the engine.
    ports : mapping of str to PortInfo
        Ports by name.
    memories : mapping of str to MemoryInfo
        Memories by the names of the model.
    """

    def __init__(self, elaboration: Elaboration, engine: str) -> None:
        self.engine = engine
        self.name = elaboration.model.name
        self.ports: Mapping[str, PortInfo] = MappingProxyType(elaboration.ports)
        self._port_index = {name: index for index, name in enumerate(elaboration.ports)}
        self._memory_index = elaboration.names
        self._elaboration = elaboration
        self.memories: Mapping[str, MemoryInfo] = MappingProxyType(
            {
                name: MemoryInfo(name, info.width, info.depth, info.signed)
                for name, index in elaboration.names.items()
                for info in [elaboration.memories[index].info]
            }
        )
        self._open = True
        self._finish: list[Callable[[], None]] = []

    # Lifetime

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation and finish its waveform; further calls do nothing."""
        if self._open:
            self._open = False
            self._close()
            for function in self._finish:
                function()

    def on_finish(self, function: Callable[[], None]) -> None:
        """Call a function once the waveform is complete, after those before it."""
        self._finish.append(function)

    def reset(self) -> None:
        """Power on again: registers, memories and inputs get their initial values, and `cycles` is 0."""
        self._check_open()
        self._reset()
        self._initialize()

    def _initialize(self) -> None:
        for index, memory in enumerate(self._elaboration.memories):
            initial = memory.initial
            if any(initial):
                self._write_memory(index, 0, w.from_ints(initial, memory.info.width))
        for name, port in self.ports.items():
            if port.direction == "in" and port.init:
                self._set(self._port_index[name], w.from_ints([port.init], port.width))

    # Ports and time

    @property
    @abstractmethod
    def cycles(self) -> int:
        """Rising clock edges since the start or the last reset."""

    def set(self, port: str, value: int) -> None:
        """Drive an input from now on.

        Parameters
        ----------
        port : str
        value : int
            Within the width of the port; negative values are taken in two's complement.

        Raises
        ------
        InputError
            For an unknown port, an output, or a value that does not fit.
        """
        info = self._input(port)
        self._set(self._port_index[port], w.from_int(self._fit(info, value), info.width))

    def get(self, port: str) -> int:
        """Return the settled value of a port; negative for signed ports."""
        info = self._port(port)
        (value,) = w.to_ints(self._get(self._port_index[port], w.chunks_of(info.width)))
        return value - (1 << info.width) if info.signed and value >> (info.width - 1) else value

    def step(self, n: int = 1) -> None:
        """Advance by `n` rising clock edges."""
        self._check_open()
        if n < 0:
            raise InputError(f"cannot step {n} cycles", where=self.name, hint="time only advances")
        self._step(n)

    def run_until(self, port: str, value: int = 1, limit: int = 1_000_000) -> int:
        """Step until the settled value of a port equals `value`.

        Parameters
        ----------
        port : str
        value : int
        limit : int
            Most edges.

        Returns
        -------
        int
            Edges used; 0 when the port has the value already.

        Raises
        ------
        SimulationError
            After `limit` edges without it.
        """
        info = self._port(port)
        wanted = w.from_int(self._fit(info, value), info.width)
        if limit < 0:
            raise InputError(f"the limit is {limit} cycles", where=self.name, hint="give 0 or more")
        used = self._run_until(self._port_index[port], wanted, limit)
        if used is None:
            raise SimulationError(
                f"port {port!r} is not {value} after {limit} cycles; it is {self.get(port)}",
                where=f"{self.name}, cycle {self.cycles}, engine {self.engine}",
                hint="give a larger limit if the work takes longer, or look at a waveform (vcd=...)",
            )
        return used

    # Memories

    def write_memory(self, name: str, words: Any, offset: int = 0) -> None:
        """Write words through the back door; the next edge sees them.

        Parameters
        ----------
        name : str
            Name of the memory in the model.
        words : array_like
            Integers that fit the width, signed or unsigned; above 64 bits uint64 limbs of shape
            (count, limbs), least significant first.
        offset : int
            Address of the first word.
        """
        info = self._memory(name)
        chunks = w.to_chunks(words, info.width, f"memory {name!r}")
        self._check_range(info, offset, len(chunks))
        self._write_memory(self._memory_index[name], offset, chunks)

    def read_memory(
        self, name: str, offset: int = 0, count: int | None = None, signed: bool | None = None
    ) -> NDArray[Any]:
        """Read words through the back door.

        Parameters
        ----------
        name : str
        offset : int
            Number of the first word.
        count : int, optional
            Number of words; all to the end unless given.
        signed : bool, optional
            As the memory's shape is unless given.

        Returns
        -------
        ndarray
            The smallest integer dtype that holds the width, or uint64 limbs above 64 bits; signed when the
            memory's shape is, unless `signed` says otherwise.
        """
        info = self._memory(name)
        count = info.depth - offset if count is None else count
        self._check_range(info, offset, count)
        chunks = self._read_memory(self._memory_index[name], offset, count, w.chunks_of(info.width))
        return w.from_chunks(chunks, info.width, info.signed if signed is None else signed)

    # Streams

    def write_stream(
        self, addr_port: str, data_port: str, enable_port: str, addresses: Addresses, words: Any
    ) -> int:
        """Write one word per edge through ports.

        The enable is all ones during the stream and 0 after it; address and data keep their last values.

        Parameters
        ----------
        addr_port, data_port, enable_port : str
            Input ports.
        addresses : range or ndarray of int
            One for each word.
        words : array_like
            Integers, or for data above 64 bits limbs as `read_memory` gives them.

        Returns
        -------
        int
            Edges used: one per word.
        """
        addr, data, enable = map(self._input, (addr_port, data_port, enable_port))
        chunks = w.to_chunks(words, data.width, f"port {data_port!r}")
        where = self._addresses(addr, addresses)
        if len(where) != len(chunks):
            raise InputError(
                f"{len(where)} addresses for {len(chunks)} words on port {data_port!r}",
                where=self.name,
                hint="give one address per word",
            )
        on = w.from_ints([-1], enable.width)
        index = self._port_index
        self._write_stream(index[addr_port], index[data_port], index[enable_port], on, where, chunks)
        return len(chunks)

    def read_stream(
        self,
        addr_port: str,
        data_port: str,
        addresses: Addresses,
        latency: int = 1,
        signed: bool | None = None,
    ) -> NDArray[Any]:
        """Read one word per edge through ports.

        Parameters
        ----------
        addr_port, data_port : str
            An input port and an output port.
        addresses : range or ndarray of int
            One for each word.
        latency : int
            Edges from an address to its word: 0 for an asynchronous port, 1 for a synchronous one.
        signed : bool, optional
            By default as the data port is declared.

        Returns
        -------
        ndarray
            As for `read_memory`.  ``len(addresses) + max(latency, 1) - 1`` edges are used.
        """
        addr, data = self._input(addr_port), self._port(data_port)
        if latency < 0:
            raise InputError(f"the latency is {latency} cycles", where=self.name, hint="give 0 or more")
        where = self._addresses(addr, addresses)
        if not len(where):
            return w.from_chunks(np.zeros((0, w.chunks_of(data.width)), "<u4"), data.width, data.signed)
        index = self._port_index
        chunks = self._read_stream(
            index[addr_port], index[data_port], where, latency, w.chunks_of(data.width)
        )
        return w.from_chunks(chunks, data.width, data.signed if signed is None else signed)

    # Checks

    def _check_open(self) -> None:
        if not self._open:
            raise SimulationError(
                "the simulation is closed", where=self.name, hint="use it inside its with block"
            )

    def _refuse_reset_of_wave(self, vcd: Path | None) -> None:
        if vcd:
            raise SimulationError(
                "a simulation with a waveform cannot be reset",
                where=self.name,
                hint="open another simulation with another file",
            )

    def _port(self, name: str) -> PortInfo:
        self._check_open()
        if name not in self.ports:
            raise InputError(
                f"no port is named {name!r}", where=self.name, hint="ports: " + _some(self.ports)
            )
        return self.ports[name]

    def _input(self, name: str) -> PortInfo:
        info = self._port(name)
        if info.direction != "in":
            inputs = [port.name for port in self.ports.values() if port.direction == "in"]
            raise InputError(
                f"port {name!r} is an output", where=self.name, hint="inputs: " + (_some(inputs) or "none")
            )
        return info

    def _memory(self, name: str) -> MemoryInfo:
        self._check_open()
        if name not in self.memories:
            raise InputError(
                f"no memory is named {name!r}",
                where=self.name,
                hint="memories: " + (_some(self.memories) or "none"),
            )
        return self.memories[name]

    def _fit(self, info: PortInfo, value: int) -> int:
        low, high = -(1 << info.width >> 1), (1 << info.width) - 1
        if not low <= value <= high:
            raise InputError(
                f"value {value} does not fit port {info.name!r} of {info.width} bits",
                where=self.name,
                hint=f"allowed: {low} to {high}",
            )
        return int(value)

    def _check_range(self, info: MemoryInfo, offset: int, count: int) -> None:
        if offset < 0 or count < 0 or offset + count > info.depth:
            raise InputError(
                f"words {offset} to {offset + count - 1} are outside memory {info.name!r} "
                f"of depth {info.depth}",
                where=self.name,
                hint="give an offset and a count within the depth",
            )

    def _addresses(self, info: PortInfo, addresses: Addresses) -> NDArray[np.uint64]:
        array = np.asarray(addresses)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InputError(
                f"addresses for port {info.name!r} have dtype {array.dtype} and shape {array.shape}",
                where=self.name,
                hint="give a range or a one-dimensional array of integers",
            )
        if array.size and (int(array.min()) < 0 or int(array.max()) >> info.width):
            raise InputError(
                f"addresses {int(array.min())} to {int(array.max())} do not fit port {info.name!r} "
                f"of {info.width} bits",
                where=self.name,
                hint=f"allowed: 0 to {(1 << info.width) - 1}",
            )
        return array.astype(np.uint64)

    # Implemented by engines

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def _reset(self) -> None: ...

    @abstractmethod
    def _set(self, port: int, value: w.Chunks) -> None: ...

    @abstractmethod
    def _get(self, port: int, chunks: int) -> w.Chunks: ...

    @abstractmethod
    def _step(self, count: int) -> None: ...

    @abstractmethod
    def _run_until(self, port: int, value: w.Chunks, limit: int) -> int | None: ...

    @abstractmethod
    def _write_memory(self, memory: int, offset: int, chunks: w.Chunks) -> None: ...

    @abstractmethod
    def _read_memory(self, memory: int, offset: int, count: int, chunks: int) -> w.Chunks: ...

    @abstractmethod
    def _write_stream(
        self,
        addr: int,
        data: int,
        enable: int,
        on: w.Chunks,
        addresses: NDArray[np.uint64],
        chunks: w.Chunks,
    ) -> None: ...

    @abstractmethod
    def _read_stream(
        self, addr: int, data: int, addresses: NDArray[np.uint64], latency: int, chunks: int
    ) -> w.Chunks: ...


def _some(names: Iterable[str], limit: int = 12) -> str:
    listed = list(names)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
