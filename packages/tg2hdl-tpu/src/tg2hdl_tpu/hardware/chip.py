"""A tensor core with external memory, for simulation."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import ADDRESS_BITS, Config
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.host import HostSignature
from tg2hdl_tpu.hardware.records import PC_BITS

__all__ = ["Chip", "RowMemory"]


class RowMemory(wiring.Component):
    """Rows with latency, a distance between requests, and refresh.

    Members
    -------
    running : In(1)
        Time counts from the first cycle of a run.
    ready : Out(1)
        A read and a write are taken.
    read_en, read_address, read_valid, read_data
        Rows come in order, `memory_latency` cycles after their request.
    write_en, write_address, write_data : In
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.contents = MemoryData(shape=config.row_bits, depth=config.xmem_rows, init=[])
        super().__init__(
            {
                "running": In(1),
                "ready": Out(1),
                "read_en": In(1),
                "read_address": In(ADDRESS_BITS),
                "read_valid": Out(1),
                "read_data": Out(config.row_bits),
                "write_en": In(1),
                "write_address": In(ADDRESS_BITS),
                "write_data": In(config.row_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build memory, delay and the pattern of ready."""
        m = Module()
        config = self.config
        m.submodules.memory = memory = Memory(self.contents)
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            read.addr.eq(self.read_address),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            write.en.eq(self.write_en),
        ]
        valid: Any = Signal()
        data: Any = read.data
        m.d.sync += valid.eq(self.read_en)
        for stage in range(config.memory_latency - 1):
            later, later_data = Signal(name=f"valid{stage}"), Signal(config.row_bits, name=f"data{stage}")
            m.d.sync += [later.eq(valid), later_data.eq(data)]
            valid, data = later, later_data
        m.d.comb += [self.read_valid.eq(valid), self.read_data.eq(data)]
        ready: Any = 1
        for period, closed in (
            (config.memory_interval, None),
            (config.refresh_period, config.refresh_cycles),
        ):
            if period <= 1:
                continue
            phase = Signal(range(period), init=1)
            with m.If(~self.running):
                m.d.sync += phase.eq(1)
            with m.Else():
                m.d.sync += phase.eq(0)
                with m.If(phase != period - 1):
                    m.d.sync += phase.eq(phase + 1)
            ready = ready & ((phase == 0) if closed is None else (phase >= closed))
        m.d.comb += self.ready.eq(ready)
        return m


class Chip(wiring.Component):
    """`TensorCore` and `RowMemory`.

    Members
    -------
    start : In(1)
    done, trap, pc, cycles : Out; host : HostSignature
        As of `TensorCore`.
    """

    def __init__(self, config: Config) -> None:
        self.core = TensorCore(config)
        self.external = RowMemory(config)
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "trap": Out(4),
                "pc": Out(PC_BITS),
                "cycles": Out(40),
                "host": In(HostSignature(config)),
            }
        )

    @property
    def memories(self) -> dict[str, MemoryData]:
        """Memories by name, for simulation."""
        banks = self.core.vmem.banks
        return {
            "bank0": banks[0],
            "bank1": banks[1],
            "program": self.core.sxu.program,
            "xmem": self.external.contents,
        }

    def elaborate(self, platform: Any) -> Module:
        """Connect them."""
        m = Module()
        m.submodules.core, m.submodules.external = core, external = self.core, self.external
        wiring.connect(m, wiring.flipped(self.host), core.host)
        m.d.comb += [
            core.start.eq(self.start),
            self.done.eq(core.done),
            self.trap.eq(core.trap),
            self.pc.eq(core.pc),
            self.cycles.eq(core.cycles),
            external.running.eq(core.running),
            core.memory_ready.eq(external.ready),
            external.read_en.eq(core.read_en),
            external.read_address.eq(core.read_address),
            core.read_valid.eq(external.read_valid),
            core.read_data.eq(external.read_data),
            external.write_en.eq(core.store_en),
            external.write_address.eq(core.store_address),
            external.write_data.eq(core.store_data),
        ]
        return m
