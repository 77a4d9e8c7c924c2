"""The design as words, which the engine computes in a clock cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tg2hdl_sim.levelized.operands import Operand, replace

__all__ = ["MemorySegment", "NetlistWords", "WordNode", "Write"]


class WordNode:
    """A word of at most 64 bits and how it is computed.

    Parameters
    ----------
    op : str
        ``in`` (an input), ``ff`` (a register; its operand is the next value), ``read`` (of a memory, before the writes
        of this edge), ``copy``, or an operator.
    ins : list of Operand
        Operands.
    width : int
        Bits.
    data : hashable
        Static data that determines the value: the initial value of a register, the segment of a memory, patterns.
    """

    __slots__ = ("data", "ins", "op", "width")

    def __init__(self, op: str, ins: list[Operand], width: int, data: Any = None) -> None:
        self.op, self.ins, self.width, self.data = op, ins, width, data

    def __repr__(self) -> str:
        return f"({self.op}:{self.width} {self.ins} {self.data})"


@dataclass(frozen=True)
class MemorySegment:
    """A slice of every word of a memory, stored as an array of its own.

    Parameters
    ----------
    memory : int
        Index among the located memories of the elaboration.
    low, width, depth : int
        First bit; bits; words.
    """

    memory: int
    low: int
    width: int
    depth: int


@dataclass
class Write:
    """A write to a segment of a memory, when `enable` (one bit) is 1; later ones win."""

    segment: int
    address: Operand
    data: Operand
    enable: Operand


@dataclass
class NetlistWords:
    """All words of a design.

    Attributes
    ----------
    nodes : list of WordNode
        In any order.
    segments : list of MemorySegment
        Arrays.
    writes : list of Write
        In the order in which they happen.
    outputs : dict of str to Operand
        Outputs of the top level, and other values to observe.
    inputs : dict of str to list of (int, int)
        Nodes of each input and the first bit of each.
    origins : dict of int to (int, int)
        Cell of the netlist that a register is a part of, and its first bit there.
    settled : set of int
        Nodes of modules, whose single bits are packed already.
    """

    nodes: list[WordNode] = field(default_factory=list)
    segments: list[MemorySegment] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    outputs: dict[str, Operand] = field(default_factory=dict)
    inputs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    origins: dict[int, tuple[int, int]] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)

    def add(self, op: str, ins: list[Operand], width: int, data: Any = None) -> int:
        """Add a node and return its number.

        Parameters
        ----------
        op : str
            Operator.
        ins : list of Operand
        width : int
            Bits of the result, at most 64.
        data : optional
            Depends on the operator: patterns, the segment of a read, the name of a port.
        """
        self.nodes.append(WordNode(op, ins, width, data))
        return len(self.nodes) - 1

    def substitute(self, values: Mapping[int, Operand]) -> None:
        """Replace nodes by values wherever they are read."""
        for node in self.nodes:
            node.ins = [replace(operand, values.get) for operand in node.ins]
        for name, operand in self.outputs.items():
            self.outputs[name] = replace(operand, values.get)
        for write in self.writes:
            write.address, write.data, write.enable = (
                replace(operand, values.get) for operand in (write.address, write.data, write.enable)
            )
