"""The simulated design: a component, its ports and its memories, elaborated once for all engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from amaranth.hdl import ClockDomain, Fragment, Instance, MemoryData, Module, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tg2hdl_ir import InputError, UnsupportedError
from tg2hdl_ir.collection import paused_collection
from tg2hdl_sim import netlist
from tg2hdl_sim.amaranth_internals import Design, MemoryInstance, Netlist, PortDirection, build_netlist
from tg2hdl_sim.instances import with_instances
from tg2hdl_sim.views import View

__all__ = ["Elaboration", "Forecast", "MemoryInfo", "PortInfo", "SimulationModel"]

CLOCK, RESET = "clk", "rst"


@dataclass(frozen=True)
class PortInfo:
    """A port of the top level.

    Parameters
    ----------
    name : str
        Path in the signature, joined with ``__``.
    width : int
        Bits.
    signed : bool
        Whether `Simulation.get` sign-extends.
    direction : {"in", "out"}
        As seen from the component.
    init : int
        Value of an input until it is set.
    """

    name: str
    width: int
    signed: bool
    direction: Literal["in", "out"]
    init: int = 0


@dataclass(frozen=True)
class MemoryInfo:
    """A memory that is reachable through the back door.

    Parameters
    ----------
    name : str
    width : int
        Bits of a word.
    depth : int
        Number of words.
    signed : bool
        Whether words are read as signed integers.
    """

    name: str
    width: int
    depth: int
    signed: bool


@dataclass(frozen=True)
class LocatedMemory:
    """A memory of the elaborated design: its hierarchical path below the top level and its contents."""

    path: tuple[str, ...]
    data: Any
    info: MemoryInfo

    @property
    def initial(self) -> list[int]:
        """Initial contents, one number per word; negative for signed words."""
        return list(self.data._init._raw)


@dataclass(frozen=True)
class Forecast:
    """Facts about a design before it is elaborated, such as from its plan.

    Parameters
    ----------
    cells : int
        Expected cells of the netlist.
    identity : str
        Content that determines the design; engines remember under it which compiled model belongs to it.
    """

    cells: int
    identity: str


@dataclass(frozen=True)
class SimulationModel:
    """A design to simulate, the same for every engine.

    Parameters
    ----------
    top : wiring.Component
        The design; all of its registers are in the clock domain ``sync``.
    memories : mapping of str to Memory or MemoryData, optional
        Names for back-door access.  Without it each memory is named by its path, joined with dots.
    name : str
        For messages and waveforms.
    reset : bool
        Whether the domain has a synchronous reset, which becomes the input ``rst``.  Simulation starts as
        after power on in any case, and a design without it runs faster.
    forecast : callable, optional
        Returns a `Forecast`; then ``engine="auto"`` selects the engine without elaborating the design.
    views : callable, optional
        Returns the `View` variables that a waveform has besides the signals.
    modules : callable, optional
        Returns a context in which `top` elaborates with instances in the places of equal components, and which yields
        the component of each module by name.
    """

    top: Any
    memories: Mapping[str, Any] | None = None
    name: str = "top"
    reset: bool = False
    forecast: Callable[[], Forecast] | None = None
    views: Callable[[], Sequence[View]] | None = None
    modules: Callable[[], AbstractContextManager[Mapping[str, Any]]] | None = None
    _parts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.top, wiring.Component):
            raise InputError(
                f"the top of a simulation model is {type(self.top).__name__}, not a wiring.Component",
                where=self.name,
                hint="give the design a Signature: subclass amaranth.lib.wiring.Component",
            )
        if self.memories is not None:
            object.__setattr__(self, "memories", MappingProxyType(dict(self.memories)))

    @property
    def elaboration(self) -> Elaboration:
        """The elaborated design; made at the first use."""
        if "elaboration" not in self._parts:
            self._parts["elaboration"] = Elaboration(self)
        elaboration: Elaboration = self._parts["elaboration"]
        return elaboration

    @property
    def compact(self) -> Elaboration:
        """The elaborated design whose equal components were elaborated once; only its netlist has their cells."""
        if self.modules is None:
            return self.elaboration
        if "compact" not in self._parts:
            self._parts["compact"] = Elaboration(self, self.modules())
        compact: Elaboration = self._parts["compact"]
        return compact

    @property
    def expected(self) -> Forecast | None:
        """The forecast, made at the first use."""
        if "forecast" not in self._parts:
            self._parts["forecast"] = None if self.forecast is None else self.forecast()
        expected: Forecast | None = self._parts["forecast"]
        return expected

    @property
    def cells(self) -> int:
        """Size for cost models: as forecast, else counted in the netlist."""
        return self.elaboration.cells if self.expected is None else self.expected.cells


class Elaboration:
    """A model after elaboration.

    Attributes
    ----------
    fragment : Fragment
        The design in a wrapper that owns the clock domain.
    clock : Signal
        Clock input.
    signals : dict of str to Value
        Port values by name.
    ports : dict of str to PortInfo
        Ports by name, without the clock.
    memories : tuple of LocatedMemory
        Every memory of the design.
    names : dict of str to int
        Index in `memories` by the name that the model gives it.
    """

    def __init__(
        self, model: SimulationModel, modules: AbstractContextManager[Mapping[str, Any]] | None = None
    ) -> None:
        self.model = model
        module = Module()
        domain = ClockDomain("sync", reset_less=not model.reset)
        module.domains += domain
        module.submodules.dut = model.top
        with modules or nullcontext({}) as components, paused_collection():
            self.fragment = Fragment.get(module, None)
        self.modules = {
            name: Elaboration(SimulationModel(component, name=name, reset=model.reset))
            for name, component in components.items()
        }
        self.clock = domain.clk
        self.signals: dict[str, Any] = {}
        self.ports: dict[str, PortInfo] = {}
        if model.reset:
            self._add_port(RESET, domain.rst, wiring.In)
        for path, member, value in model.top.signature.flatten(model.top):
            self._add_port("__".join(map(str, path)), value, member.flow)
        self.memories = self._locate_memories()
        self.names = self._name_memories()

    def _add_port(self, name: str, value: Any, flow: Any) -> None:
        if name in self.ports or name == CLOCK:
            raise InputError(
                f"two ports of the design are named {name!r}",
                where=self.model.name,
                hint=f"rename one; {CLOCK!r} is the clock, and {RESET!r} the reset when the model has one",
            )
        value = Value.cast(value)
        shape = Shape.cast(value.shape())
        is_input = flow is wiring.In
        self.signals[name] = value
        self.ports[name] = PortInfo(
            name,
            shape.width,
            shape.signed,
            "in" if is_input else "out",
            getattr(value, "init", 0) if is_input else 0,
        )

    @cached_property
    def design(self) -> Design:
        """The design with its top-level ports."""

        def refuse(domain: str) -> ClockDomain:
            raise UnsupportedError(
                f"the design uses the clock domain {domain!r}",
                where=self.model.name,
                hint="simulation drives one clock: put everything in the domain 'sync' (DomainRenamer)",
            )

        ports = {CLOCK: (self.clock, PortDirection.Input)}
        for name, port in self.ports.items():
            direction = PortDirection.Input if port.direction == "in" else PortDirection.Output
            ports[name] = (self.signals[name], direction)
        with paused_collection():
            return self.fragment.prepare(ports, missing_domain=refuse)

    @cached_property
    def _outer_netlist(self) -> Netlist:
        """Amaranth's netlist of the design, with instances of its modules."""
        design = self.design
        with paused_collection():
            return build_netlist(design)

    @cached_property
    def netlist(self) -> Netlist:
        """Amaranth's netlist of the design, with the cells of its modules."""
        return self.netlist_with(self.modules)

    def netlist_with(self, modules: Iterable[str]) -> Netlist:
        """Amaranth's netlist of the design, with the cells of some modules, and instances of the others."""
        with paused_collection():
            return with_instances(self._outer_netlist, {name: self.modules[name].netlist for name in modules})

    @cached_property
    def rtlil(self) -> str:
        """RTLIL of the design without memory contents, which engines load at start."""
        return netlist.to_rtlil(self.netlist)

    @cached_property
    def content(self) -> str:
        """Text of the netlist without memory contents, for cache keys; cheaper than `rtlil`."""
        inner = [text for name, module in self.modules.items() for text in (name, module.content)]
        return "\n".join([netlist.to_text(self._outer_netlist), *inner])

    @cached_property
    def cells(self) -> int:
        """Size of the design for cost models: cells of the netlist."""
        return len(self.netlist.cells)

    def _locate_memories(self) -> tuple[LocatedMemory, ...]:
        found = []
        for fragment, info in self.design.fragments.items():
            path = info.name[1:]
            if isinstance(fragment, MemoryInstance):
                found.append(_located(path, fragment._data))
            elif isinstance(fragment, Instance) and fragment.type in self.modules:
                for inner in self.modules[fragment.type].memories:
                    found.append(_located(path + inner.path[1:], inner.data))
        return tuple(found)

    def _name_memories(self) -> dict[str, int]:
        by_path = {memory.info.name: index for index, memory in enumerate(self.memories)}
        if self.model.memories is None:
            return by_path
        by_data = {id(memory.data): index for index, memory in enumerate(self.memories)}
        names = {}
        for name, item in self.model.memories.items():
            data = item.data if isinstance(item, Memory) else item
            if not isinstance(data, MemoryData):
                raise InputError(
                    f"memory {name!r} of the model is {type(item).__name__}, not a Memory or MemoryData",
                    where=self.model.name,
                    hint="name objects of amaranth.lib.memory",
                )
            if id(data) not in by_data:
                raise InputError(
                    f"memory {name!r} of the model is not in the design",
                    where=self.model.name,
                    notes=("memories of the design: " + (", ".join(by_path) or "none"),),
                    hint="elaborate() must add this very object as a submodule",
                )
            names[name] = by_data[id(data)]
        return names


def _located(path: tuple[str, ...], data: Any) -> LocatedMemory:
    shape = Shape.cast(data.shape)
    return LocatedMemory(path, data, MemoryInfo(".".join(path[1:]), shape.width, data.depth, shape.signed))
