"""A host port: a component that connects the outside to the host interface of a design, and its driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError, UnsupportedError, registry
from tg2hdl_lower import Component, HostShape
from tg2hdl_top.register_map import RegisterMap

__all__ = [
    "HostDriver",
    "HostPort",
    "PortPlan",
    "build_port",
    "need_identity",
    "open_driver",
    "opening_cycles",
    "overlaps_runs",
    "plan_ports",
    "port_class",
    "register_map_of",
]


@dataclass(frozen=True)
class PortPlan:
    """A host port of a design: its kind, and the buffers that it serves."""

    kind: str
    serves: HostShape

    def format(self) -> str:
        """One line."""
        served = ["control"] if self.serves.control else []
        served += [self.serves.loop.format()] if self.serves.control and self.serves.loop else []
        for buffer in self.serves.buffers:
            served.append(f"{buffer.name} ({'write' * buffer.writes}{'read' * buffer.reads})")
        return f"{self.kind}: {', '.join(served)}"

    def describe(self) -> dict[str, Any]:
        """See `HostPort.describe`."""
        found: dict[str, Any] = port_class(self.kind).describe(self.serves)
        return found


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
        Whether `serves` must name the design and its longest run; such a port controls the design.
    overlaps_runs : bool
        Whether the port can start a run while others are under way.
    has_bus : bool
        Whether its register map, if it has one, is that of a bus; see `tg2hdl_top.register_map.RegisterMap`.
    """

    by_element = False
    needs_identity = False
    overlaps_runs = False
    has_bus = False

    def __init__(self, serves: HostShape, outside: wiring.Signature) -> None:
        self.serves = serves
        super().__init__(
            {"outside": In(outside), "design": Out(serves.signature(by_element=self.by_element))}
        )

    @classmethod
    def claim(cls, free: HostShape) -> HostShape:
        """The part of the remaining interface that a port of this kind serves; all unless a kind overrides this."""
        return free

    @classmethod
    def describe(cls, serves: HostShape) -> dict[str, Any]:
        """Facts that a host needs besides names and widths of the ports, as plain data; nothing unless overridden."""
        return {}


class HostDriver(ABC):
    """Drives a design through one of its host ports, in a simulation.

    Parameters
    ----------
    serves : HostShape
    simulation : tg2hdl_sim.Simulation

    Attributes
    ----------
    opening : int
        Clock cycles before the first access, roughly.
    """

    opening = 0

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        self.serves = serves
        self.simulation = simulation

    @abstractmethod
    def write(self, buffer: str, words: npt.NDArray[Any]) -> int:
        """Write all words of a buffer; clock cycles that it takes.

        Parameters
        ----------
        buffer : str
            Name.
        words : ndarray
            In the order of their addresses.
        """

    @abstractmethod
    def read(self, buffer: str) -> npt.NDArray[Any]:
        """Read all words of a buffer."""

    @abstractmethod
    def run(self, variables: Mapping[str, int], limit: int) -> tuple[int, ...]:
        """Start, and wait until the last write is done; clock cycles from `start` to the end of each kernel.

        Parameters
        ----------
        variables : mapping of str to int
            Values of run-time variables.
        limit : int
            Clock cycles after which the run is given up.

        Raises
        ------
        SimulationError
            When a kernel takes more than `limit` cycles.
        """

    def generate(
        self, variables: Mapping[str, int], results: int, stop: int | None, limit: int
    ) -> tuple[npt.NDArray[Any], int]:
        """Start the loop of the design, and wait until it ends.

        Parameters
        ----------
        variables : mapping of str to int
            Values in the first run.
        results : int
            Most results.
        stop : int, optional
            Bits of the last result's elements, in the model's type.
        limit : int
            Clock cycles after which a result is late.

        Returns
        -------
        results : ndarray
            Bits of the elements of each, of shape (results, elements).
        cycles : int
            Clock cycles from start to done.

        Raises
        ------
        SimulationError
            When a result does not come in time.
        UnsupportedError
            For a port that has no way to start a loop.
        """
        raise UnsupportedError(
            f"{type(self).__name__} starts single runs only",
            hint='choose another port, such as "native" or "uart"',
        )

    def watched(self, before: int, limit: int, prefix: str = "") -> tuple[int, ...]:
        """The result of `run`, from the pulses of `kernel_done` and `done` after the cycle of `start`.

        Parameters
        ----------
        before : int
            Cycles of the simulation when `start` was set.
        limit : int
            Most cycles between two pulses.
        prefix : str, optional
            Of the names of the ports.
        """
        simulation, ends = self.simulation, list[int]()
        order = self.serves.order
        for number, core in enumerate(order):
            if number and core == order[number - 1]:
                simulation.step()  # the pulse of the run before
            simulation.run_until(f"{prefix}kernel_done__{core}", limit=limit)
            ends.append(simulation.cycles - before)
        simulation.run_until(f"{prefix}done", limit=limit)
        ends[-1] = simulation.cycles - before
        simulation.step()  # the last write lands at the end of the cycle of done
        if self.serves.kernels < len(order):  # cores run several times, one run after the other
            return tuple(ends)
        return tuple(end for _, end in sorted(zip(order, ends, strict=True)))


def plan_ports(kinds: Sequence[str], shape: HostShape) -> tuple[PortPlan, ...]:
    """Distribute the host interface of a design among ports of the given kinds.

    Parameters
    ----------
    kinds : sequence of str
        Names of kinds, the first choice first.
    shape : HostShape
        The host interface.

    Raises
    ------
    InputError
        When a port has nothing to serve, or something is served by none.
    """
    free, plans = shape, []
    for kind in kinds:
        served = port_class(kind).claim(free)
        if served.is_empty:
            raise InputError(f"host port {kind!r} has nothing to serve", hint="leave it out of ports=")
        if port_class(kind).needs_identity and not served.control:
            raise InputError(
                f"host port {kind!r} does not work next to one that starts the runs",
                where=f"ports={tuple(kinds)!r}",
                hint='let "native" serve the rest, or have no other port',
            )
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
    return any(port_class(kind).needs_identity for kind in kinds)


def overlaps_runs(kind: str) -> bool:
    """Whether a host port of this kind can start a run while others are under way."""
    return bool(port_class(kind).overlaps_runs)


def writes_elements(ports: Sequence[PortPlan], buffer: str) -> bool:
    """Whether the host writes a buffer one element at a time.

    Parameters
    ----------
    ports : sequence of PortPlan
        Planned host ports.
    buffer : str
        Name.
    """
    return any(
        port_class(port.kind).by_element and any(b.name == buffer and b.writes for b in port.serves.buffers)
        for port in ports
    )


def build_port(plan: PortPlan) -> HostPort:
    """Component of a host port."""
    made: Any = port_class(plan.kind)  # a kind takes what it serves
    port: HostPort = made(plan.serves)
    return port


def register_map_of(plan: PortPlan) -> RegisterMap | None:
    """Register map that a host port serves; None for one without."""
    port = port_class(plan.kind)
    return RegisterMap(plan.serves, port.has_bus) if port.needs_identity else None


def open_driver(plan: PortPlan, simulation: Any) -> HostDriver:
    """Driver of a host port in a running simulation of the design.

    Parameters
    ----------
    plan : PortPlan
    simulation : Simulation
        Of the design.
    """
    driver: HostDriver = registry().call(registry().port(plan.kind), "driver", plan.serves, simulation)
    return driver


def opening_cycles(ports: Sequence[PortPlan]) -> int:
    """Clock cycles, roughly, that the drivers of host ports take before their first access.

    Parameters
    ----------
    ports : sequence of PortPlan
    """
    kinds = [registry().port(port.kind) for port in ports]
    return sum(getattr(registry().factory(kind, "driver"), "opening", 0) for kind in kinds)


def port_class(kind: str) -> type[HostPort]:
    """Class of the host port of a name.

    Parameters
    ----------
    kind : str
        Name of a kind.
    """
    return registry().subclass(registry().port(kind), "port", HostPort)
