"""A host port: a component that connects the outside to the host interface of a design, and its driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import InputError, PluginError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_lower.component import Component
from tg2hdl_lower.memory.host import HostShape

__all__ = ["HostDriver", "HostPort", "PortPlan", "build_port", "need_identity", "open_driver", "plan_ports"]


@dataclass(frozen=True)
class PortPlan:
    """A host port of a design: its kind, and what it serves."""

    kind: str
    serves: HostShape

    def format(self) -> str:
        """One line."""
        served = ["control"] if self.serves.control else []
        for buffer in self.serves.buffers:
            served.append(f"{buffer.name} ({'write' * buffer.writes}{'read' * buffer.reads})")
        return f"{self.kind}: {', '.join(served)}"


class HostPort(Component):
    """A host port.

    Parameters
    ----------
    serves : HostShape
    outside : Signature
        The ports of the top level, as a host drives them; their names must differ from those of other host ports.

    Members
    -------
    outside : In(outside)
    design : Out(serves.signature())
        Drives the design.

    Attributes
    ----------
    by_element : bool
        Whether the port writes one element at a time to its lane, instead of words.
    needs_identity : bool
        Whether `serves` must name the design and its longest run.
    """

    by_element = False
    needs_identity = False

    def __init__(self, serves: HostShape, outside: wiring.Signature) -> None:
        self.serves = serves
        super().__init__(
            {"outside": In(outside), "design": Out(serves.signature(by_element=self.by_element))}
        )

    @classmethod
    def claim(cls, free: HostShape) -> HostShape:
        """What a port of this kind serves of the remaining interface; all of it, unless a kind overrides this."""
        return free


class HostDriver(ABC):
    """Drives a design through one of its host ports, in a simulation.

    Parameters
    ----------
    serves : HostShape
    simulation : tg2hdl_sim.Simulation
    """

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        self.serves = serves
        self.simulation = simulation

    @abstractmethod
    def write(self, buffer: str, words: npt.NDArray[Any]) -> int:
        """Write all words of a buffer; clock cycles that it takes."""

    @abstractmethod
    def read(self, buffer: str) -> npt.NDArray[Any]:
        """Read all words of a buffer."""

    @abstractmethod
    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Start, and wait until the last write is done; clock cycles from `start` to the end of each kernel.

        Raises
        ------
        SimulationError
            When a kernel takes more than `limit` cycles.
        """


def plan_ports(kinds: Sequence[str], shape: HostShape) -> tuple[PortPlan, ...]:
    """Distribute the host interface of a design among ports of the given kinds.

    Raises
    ------
    InputError
        When a port has nothing to serve, or something is served by none.
    """
    free, plans = shape, []
    for kind in kinds:
        served = _port_class(kind).claim(free)
        if served.is_empty:
            raise InputError(f"host port {kind!r} has nothing to serve", hint="leave it out of ports=")
        plans.append(PortPlan(kind, served))
        free = free.without(served)
    if not free.is_empty:
        names = ["control"] * free.control + [b.name for b in free.buffers]
        raise InputError(
            f"no host port serves {', '.join(names)}",
            where=f"ports={tuple(kinds)!r}",
            hint='add one that does, such as "native"',
        )
    return tuple(plans)


def need_identity(kinds: Sequence[str]) -> bool:
    """Whether a host port of these kinds tells the host which design it belongs to."""
    return any(_port_class(kind).needs_identity for kind in kinds)


def build_port(plan: PortPlan) -> HostPort:
    """Component of a host port."""
    port: HostPort = _port_class(plan.kind)(plan.serves)
    return port


def open_driver(plan: PortPlan, simulation: Any) -> HostDriver:
    """Driver of a host port in a running simulation of the design."""
    driver: HostDriver = resolve(registry().port(plan.kind).driver)(plan.serves, simulation)
    return driver


def _port_class(kind: str) -> Any:
    found = resolve(registry().port(kind).port)
    if not (isinstance(found, type) and issubclass(found, HostPort)):
        raise PluginError(
            f"host port {kind!r} is not a subclass of HostPort",
            hint="correct the descriptor in the plugin that registers it",
        )
    return found
