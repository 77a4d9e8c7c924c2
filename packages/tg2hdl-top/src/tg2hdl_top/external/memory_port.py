"""A port to memory outside the chip: hardware, a memory behind it to simulate, and the times of its beats.

The three are made of a model of the memory, and registered together by `tg2hdl_memory_ports`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from amaranth import Module
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import DType, InputError, registry
from tg2hdl_lower import Component, HostBuffer, Layout
from tg2hdl_top.external.memory_model import ExternalMemory
from tg2hdl_top.external.plan import ExternalPlan
from tg2hdl_top.sequencer.base import Timeline

__all__ = [
    "ADDRESS_BITS",
    "IMAGE",
    "SETTLE",
    "BeatTimes",
    "MemoryPort",
    "SimulatedMemory",
    "beat_times",
    "check_memory",
    "image_buffer",
    "memory_port",
    "simulated_memory",
    "waiting_timeline",
]

ADDRESS_BITS = 32
IMAGE = "image"
"""Role of the image as a buffer that the host writes."""
_WORDS = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}


class MemoryPort(Component):
    """Reads the image once in a run, from its first beat to its last.

    Parameters
    ----------
    model : ExternalMemory
        Its width and bursts; nothing depends on the times of a bus.
    beats : int
        Of the image.
    bus : dict of str to Member
        The bus, as its master drives it.

    Members
    -------
    outside : Out(Signature)
        The bus by its name; `memory_base`, the address (bytes) of the image, a multiple of `model.alignment`; and
        `memory_failed`, high after the memory has refused a read, or when a run starts with another address: no run
        ends then.
    start : In(1)
        Read it again, from its first beat on.
    valid, data : Out
        A beat.
    ready : In(1)
        It is taken.
    memory_write : Out(Signature)
        Only where `writes`: writes a word while no run reads: `valid`, `address` (beats from the image on), `data`, and
        `ready` when it is written.

    Attributes
    ----------
    writes : bool
        Whether a host can write the image through the port.
    """

    name = ""
    writes = False

    def __init__(
        self,
        model: ExternalMemory,
        beats: int,
        bus: dict[str, wiring.Member],
    ) -> None:
        self.model = model
        self.beats = beats
        outside = {
            self.name: Out(wiring.Signature(bus)),
            "memory_base": In(ADDRESS_BITS),
            "memory_failed": Out(1),
        }
        members: dict[str, wiring.Member] = {
            "outside": Out(wiring.Signature(outside)),
            "start": In(1),
            "valid": Out(1),
            "data": Out(model.bits),
            "ready": In(1),
        }
        if self.writes:
            write = {"valid": In(1), "ready": Out(1), "address": In(ADDRESS_BITS), "data": In(model.bits)}
            members["memory_write"] = Out(wiring.Signature(write))
        super().__init__(members)

    @property
    def bus(self) -> wiring.PureInterface:
        """The bus."""
        found: wiring.PureInterface = getattr(self.outside, self.name)
        return found

    def _failure(self, m: Module, refused: Value) -> None:
        low = (self.model.alignment - 1).bit_length()
        with m.If(refused | (self.start & self.outside.memory_base[:low].any())):
            m.d.sync += self.outside.memory_failed.eq(1)


class SimulatedMemory(Component):
    """The memory behind a bus, which behaves as its model; part of a design only to simulate it.

    Parameters
    ----------
    model : ExternalMemory
    words : sequence of int
        Beats from address 0 on.
    bus : Signature
        As its master drives it.

    Members
    -------
    bus : In(bus)
    restart : In(1)
        A run of the design begins.
    """

    def __init__(self, model: ExternalMemory, words: Sequence[int], bus: wiring.Signature) -> None:
        self.model = model
        self.words = words
        super().__init__({"bus": In(bus), "restart": In(1)})


class BeatTimes(ABC):
    """When the beats of an image are taken, in cycles after `start`; exact for the simulated memory.

    Parameters
    ----------
    model : ExternalMemory
    beats : int
        Of the image.
    """

    def __init__(self, model: ExternalMemory, beats: int) -> None:
        self.model = model
        self.left = beats
        self.latest = 0
        """Cycle of the latest beat."""

    @abstractmethod
    def take(self, beats: int, begin: int) -> int:
        """Take the next beats from the cycle `begin` on, each as soon as it is there; the cycle of the last one.

        Parameters
        ----------
        beats : int
            Number of words.
        begin : int
            Cycle.
        """


def check_memory(port: str, model: ExternalMemory | None) -> ExternalMemory:
    """The model of the memory behind a port, that of the port unless given.

    Parameters
    ----------
    port : str
        Kind of the port.
    model : ExternalMemory, optional
        That of the port unless given.

    Raises
    ------
    InputError
        When it is not a memory for this port.
    InputError
        When no plugin registers the port.
    """
    definition = registry().memory_port(port)
    own = registry().make(definition, "model", ExternalMemory)  # type: ignore[type-abstract]
    if model is None or isinstance(model, type(own)):
        return model or own
    raise InputError(
        f"memory={model!r} is not a memory behind the port {port!r}",
        hint=f"give a {type(own).__name__}, or none",
    )


def memory_port(plan: ExternalPlan, *, simulated: bool = False) -> MemoryPort:
    """Port of a design; the one of a simulation where the memory is part of it.

    Parameters
    ----------
    plan : ExternalPlan
    simulated : bool, default False
        Whether the memory is part of a simulation, which skips its power-up.
    """
    model = plan.model.powered_up() if simulated else plan.model
    found: MemoryPort = _class(plan, "port", MemoryPort)(model, plan.beats)
    return found


def image_buffer(plan: ExternalPlan, taken: Collection[str]) -> HostBuffer | None:
    """The image as a host writes it, where the port can; its name is none of those that are taken.

    Parameters
    ----------
    plan : ExternalPlan
    taken : collection of str
        Names of the design's buffers.
    """
    if not plan.tiles or not _class(plan, "port", MemoryPort).writes:
        return None
    bits, beats, name = plan.model.bits, plan.beats, "memory_image"
    while name in taken:
        name += "_"
    dtype, layout = _WORDS[bits], Layout((beats,), (1,))
    return HostBuffer(name, beats, bits, True, False, 0, layout, dtype, name, IMAGE, (beats,), waits=True)


def simulated_memory(plan: ExternalPlan, words: Sequence[int], bus: wiring.Signature) -> SimulatedMemory:
    """Memory behind the port of a design.

    Parameters
    ----------
    plan : ExternalPlan
    words : sequence of int
        Contents.
    bus : Signature
        Of the port.
    """
    made = _class(plan, "memory", SimulatedMemory)
    found: SimulatedMemory = made(plan.model.powered_up(), words, bus)
    return found


def beat_times(plan: ExternalPlan) -> BeatTimes:
    """Times of the beats of a design."""
    found: BeatTimes = _class(plan, "times", BeatTimes)(plan.model, plan.beats)
    return found


def _class(plan: ExternalPlan, field: str, base: type) -> Any:
    return registry().subclass(registry().memory_port(plan.port), field, base)


SETTLE = 3
"""Cycles from the last beat of a tile, or from the start of a run, to the first start that depends on it."""


def waiting_timeline(cycles: Sequence[int], plan: ExternalPlan) -> Timeline:
    """Start and end of each run, in cycles after `start`.

    Parameters
    ----------
    cycles : sequence of int
        Of each run, once it has started.
    """
    stream = beat_times(plan)
    starts: list[int] = []
    ends: list[int] = []
    tiles = list(plan.tiles)
    for run, count in enumerate(cycles):
        start = max(ends[-1], starts[-1] + SETTLE) if starts else 0
        while tiles and tiles[0].run == run:
            tile = tiles.pop(0)
            free = ends[tile.after - 1] + 1 if tile.after else 0
            begin = max(stream.latest + 1, free) + 1
            start = max(start, stream.take(tile.words * tile.beats, begin) + SETTLE)
        starts.append(start)
        ends.append(start + count)
    return Timeline(tuple(starts), tuple(ends), interval=ends[-1])
