"""Units: each is computed by one statement of the generated code.

A unit is one node, or equal nodes of many lanes, which become a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Lifted",
    "LiftedPiece",
    "Ref",
    "Unit",
    "UnitMemory",
    "UnitWrite",
    "container",
    "element",
    "exact_forms",
]

# (unit, kind, a, b): kind 0 is lane a of every lane of the user; 1 is lane a * i + b; 2 is lane table[a][i].
Ref = tuple[int, int, int, int]
# As a piece of an operand, with a reference in the place of the node; None is a constant, 3 a table of constants.
LiftedPiece = tuple[Ref | None, int, int]
Lifted = tuple[LiftedPiece, ...]


@dataclass(slots=True)
class Unit:
    """Nodes that do the same, in lanes.

    Attributes
    ----------
    number : int
        Index.
    members : list of int
        Nodes, one per lane.
    ins : list of Lifted
        Operands.
    data : list
        Static data that determines the value, per lane.
    varies : bool
        Whether the value differs among the inputs of a batch.
    form : str
        Bits of the variable above the width: ``z`` zeros, ``s`` copies of the top bit, ``d`` anything.
    vector : bool
        Whether a variable holds a vector: of inputs of a batch, or of lanes in a model of one input.
    place : Ref, optional
        The memory that a read reads, and the lane of it.
    """

    number: int
    op: str
    width: int
    members: list[int]
    ins: list[Lifted] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    varies: bool = False
    form: str = "z"
    vector: bool = False
    place: Ref | None = None

    @property
    def lanes(self) -> int:
        """How many nodes it has."""
        return len(self.members)

    @property
    def bits(self) -> int:
        """Bits of the C type."""
        return container(self.width)

    @property
    def element(self) -> str:
        """C type of an element in the state: short in vectors, which are limited by the bytes that move."""
        return element(self.width, self.form) if self.vector else f"u{self.bits}"


@dataclass(slots=True)
class UnitMemory:
    """Interleaved segments of memories, one per lane: an array ``[row][lane]``."""

    number: int
    members: list[int]
    width: int
    depth: int
    varies: bool = False
    form: str = "z"

    @property
    def lanes(self) -> int:
        """How many segments it has."""
        return len(self.members)

    @property
    def element(self) -> str:
        """C type of an element."""
        return element(self.width, self.form)

    @property
    def rows(self) -> int:
        """Rows that an address can reach; those beyond the depth stay 0."""
        return 1 << max(0, (self.depth - 1).bit_length())


@dataclass(slots=True)
class UnitWrite:
    """Writes to a memory, one per lane of it."""

    memory: int
    address: Lifted
    data: Lifted
    enable: Lifted
    lanes: int = 1


def exact_forms(unit: Unit) -> str:
    """Forms in which a sum or a product is right in all bits of the C type when its operands are in that form."""
    one, two = unit.ins
    signed = [_needed_bits(operand, True) for operand in (one, two)]
    unsigned = [_needed_bits(operand, False) for operand in (one, two)]
    found = ""
    if unit.width >= (sum(signed) if unit.op == "*" else max(signed) + 1):
        found += "s"
    if unit.op != "-" and unit.width >= (sum(unsigned) if unit.op == "*" else max(unsigned) + 1):
        found += "z"
    return found


def _needed_bits(operand: Lifted, signed: bool) -> int:
    """Bits that the value of an operand has, with its sign."""
    total = sum(abs(count) for _, _, count in operand)
    ref, value, count = operand[-1]
    if ref is not None:
        return total + count if signed and count < 0 else total
    rest = total - count
    if not signed:
        return rest + value.bit_length()
    if value >> (count - 1):
        value = ~value & ((1 << count) - 1)
    return min(total, rest + value.bit_length() + 1)


def element(width: int, form: str) -> str:
    """C type that stores a word in few bytes.

    Parameters
    ----------
    width : int
        Bits, at most 64.
    form : str
        ``"s"`` for sign-extended words; others are unsigned.
    """
    size = next(size for size in (8, 16, 32, 64) if width <= size)
    return f"{'i' if form == 's' else 'u'}{size}"


def container(width: int) -> int:
    """Bits of the C type for a width."""
    return 32 if width <= 32 else 64
