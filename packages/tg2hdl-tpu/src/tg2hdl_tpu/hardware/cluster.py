"""Tensor cores that share an external memory over a ring."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import MemoryData
from amaranth.lib.wiring import In, Out, connect

from tg2hdl_ir import InputError
from tg2hdl_tpu.bundle import Bundle
from tg2hdl_tpu.config import ADDRESS_BITS, DMA_FIFO, Config
from tg2hdl_tpu.hardware.chip import RowMemory
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.records import PC_BITS
from tg2hdl_tpu.hardware.ring import Ring, RingLink
from tg2hdl_tpu.hardware.simulate import program_limbs
from tg2hdl_tpu.isa import Trap
from tg2hdl_tpu.machine import Result

__all__ = ["Cluster", "cluster_model", "run_cluster"]


class CoreNode(wiring.Component):
    """A core and its node: requests leave in order, rows come back.

    Members
    -------
    start, done, trap, pc, cycles
        As of `TensorCore`.
    quiet : Out(1)
        No request waits to be sent.
    send, receive : RingLink
    """

    def __init__(self, config: Config, nodes: int, number: int) -> None:
        self.config, self.nodes, self.number = config, nodes, number
        self.core = TensorCore(config)
        link = RingLink(nodes, packet_bits(config, nodes))
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "trap": Out(4),
                "pc": Out(PC_BITS),
                "cycles": Out(40),
                "quiet": Out(1),
                "send": Out(link),
                "receive": In(link),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the queue of requests."""
        m = Module()
        m.submodules.core = core = self.core
        m.submodules.requests = requests = SyncFIFO(width=len(self.send.data), depth=4)
        outputs = (getattr(self, name).eq(getattr(core, name)) for name in ("done", "trap", "pc", "cycles"))
        m.d.comb += [
            core.start.eq(self.start),
            *outputs,
            core.memory_ready.eq(requests.w_rdy),
            # One request a cycle: a row to write goes first.
            core.read_waits.eq(core.store_en),
            requests.w_en.eq(core.store_en | core.read_en),
            requests.w_data.eq(
                Cat(
                    core.store_data,
                    Mux(core.store_en, core.store_address, core.read_address),
                    core.store_en,
                    self.number,
                )
            ),
            self.send.valid.eq(requests.r_rdy),
            self.send.data.eq(requests.r_data),
            self.send.target.eq(self.nodes - 1),
            requests.r_en.eq(self.send.ready),
            self.quiet.eq(~requests.r_rdy),
            self.receive.ready.eq(1),
            core.read_valid.eq(self.receive.valid),
            core.read_data.eq(self.receive.data),
        ]
        return m


class MemoryNode(wiring.Component):
    """The external memory and its node, the last one.

    Members
    -------
    stall : In(1)
        Take no request.
    quiet : Out(1)
        All rows that were asked for are sent.
    send, receive : RingLink
    """

    def __init__(self, config: Config, nodes: int) -> None:
        self.config, self.nodes = config, nodes
        self.external = RowMemory(config)
        link = RingLink(nodes, packet_bits(config, nodes))
        super().__init__({"stall": In(1), "quiet": Out(1), "send": Out(link), "receive": In(link)})

    def elaborate(self, platform: Any) -> Module:
        """Build the queues of rows and of those who get them."""
        m = Module()
        bits, external = self.config.row_bits, self.external
        m.submodules.external = external
        # As many as all cores may have asked for: a request never waits for an answer to leave.
        depth = (self.nodes - 1) * DMA_FIFO
        m.submodules.rows = rows = SyncFIFO(width=bits, depth=depth)
        m.submodules.names = names = SyncFIFO(width=(self.nodes - 1).bit_length(), depth=depth)
        data = self.receive.data
        address, writes, source = (
            data[bits:][:ADDRESS_BITS],
            data[bits + ADDRESS_BITS],
            data[bits + ADDRESS_BITS + 1 :],
        )
        taken = Signal()
        m.d.comb += [
            external.running.eq(1),
            self.receive.ready.eq(external.ready & ~self.stall),
            taken.eq(self.receive.valid & self.receive.ready),
            external.read_en.eq(taken & ~writes),
            external.read_address.eq(address),
            external.write_en.eq(taken & writes),
            external.write_address.eq(address),
            external.write_data.eq(data[:bits]),
            names.w_en.eq(taken & ~writes),
            names.w_data.eq(source),
            rows.w_en.eq(external.read_valid),
            rows.w_data.eq(external.read_data),
            self.send.valid.eq(rows.r_rdy),
            self.send.data.eq(rows.r_data),
            self.send.target.eq(names.r_data),
            rows.r_en.eq(self.send.ready),
            names.r_en.eq(self.send.ready & rows.r_rdy),
            self.quiet.eq(~names.r_rdy & ~self.receive.valid),
        ]
        return m


def packet_bits(config: Config, nodes: int) -> int:
    """Bits of a request: a row, its address, whether it is written, and who asks."""
    return config.row_bits + ADDRESS_BITS + 1 + (nodes - 1).bit_length()


class Cluster(wiring.Component):
    """Several cores, each with its own program and scratchpad, and one external memory.

    Members
    -------
    start, stall : In(1)
        Start all cores; the memory takes no request.
    done : Out(1)
        All cores have ended, and all rows are in the external memory.
    trap0, pc0, cycles0, trap1, ... : Out
        How each core ended.
    """

    def __init__(self, config: Config, cores: int = 2) -> None:
        self.config = config
        self.nodes = [CoreNode(config, cores + 1, number) for number in range(cores)]
        self.memory = MemoryNode(config, cores + 1)
        outputs = {"trap": 4, "pc": PC_BITS, "cycles": 40}
        members = {f"{name}{n}": Out(width) for name, width in outputs.items() for n in range(cores)}
        super().__init__({"start": In(1), "stall": In(1), "done": Out(1), **members})

    @property
    def memories(self) -> dict[str, MemoryData]:
        """Memories by name, for simulation."""
        found = {"xmem": self.memory.external.contents}
        for n, node in enumerate(self.nodes):
            banks = node.core.vmem.banks
            found |= {f"bank0_{n}": banks[0], f"bank1_{n}": banks[1]}
            found[f"program_{n}"] = node.core.sxu.program
        return found

    def elaborate(self, platform: Any) -> Module:
        """Connect cores and memory to the ring."""
        m = Module()
        count = len(self.nodes)
        m.submodules.memory = self.memory
        m.submodules.ring = ring = Ring(count + 1, packet_bits(self.config, count + 1))
        ends: Any = self.memory.quiet
        places: list[CoreNode | MemoryNode] = [*self.nodes, self.memory]
        for n, place in enumerate(places):
            connect(m, place.send, getattr(ring, f"send{n}"))
            connect(m, getattr(ring, f"receive{n}"), place.receive)
        m.d.comb += self.memory.stall.eq(self.stall)
        for n, node in enumerate(self.nodes):
            m.submodules[f"node{n}"] = node
            m.d.comb += node.start.eq(self.start)
            m.d.comb += [
                getattr(self, f"{name}{n}").eq(getattr(node, name)) for name in ("trap", "pc", "cycles")
            ]
            ends = ends & node.done & node.quiet
        m.d.comb += self.done.eq(ends & ring.empty)
        return m


def cluster_model(config: Config, cores: int) -> Any:
    """Return a `Cluster` as a model for `tg2hdl_sim`.

    Parameters
    ----------
    config : Config
        Of each core.
    cores : int
    """
    from tg2hdl_sim import SimulationModel

    cluster = Cluster(config, cores)
    return SimulationModel(cluster, memories=cluster.memories, name="cluster")


def run_cluster(
    config: Config,
    bundles: Sequence[Bundle],
    *,
    stalls: Callable[[int], bool] | None = None,
    limit: int = 100_000,
    simulation: Any = None,
) -> list[Result]:
    """Simulate a `Cluster` with a program for each core.

    Parameters
    ----------
    stalls : callable, optional
        Whether the memory takes no request in a cycle.
    simulation : Simulation, optional
        An open one of such a cluster, from `cluster_model`, to run again.

    Returns
    -------
    list of Result
        How each core ended; the outputs are those of its bundle, from the shared memory.

    Raises
    ------
    InputError
        When data or outputs are not in the external memory, or the run does not end in `limit` cycles.
    """
    from tg2hdl_sim import open_simulation

    for bundle in bundles:
        if "vmem" in {p.space for p in bundle.data} | {p.space for p in bundle.outputs}:
            raise InputError(
                "the cores of a cluster share the external memory only",
                where="run_cluster",
                hint="place data and outputs in xmem",
            )
    with contextlib.ExitStack() as stack:
        sim = simulation
        if sim is None:
            sim = stack.enter_context(open_simulation(cluster_model(config, len(bundles))))
        sim.reset()
        for n, bundle in enumerate(bundles):
            sim.write_memory(f"program_{n}", program_limbs(bundle))
            for region in bundle.data:
                sim.write_memory("xmem", np.ascontiguousarray(region.rows).view(np.uint64), region.start)
        sim.step(2)
        sim.set("start", 1)
        for cycle in range(limit):
            sim.set("stall", int(stalls is not None and stalls(cycle)))
            sim.step()
            sim.set("start", 0)
            if cycle and sim.get("done"):
                break
        else:
            raise InputError(
                f"the cores run for more than {limit} cycles",
                where="run_cluster",
                hint="give a larger limit if the work takes longer",
            )
        memory = np.ascontiguousarray(sim.read_memory("xmem")).view(np.int32).reshape(-1, config.lanes)
        return [
            Result(
                Trap(sim.get(f"trap{n}")),
                sim.get(f"pc{n}"),
                sim.get(f"cycles{n}"),
                0,
                0,
                {o.name: memory[o.start : o.start + o.count] for o in bundle.outputs},
            )
            for n, bundle in enumerate(bundles)
        ]
