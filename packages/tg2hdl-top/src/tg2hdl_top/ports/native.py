"""The native port: the host interface of the design, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth import Module
from amaranth.lib import wiring

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.base import HostDriver, HostPort

__all__ = ["NativeDriver", "NativePort"]


class NativePort(HostPort):
    """One word of each buffer in a cycle, and pulses for start and done."""

    overlaps_runs = True

    def __init__(self, serves: HostShape) -> None:
        super().__init__(serves, serves.signature())

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        wiring.connect(m, wiring.flipped(self.outside), wiring.flipped(self.design))
        return m


class NativeDriver(HostDriver):
    """Drives the native port."""

    def write(self, buffer: str, words: npt.NDArray[Any]) -> int:
        """Write a word in each cycle."""
        path = f"buffers__{buffer}"
        used: int = self.simulation.write_stream(
            f"{path}__waddr", f"{path}__wdata", f"{path}__wen", np.arange(len(words)), words
        )
        return used

    def read(self, buffer: str) -> npt.NDArray[Any]:
        """Read a word in each cycle."""
        path = f"buffers__{buffer}"
        shape = next(b for b in self.serves.buffers if b.name == buffer)
        words: npt.NDArray[Any] = self.simulation.read_stream(
            f"{path}__raddr", f"{path}__rdata", np.arange(shape.words), latency=shape.latency, signed=False
        )
        return words

    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Pulse `start` and watch `kernel_done`."""
        simulation = self.simulation
        for name, value in variables.items():
            simulation.set(f"variables__{name}", value)
        if self.serves.streams:
            simulation.run_until("ready", limit=limit)
        before = simulation.cycles
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        return self.watched(before, limit)

    def generate(
        self, variables: Mapping[str, int], results: int, stop: int | None, limit: int
    ) -> tuple[npt.NDArray[Any], int]:
        """Pulse `start` with a limit, and take the results from their stream."""
        simulation, loop = self.simulation, self.serves.loop
        assert loop is not None, "asked for a design with one"
        for name, value in variables.items():
            simulation.set(f"variables__{name}", value)
        controls = {
            "limit": results,
            "stops": int(stop is not None),
            "stop": stop or 0,
            "results__ready": 1,
            "start": 1,
        }
        for name, value in controls.items():
            simulation.set(name if name == "start" else f"loop__{name}", value)
        before = simulation.cycles
        simulation.step()
        simulation.set("start", 0)
        found, width, last = list[int](), loop.dtype.bit_width, 0
        while not last:
            simulation.run_until("loop__results__valid", limit=limit)
            payload = simulation.get("loop__results__payload")
            found.append(payload & ((1 << width) - 1))
            last = payload >> width & 1
            simulation.step()
        simulation.run_until("done", limit=limit)
        cycles = simulation.cycles - before
        simulation.step()
        simulation.set("loop__limit", 0)
        return np.array(found, np.uint64).reshape(-1, loop.elements), cycles
