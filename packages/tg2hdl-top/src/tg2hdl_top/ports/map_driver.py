"""Drives a design through its register map, in a simulation; each bus brings how a word is accessed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import SimulationError
from tg2hdl_lower import HostShape, from_words, to_words
from tg2hdl_top.ports.base import HostDriver
from tg2hdl_top.register_map import AccessCode, AddressWindow, RegisterMap, padded_bits

__all__ = ["BusDriver", "MapDriver"]


class MapDriver(HostDriver):
    """Writes, starts and reads as a host does that knows the register map only."""

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        super().__init__(serves, simulation)
        self.map = RegisterMap(serves)
        self._places = {register.name: register.address for register in self.map.registers}
        self._windows = {window.buffer.name: window for window in self.map.windows}

    @abstractmethod
    def store(self, address: int, words: Sequence[int]) -> int:
        """Write words of 32 bits to consecutive addresses; the code of the first refusal, or 0.

        Parameters
        ----------
        address : int
            Byte address.
        words : sequence of int
        """

    @abstractmethod
    def fetch(self, address: int, count: int) -> tuple[list[int], int]:
        """Read words from consecutive addresses; with the code of the first refusal, or 0.

        Parameters
        ----------
        address : int
            Byte address.
        count : int
            Words.
        """

    def write(self, buffer: str, words: npt.NDArray[Any]) -> int:
        """Write the elements of a buffer in the order of the model."""
        window, before = self._windows[buffer], self.simulation.cycles
        dtype = window.buffer.dtype
        bits = dtype.array_to_bits(from_words(words, window.buffer.layout, dtype))
        raw = bits.astype(f"<u{window.element_bytes}").tobytes()
        raw += bytes(-len(raw) % 4)
        self._checked(self.store(window.address, np.frombuffer(raw, "<u4").tolist()), window)
        return int(self.simulation.cycles - before)

    def read(self, buffer: str) -> npt.NDArray[Any]:
        """Read the elements of a buffer in the order of the model."""
        window = self._windows[buffer]
        dtype = window.buffer.dtype
        packed = window.buffer.layout.pack(dtype.bits_to_array(self._elements(window)), dtype)
        found: npt.NDArray[Any] = to_words(packed, dtype.bit_width)
        return found

    def _elements(self, window: AddressWindow, count: int | None = None) -> npt.NDArray[np.uint64]:
        """Bits of the first elements of a buffer; of all unless given."""
        count = window.elements if count is None else count
        words, code = self.fetch(window.address, -(-count * window.element_bytes // 4))
        self._checked(code, window)
        raw, dtype, size = np.array(words, "<u4").tobytes(), window.buffer.dtype, window.element_bytes
        found = np.frombuffer(raw, f"<u{size}")[:count]
        bits = found.astype(np.uint64) & np.uint64((1 << dtype.bit_width) - 1)
        if not np.array_equal(padded_bits(dtype, size, dtype.bits_to_array(bits)), found):
            raise SimulationError(
                f"buffer {window.buffer.name!r} holds bits beyond {dtype}",
                where=type(self).__name__,
                hint="please report this with the design: the simulated port is wrong",
            )
        return bits

    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Write START with the number of RUNS, and read the ends of the kernels when the result is there."""
        self._start(variables, "START", limit)
        return tuple(self.value(f"KERNEL_{n}_END") for n in range(len(self.serves.order)))

    def generate(
        self, variables: Mapping[str, int], results: int, stop: int | None, limit: int
    ) -> tuple[npt.NDArray[Any], int]:
        """Write GENERATE with the number of RUNS, and read the buffer of the results when all are there."""
        loop = self.serves.loop
        assert loop is not None, "asked for a design with one"
        assert loop.results is not None, "a register map keeps them"
        bits = stop or 0
        words = [results, int(stop is not None), bits & 0xFFFFFFFF, bits >> 32]
        self._checked(self.store(self._places["LIMIT"], words), "LIMIT")
        self._start(variables, "GENERATE", results * limit)
        count = self.value("RESULTS")
        found = self._elements(self._windows[loop.results], count * loop.elements)
        return found.reshape(-1, loop.elements), self.value("CYCLES")

    def _start(self, variables: Mapping[str, int], register: str, limit: int) -> None:
        """Start by a register, and wait for the result."""
        for name, value in variables.items():
            self._checked(self.store(self._places[f"VARIABLE_{name}"], [value & 0xFFFFFFFF]), name)
        runs = self.value("RUNS")
        self._checked(self.store(self._places[register], [runs]), register)
        before = self.simulation.cycles
        while not self.value("STATUS") & 2:
            if self.simulation.cycles - before > limit:
                raise SimulationError(
                    f"no result after {limit} cycles; STATUS is {self.value('STATUS'):#x}",
                    where=type(self).__name__,
                    hint="give a larger limit if the work takes longer",
                )

    def value(self, register: str) -> int:
        """Value of a register."""
        words, code = self.fetch(self._places[register], 1)
        self._checked(code, register)
        return words[0]

    def _checked(self, code: int, what: AddressWindow | str) -> None:
        if code:
            name = what if isinstance(what, str) else what.buffer.name
            text = AccessCode.MEANING[code] if code < len(AccessCode.MEANING) else f"code {code}"
            raise SimulationError(
                f"access of {name!r} was refused: {text}",
                where=type(self).__name__,
                hint="wait for the end of the run, and keep to the register map",
            )


class BusDriver(MapDriver):
    """Reads ERROR after each transfer, which says whether an access was refused."""

    @abstractmethod
    def store_words(self, address: int, words: Sequence[int]) -> None:
        """Write words to consecutive addresses.

        Parameters
        ----------
        address : int
            Of the first byte; a multiple of 4.
        words : sequence of int
            Of 32 bits.
        """

    @abstractmethod
    def fetch_words(self, address: int, count: int) -> list[int]:
        """Read words from consecutive addresses.

        Parameters
        ----------
        address : int
            Of the first byte; a multiple of 4.
        count : int
            Words of 32 bits.
        """

    def store(self, address: int, words: Sequence[int]) -> int:
        """Write words, and take the code of a refusal from ERROR."""
        self.store_words(address, words)
        return self._refusal()

    def fetch(self, address: int, count: int) -> tuple[list[int], int]:
        """Read words, and take the code of a refusal from ERROR."""
        return self.fetch_words(address, count), self._refusal()

    def _refusal(self) -> int:
        place = self._places["ERROR"]
        (code,) = self.fetch_words(place, 1)
        if code:
            self.store_words(place, [0])
        return code
