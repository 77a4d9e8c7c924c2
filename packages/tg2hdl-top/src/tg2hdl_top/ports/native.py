"""The native port: the host interface of the design, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth import Module
from amaranth.lib import wiring

from tg2hdl_lower.memory.host import HostShape
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
