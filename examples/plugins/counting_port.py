"""A host port: the native one, with the clock cycles since the last start on a port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import HostPortDef, hookimpl
from tg2hdl_lower import HostShape
from tg2hdl_top.ports import HostDriver, HostPort


class CountingPort(HostPort):
    """Hands the host interface through, and counts."""

    def __init__(self, serves: HostShape) -> None:
        super().__init__(serves, wiring.Signature({"host": Out(serves.signature()), "cycles": In(32)}))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        wiring.connect(m, wiring.flipped(self.outside.host), wiring.flipped(self.design))
        count = self.outside.cycles
        m.d.sync += count.eq(count + 1)
        with m.If(self.outside.host.start):
            m.d.sync += count.eq(1)
        return m


class CountingDriver(HostDriver):
    """What a host does, in a simulation."""

    def write(self, buffer: str, words: Any) -> int:
        """Write a word in each cycle."""
        ports = [f"host__buffers__{buffer}__{name}" for name in ("waddr", "wdata", "wen")]
        used: int = self.simulation.write_stream(*ports, np.arange(len(words)), words)
        return used

    def read(self, buffer: str) -> Any:
        """Read a word in each cycle."""
        shape = next(b for b in self.serves.buffers if b.name == buffer)
        ports = [f"host__buffers__{buffer}__{name}" for name in ("raddr", "rdata")]
        return self.simulation.read_stream(
            *ports, np.arange(shape.words), latency=shape.latency, signed=False
        )

    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Start, and wait for done."""
        for name, number in variables.items():
            self.simulation.set(f"host__variables__{name}", number)
        before = self.simulation.cycles
        self.simulation.set("host__start", 1)
        self.simulation.step()
        self.simulation.set("host__start", 0)
        return self.watched(before, limit, "host__")


@hookimpl
def tg2hdl_ports() -> list[HostPortDef]:
    """For ``--port counting``."""
    return [HostPortDef("counting", "the native port with a cycle counter", CountingPort, CountingDriver)]
