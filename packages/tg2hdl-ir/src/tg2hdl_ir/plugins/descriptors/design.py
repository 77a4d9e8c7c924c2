"""Descriptors of the parts of a design."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir.plugins.descriptors.factory import Factory

__all__ = ["HostPortDef", "MemoryKindDef", "MemoryPortDef", "SequencerDef"]


@dataclass(frozen=True)
class MemoryKindDef:
    """A kind of memory that buffers may become.

    Parameters
    ----------
    name : str
        Unique name.
    description : str
        One line.
    kind : Factory
        ``() -> tg2hdl_lower.memory.kind.MemoryKind``.
    priority : int
        Among the kinds that suit a buffer, the highest priority wins.
    """

    name: str
    description: str
    kind: Factory
    priority: int = 0


@dataclass(frozen=True)
class HostPortDef:
    """A port through which a host loads, starts and reads a design.

    Parameters
    ----------
    name : str
        For ``ports=`` and ``--port``.
    description : str
        One line.
    port : Factory
        Subclass of `tg2hdl_top.ports.HostPort`, made of the `HostShape` that it serves.
    driver : Factory
        ``(serves: HostShape, simulation) -> tg2hdl_top.ports.HostDriver``: loads, starts and reads through the port.
    """

    name: str
    description: str
    port: Factory
    driver: Factory


@dataclass(frozen=True)
class MemoryPortDef:
    """A port through which a design reads weights in memory outside the chip.

    Parameters
    ----------
    name : str
        For ``memory_port=`` and ``--memory-port``.
    description : str
        One line.
    port : Factory
        Subclass of `tg2hdl_top.external.memory_port.MemoryPort`, made of the memory and the beats of its image.
    memory : Factory
        Subclass of `tg2hdl_top.external.memory_port.SimulatedMemory`: hardware that behaves as the model.
    times : Factory
        Subclass of `tg2hdl_top.external.memory_port.BeatTimes`: the same as a prediction.
    model : Factory
        ``() -> tg2hdl_top.external.memory_model.ExternalMemory``: the memory unless the user gives another of its type.
        A dataclass; a design is read back where the plugin is installed.
    """

    name: str
    description: str
    port: Factory
    memory: Factory
    times: Factory
    model: Factory


@dataclass(frozen=True)
class SequencerDef:
    """A policy for when each kernel of a design starts.

    Parameters
    ----------
    name : str
        For ``schedule=`` and ``--schedule``.
    description : str
        One line.
    sequencer : Factory
        ``() -> tg2hdl_top.sequencer.Sequencer``.
    """

    name: str
    description: str
    sequencer: Factory
