"""A kind of memory: when it suits a buffer, its cost, and how it is built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_ir import Area, FamilyDef, PluginError, registry
from tg2hdl_lower.memory.blocks import Piece
from tg2hdl_lower.memory.plan import ArrayStyle, MemoryPlan
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["ArrayStyle", "BuiltMemory", "MemoryKind", "choose_kind", "kind_named"]


class BuiltMemory(ABC):
    """A memory of a design under construction."""

    @abstractmethod
    def write(self, m: Module, address: Value, data: Value, enable: Value) -> None:
        """Connect the write port; `enable` has a bit per lane.  Called at most once.

        Parameters
        ----------
        m : Module
        address : Value
            Word.
        data : Value
        enable : Value
            A bit for each lane.
        """

    @abstractmethod
    def read(self, m: Module, number: int, address: Value) -> Value:
        """Data of read port `number`, `MemoryPlan.read_latency` cycles after the address.

        Parameters
        ----------
        m : Module
        number : int
            Of the read port, from 0.
        address : Value
            Word.
        """


class MemoryKind(ABC):
    """Descriptor of a kind of memory; one object serves all memories of the kind."""

    @abstractmethod
    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether a buffer may become a memory of this kind.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        family : FamilyDef
            Has the sizes of blocks and ports.
        """

    def read_ports(self, use: MemoryUse, family: FamilyDef) -> int:
        """Read ports that the memory may have; unless a kind says otherwise, every port is a copy.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        family : FamilyDef
            Has the sizes of blocks and ports.
        """
        figures = family.memory
        ports = figures.read_ports(use.bits)
        # Nothing is written to a ROM, so that both ports of a block read it.
        both = use.role.is_rom and figures.dual_bits and figures.lut_bits < use.bits <= figures.block_bits
        return 2 * ports if both else ports

    def pieces(self, use: MemoryUse, family: FamilyDef, ports: int) -> tuple[Piece, ...]:
        """Arrays that the memory is built of with `ports` read ports.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        family : FamilyDef
            Has the sizes of blocks and ports.
        ports : int
            Read ports; 0 where nothing reads.
        """
        return (Piece(0, use.width, 0, use.words),)

    def extra_latency(self, use: MemoryUse, family: FamilyDef) -> int:
        """Cycles from an address to its word beyond `MemoryUse.latency`.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        family : FamilyDef
            Has the sizes of blocks and ports.
        """
        return 0

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """First and last cycle after an address in which the memory may take the word; a write then is too late."""
        return 0, memory.read_latency

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        """How the array of a memory with `ports` read ports is written down.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        ports : int
            Read ports.
        """
        return ArrayStyle()

    @abstractmethod
    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """Cost with `ports` read ports.

        Parameters
        ----------
        use : MemoryUse
            Size and role of the memory.
        family : FamilyDef
            Has the sizes of blocks and ports.
        ports : int
            Read ports; 0 where nothing reads.
        """

    @abstractmethod
    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add the memory to the module of the design.

        Parameters
        ----------
        m : Module
            Top module.
        memory : MemoryPlan
        """


def kind_named(name: str) -> MemoryKind:
    """The kind of a name.

    Raises
    ------
    InputError
        When no plugin registers it.
    """
    definition = registry().memory_kind(name)
    return registry().make(definition, "kind", MemoryKind)  # type: ignore[type-abstract]


def choose_kind(use: MemoryUse, family: FamilyDef) -> str:
    """Name of the kind of highest priority that suits a buffer.

    Parameters
    ----------
    use : MemoryUse
        Size and role of the memory.
    family : FamilyDef
    """
    return _chosen(use, family, registry().generation)


@lru_cache(maxsize=4096)
def _chosen(use: MemoryUse, family: FamilyDef, generation: int) -> str:
    for definition in registry().memory_kinds():
        if kind_named(definition.name).suits(use, family):
            return definition.name
    raise PluginError(
        f"no kind of memory suits {use.words} words of {use.width} bits",
        notes=registry().notes(),
        hint="`tg2hdl plugins list` shows the kinds; reinstall tg2hdl-lower",
    )
