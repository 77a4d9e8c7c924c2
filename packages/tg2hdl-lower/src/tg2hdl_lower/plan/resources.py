"""Hardware outside of the kernels, in a slot of each kernel that uses it: multipliers and arithmetic units."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tg2hdl_ir import ArithmeticUnit
from tg2hdl_lower.ops.multiplication import Multiplier

__all__ = [
    "PRODUCTS",
    "UNITS",
    "ResourcePool",
    "SharedMultiplier",
    "SharedResource",
    "SharedUnit",
    "UnitMultiplier",
    "WideMultiplier",
    "Word",
    "pools",
]

PRODUCTS = "products"
"""Pool of the multipliers of at most 18 x 18 bits; the names of other pools of products begin with it."""
UNITS = "units"
"""Pool of the shared arithmetic units."""


class Word(NamedTuple):
    """Bits of a port, and whether they are a two's complement number."""

    width: int
    signed: bool


@dataclass(frozen=True)
class SharedResource:
    """The needs of a slot of a kernel; `latency` counts from its operands at the kernel to the result there."""

    port: ClassVar[str]
    """First part of the names of the kernel's ports."""

    @property
    def key(self) -> Hashable:
        """The same for slots that one resource may serve."""
        raise NotImplementedError

    @property
    def pool(self) -> str:
        """The resources that kernels share when they overlap: all of one kind of product, or all units."""
        raise NotImplementedError

    @property
    def latency(self) -> int:
        """Cycles, with those of the arbiter."""
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Hardware multipliers of 18 x 18 bits in it."""
        raise NotImplementedError

    @property
    def operands(self) -> Mapping[str, Word]:
        """Operands by the names of their ports."""
        raise NotImplementedError

    @property
    def result(self) -> Word:
        """The result."""
        raise NotImplementedError

    def instance(self, number: int) -> str:
        """Name in the netlist."""
        raise NotImplementedError

    def merged(self, other: SharedResource) -> SharedResource:
        """Serves both slots, which have the same key."""
        return self


@dataclass(frozen=True)
class SharedMultiplier(SharedResource):
    """A hardware multiplier for signed operands of `widths` bits."""

    widths: tuple[int, int]
    cycles: int
    port: ClassVar[str] = "product"

    @property
    def key(self) -> Hashable:
        return "multiplier"

    @property
    def pool(self) -> str:
        return PRODUCTS

    @property
    def latency(self) -> int:
        return self.cycles

    @property
    def blocks(self) -> int:
        return 1

    @property
    def operands(self) -> Mapping[str, Word]:
        return {name: Word(width, True) for name, width in zip("ab", self.widths, strict=True)}

    @property
    def result(self) -> Word:
        return Word(sum(self.widths), True)

    def instance(self, number: int) -> str:
        return f"m{number}"

    def __str__(self) -> str:
        return "{} x {} bits, {} cycles".format(*self.widths, self.cycles)

    def merged(self, other: SharedResource) -> SharedMultiplier:
        assert isinstance(other, SharedMultiplier), "slots of one key"
        a, b = (max(pair) for pair in zip(self.widths, other.widths, strict=True))
        return SharedMultiplier((a, b), self.cycles)


@dataclass(frozen=True)
class WideMultiplier(SharedResource):
    """A multiplier for signed operands of `widths` bits, cut into pieces, and the low bits of their product.

    Parameters
    ----------
    limbs, widths : (int, int)
        Pieces and bits of the operands.
    bits : int
        Bits of the result.
    """

    limbs: tuple[int, int]
    widths: tuple[int, int]
    bits: int
    port: ClassVar[str] = "product"

    @property
    def key(self) -> Hashable:
        return self.limbs

    @property
    def pool(self) -> str:
        return "{} of {} x {} pieces".format(PRODUCTS, *self.limbs)

    @property
    def latency(self) -> int:
        return Multiplier.latency_of(*self.limbs)

    @property
    def blocks(self) -> int:
        return self.limbs[0] * self.limbs[1]

    @property
    def operands(self) -> Mapping[str, Word]:
        return {name: Word(width, True) for name, width in zip("ab", self.widths, strict=True)}

    @property
    def result(self) -> Word:
        return Word(self.bits, True)

    def instance(self, number: int) -> str:
        return f"m{number}_wide"

    def __str__(self) -> str:
        return "{} x {} bits on {} multipliers, {} cycles".format(*self.widths, self.blocks, self.latency)

    def merged(self, other: SharedResource) -> WideMultiplier:
        assert isinstance(other, WideMultiplier), "slots of one key"
        a, b = (max(pair) for pair in zip(self.widths, other.widths, strict=True))
        return WideMultiplier(self.limbs, (a, b), max(self.bits, other.bits))


@dataclass(frozen=True)
class SharedUnit(SharedResource):
    """An arithmetic unit after a register for each of its operands."""

    unit: ArithmeticUnit
    port: ClassVar[str] = "unit"

    @property
    def key(self) -> Hashable:
        return self.unit.name

    @property
    def pool(self) -> str:
        return UNITS

    @property
    def latency(self) -> int:
        return self.unit.latency + 1

    @property
    def blocks(self) -> int:
        return self.unit.area.dsp

    @property
    def operands(self) -> Mapping[str, Word]:
        types = zip("abc", self.unit.operands, strict=False)
        return {name: Word(dtype.bit_width, False) for name, dtype in types}

    @property
    def result(self) -> Word:
        return Word(self.unit.result.bit_width, False)

    def instance(self, number: int) -> str:
        return f"u{number}_{self.unit.op}"

    def __str__(self) -> str:
        return f"{self.unit.name}, {self.latency} cycles"


@dataclass(frozen=True)
class UnitMultiplier(SharedUnit):
    """A unit for products that a design counts as a multiplier, straight at the arbiter."""

    port: ClassVar[str] = "product"

    @property
    def pool(self) -> str:
        return f"{PRODUCTS} of {self.unit.name}"

    @property
    def latency(self) -> int:
        return self.unit.latency

    def instance(self, number: int) -> str:
        return f"m{number}_{self.unit.op}"


class ResourcePool(NamedTuple):
    """A resource, and the (kernel, slot) of each user."""

    resource: SharedResource
    users: list[tuple[int, int]]


def pools(kernels: Iterable[Sequence[SharedResource]]) -> list[ResourcePool]:
    """Resources that serve the slots of several kernels that run one at a time."""
    found: dict[tuple[Hashable, int], ResourcePool] = {}
    for kernel, slots in enumerate(kernels):
        seen: dict[Hashable, int] = {}
        for slot, resource in enumerate(slots):
            turn = seen[resource.key] = seen.get(resource.key, -1) + 1
            before = found.get((resource.key, turn), ResourcePool(resource, []))
            found[resource.key, turn] = ResourcePool(
                before.resource.merged(resource), [*before.users, (kernel, slot)]
            )
    return list(found.values())
