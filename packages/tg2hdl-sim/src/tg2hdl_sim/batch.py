"""Batches: one model whose datapath simulates several inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError, SimulationError
from tg2hdl_sim import costs
from tg2hdl_sim import words as w
from tg2hdl_sim.engines import estimate_engines
from tg2hdl_sim.model import Elaboration, SimulationModel
from tg2hdl_sim.native import ADDRESSES, CHUNKS, HANDLE, SLICE, U32, U64, NativeSimulation, compiled_library
from tg2hdl_sim.simulation import Addresses

__all__ = [
    "BATCH_SIZE",
    "BatchSimulation",
    "InputsDifferError",
    "batch_pays",
    "batch_size",
    "open_batch",
]

BATCH_SIZE = 16  # inputs in one vector
LARGE_BATCH, SMALL_DESIGN = 64, 1000  # of a design of so many cells, the state of 64 inputs fits the L1 cache
COST = 4  # time of a cycle of a batch, relative to one of a single input

_SIGNATURES: dict[str, list[Any]] = {
    "tg_lanes": [],
    "tg_set_each": [HANDLE, U32, CHUNKS],
    "tg_write_stream_each": [HANDLE, U32, U32, U32, CHUNKS, U64, ADDRESSES, CHUNKS],
    "tg_read_memory_of": [HANDLE, U32, U32, U64, U64, CHUNKS],
}


class InputsDifferError(SimulationError):
    """A value that must be equal for all inputs of a batch depends on the data: run them one by one."""


class BatchSimulation(NativeSimulation):
    """A simulation of several inputs at once; made by `open_batch`.

    The methods of `Simulation` give every input the same values and read those of the first.  Logic that
    depends on a varying port is computed for each input, control included.

    Parameters
    ----------
    elaboration : Elaboration
        The design.
    library : path
        The compiled model.
    varying : sequence of str
        Input ports with a value for each input.
    size : int
        Inputs of a batch.

    Attributes
    ----------
    size : int
        Inputs of a batch.
    varying : tuple of str
        Input ports that may have a value for each.
    """

    def __init__(
        self, elaboration: Elaboration, library: Path, varying: Sequence[str], size: int = BATCH_SIZE
    ) -> None:
        self.size = size
        self.varying = tuple(varying)
        super().__init__(elaboration, "levelized", library)
        for name, arguments in _SIGNATURES.items():
            getattr(self._library, name).argtypes = arguments
        assert self._library.tg_lanes() == self.size

    # Values of each input

    def set_each(self, port: str, values: Sequence[int]) -> None:
        """Drive an input port that varies, with one value for each input of the batch.

        Parameters
        ----------
        port : str
            One of `varying`.
        values : sequence of int
            As many as inputs.
        """
        info = self._input(port)
        self._check_varying(port)
        self._check_count(len(values))
        chunks = w.from_ints([self._fit(info, int(value)) for value in values], info.width)
        self._library.tg_set_each(self._handle, self._port_index[port], chunks)

    def get_each(self, port: str) -> list[int]:
        """Return the settled value of a port for each input."""
        info = self._port(port)
        found = w.to_ints(self._get_all(self._port_index[port], w.chunks_of(info.width)))
        if info.signed:
            return [v - (1 << info.width) if v >> (info.width - 1) else v for v in found]
        return found

    def write_stream_each(
        self, addr_port: str, data_port: str, enable_port: str, addresses: Addresses, words: Any
    ) -> int:
        """Write one word per edge through ports, for each input its own.

        Parameters
        ----------
        addr_port, data_port, enable_port, addresses
            As for `write_stream`.
        words : array_like
            As for `write_stream`, with a leading dimension for the inputs.
        """
        self._check_varying(data_port)
        addr, data, enable = map(self._input, (addr_port, data_port, enable_port))
        self._check_count(len(words))
        where = self._addresses(addr, addresses)
        chunks = np.stack([w.to_chunks(each, data.width, f"port {data_port!r}") for each in words])
        if chunks.shape[1] != len(where):
            raise InputError(
                f"{len(where)} addresses for {chunks.shape[1]} words on port {data_port!r}",
                where=self.name,
                hint="give one address per word",
            )
        on = w.from_ints([-1], enable.width)
        index = self._port_index
        self._library.tg_write_stream_each(
            self._handle,
            index[addr_port],
            index[data_port],
            index[enable_port],
            on,
            len(where),
            where,
            np.ascontiguousarray(chunks),
        )
        return len(where)

    def read_stream_each(
        self,
        addr_port: str,
        data_port: str,
        addresses: Addresses,
        latency: int = 1,
        signed: bool | None = None,
    ) -> list[NDArray[Any]]:
        """Read one word per edge through ports; returns the result of `read_stream` for each input.

        Parameters
        ----------
        addr_port, data_port, addresses, latency, signed
            As for `read_stream`.
        """
        addr, data = self._input(addr_port), self._port(data_port)
        where = self._addresses(addr, addresses)
        chunks = w.chunks_of(data.width)
        index = self._port_index
        found = self._stream_all(index[addr_port], index[data_port], where, latency, chunks)
        is_signed = data.signed if signed is None else signed
        return [
            w.from_chunks(np.ascontiguousarray(found[:, lane]), data.width, is_signed)
            for lane in range(self.size)
        ]

    def read_memory_each(self, name: str) -> list[NDArray[Any]]:
        """Return all words of a memory for each input."""
        info = self._memory(name)
        found = []
        for lane in range(self.size):
            chunks = np.zeros((info.depth, w.chunks_of(info.width)), dtype="<u4")
            self._library.tg_read_memory_of(
                self._handle, self._memory_index[name], lane, 0, info.depth, chunks
            )
            found.append(w.from_chunks(chunks, info.width, info.signed))
        return found

    # Implemented by engines

    def _get_all(self, port: int, chunks: int) -> w.Chunks:
        values = np.zeros((self.size, chunks), dtype="<u4")
        self._library.tg_get(self._handle, port, values)
        return values

    def _get(self, port: int, chunks: int) -> w.Chunks:
        return self._get_all(port, chunks)[:1]

    def _run_until(self, port: int, value: w.Chunks, limit: int) -> int | None:
        done, wanted = 0, value.tobytes()
        while True:
            part = min(SLICE, limit - done)
            used = int(self._library.tg_run_until(self._handle, port, wanted, part))
            if used >= 0:
                return done + used
            if used == -2:
                raise InputsDifferError(
                    f"port {list(self.ports)[port]!r} changes in other cycles for other inputs of the batch",
                    where=f"{self.name}, cycle {self.cycles}",
                    hint="it depends on the data: run the inputs one by one",
                )
            done += part
            if done == limit:
                return None

    def _stream_all(
        self, addr: int, data: int, addresses: NDArray[np.uint64], latency: int, chunks: int
    ) -> w.Chunks:
        words = np.zeros((len(addresses), self.size, chunks), dtype="<u4")
        if len(addresses):
            self._library.tg_read_stream(self._handle, addr, data, len(addresses), addresses, latency, words)
        return words

    def _read_stream(
        self, addr: int, data: int, addresses: NDArray[np.uint64], latency: int, chunks: int
    ) -> w.Chunks:
        return np.ascontiguousarray(self._stream_all(addr, data, addresses, latency, chunks)[:, 0])

    def _check_varying(self, port: str) -> None:
        if port not in self.varying:
            raise InputError(
                f"port {port!r} has the same value for all inputs of the batch",
                where=self.name,
                hint="name it when the batch is opened; ports that vary: "
                + (", ".join(self.varying) or "none"),
            )

    def _check_count(self, count: int) -> None:
        if count != self.size:
            raise InputError(
                f"{count} values for a batch of {self.size}", where=self.name, hint="give one for each input"
            )


def batch_size(model: SimulationModel, inputs: int) -> int:
    """The fastest batch size for some number of inputs: 16, or 64 for a small design.

    Control is a large part of a small design, and a larger batch shares it among more inputs.

    Parameters
    ----------
    model : SimulationModel
    inputs : int
        How many inputs there are.
    """
    small = model.cells <= SMALL_DESIGN
    return LARGE_BATCH if small and inputs > LARGE_BATCH // 2 else BATCH_SIZE


def batch_pays(model: SimulationModel, inputs: int, cycles: int) -> bool:
    """Whether building a batch is predicted to end sooner than running the inputs one by one.

    Parameters
    ----------
    model : SimulationModel
    inputs : int
        How many inputs there are.
    cycles : int
        Clock cycles of one input.
    """
    if costs.levelized_available() is not None:
        return False
    cells = model.cells
    alone = estimate_engines(model, inputs * cycles)[0].cycles_per_second
    batches = -(-inputs // batch_size(model, inputs))
    together = batches * cycles * COST / costs.levelized_speed(cells)
    return costs.levelized_build_seconds(cells) + together < inputs * cycles / alone


def open_batch(
    model: SimulationModel,
    varying: Sequence[str],
    *,
    size: int = BATCH_SIZE,
    cache: bool = True,
    progress: Callable[[str], None] = lambda message: None,
) -> BatchSimulation:
    """Open a simulation of several inputs at once, with the levelized engine.

    Parameters
    ----------
    model : SimulationModel
        The design.
    varying : sequence of str
        Input ports with a value for each input; the others, and values that depend only on them, are computed once.
    size : int
        Inputs of a batch, a multiple of `BATCH_SIZE`; see `batch_size`.
    cache : bool
        Whether a compiled model is kept for later runs.
    progress : callable, optional
        Called with a message before each slow step.

    Raises
    ------
    InputError
        For a port that is unknown or an output, and for another size.
    ToolMissingError
        Without a C compiler.
    UnsupportedError
        For a design that the levelized engine does not run.
    """
    from tg2hdl_sim.levelized.engine import recipe

    elaboration = model.compact
    if size < 1 or size % BATCH_SIZE:
        raise InputError(
            f"a batch cannot have {size} inputs",
            where=model.name,
            hint=f"give a multiple of {BATCH_SIZE}, the inputs in one vector",
        )
    for port in varying:
        info = elaboration.ports.get(port)
        if info is None or info.direction != "in":
            raise InputError(
                f"{port!r} is not an input port of the design",
                where=model.name,
                hint="inputs: "
                + ", ".join(p.name for p in elaboration.ports.values() if p.direction == "in"),
            )
    key, build = recipe(elaboration, progress, batch=size, varying=tuple(varying))
    with compiled_library(key, build, cache=cache) as library:
        return BatchSimulation(elaboration, library, varying, size)
