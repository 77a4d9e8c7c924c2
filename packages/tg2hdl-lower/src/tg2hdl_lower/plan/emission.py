"""The datapath that a node of a plan is emitted into."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from amaranth import Module, Shape, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_ir import DType
from tg2hdl_lower.plan.placement import Placement

__all__ = ["ArithResult", "CounterSignals", "Emission", "PlacedNode"]


@dataclass(frozen=True)
class CounterSignals:
    """Registers of one loop: its value, and whether that is the first or the last one."""

    value: Signal
    first: Signal
    last: Signal


@dataclass
class ArithResult:
    """Signals of a datapath.

    Parameters
    ----------
    signals : dict of int to Value
        By number of the node.
    acc : dict of int to Signal
        Accumulators, by register.
    counter_sigs : dict of int to Signal
        Counters, by axis.
    """

    signals: dict[int, Value] = field(default_factory=dict)
    acc: dict[int, Signal] = field(default_factory=dict)
    counter_sigs: dict[int, Signal] = field(default_factory=dict)


class PlacedNode(Protocol):
    """A node, as far as emission needs it."""

    @property
    def number(self) -> int: ...
    @property
    def leaf(self) -> int: ...
    @property
    def shape(self) -> Shape: ...


class Emission(Protocol):
    """The module under construction, and the signals made so far; `tg2hdl_lower.emit.datapath.Datapath` is one."""

    m: Module
    result: ArithResult
    arrays: dict[int, Memory]
    lines: dict[int, Signal]

    def placement(self, node: PlacedNode) -> Placement:
        """Stages of a node."""

    def dtype(self, number: int) -> DType:
        """Type of a node's result."""

    def at(self, number: int, stage: int) -> Value:
        """Value of a node at a stage, through as many registers as needed.

        Parameters
        ----------
        number : int
            Of the node.
        stage : int
            Cycles after the start of the step.
        """

    def at_issue(self, node: PlacedNode, number: int) -> Value:
        """Value of a node in the cycle in which another one takes its operands.

        Parameters
        ----------
        node : PlacedNode
            Takes the operand.
        number : int
            Of the operand's node.
        """

    def named(self, node: PlacedNode, value: Value, name: str) -> Signal:
        """The value of a node as a signal of its shape.

        Parameters
        ----------
        node : PlacedNode
        value : Value
            Of any shape; it is converted to that of the node.
        name : str
            Last part of the signal's name.
        """

    def active_when(self, node: PlacedNode, flag: int | None, init: int = 0) -> Signal:
        """Whether a step is in the stage of a node with this flag set; a reset sets its register, if any, to `init`.

        Parameters
        ----------
        node : PlacedNode
        flag : int or None
            Number of the node of a condition; None for always.
        init : int, default 0
            Contents of the register after a reset.
        """

    def constant(self, number: int, value: int, shape: Shape) -> Value:
        """Value of a constant node; of several variants that of the one that runs.

        Parameters
        ----------
        number : int
            Of the node.
        value : int
            Of the plan's own node.
        shape : Shape
            Bits and sign.
        """

    def variable(self, name: str) -> Value:
        """Port of a run-time scalar."""

    def counter(self, axis: int) -> CounterSignals:
        """Registers of a loop."""

    def generated(self, number: int) -> Value:
        """Register of an address, or of a position in a word."""

    def word(self, node: PlacedNode, buffer: int) -> Value:
        """The word that a load reads.

        Parameters
        ----------
        node : PlacedNode
            The load.
        buffer : int
            Slot.
        """

    def replayed(self, node: PlacedNode, source: int) -> Value:
        """Word of another load, from the delay line of a node.

        Parameters
        ----------
        node : PlacedNode
            The replay.
        source : int
            Number of the load that read the word.
        """

    def slot_result(self, node: PlacedNode, kind: str, is_product: bool, operands: tuple[int, ...]) -> Value:
        """Result of the slot of a shared resource, whose operands in a node's turn are these nodes.

        Parameters
        ----------
        node : PlacedNode
        kind : str
            Of the resource.
        is_product : bool
            Whether the slot is one of `HardwarePlan.products`; otherwise it is a shared unit.
        operands : tuple of int
            Numbers of their nodes.
        """

    def read_register(self, number: int) -> Value:
        """The value that a node reads from its accumulator."""

    def write_register(self, number: int, value: Value) -> None:
        """Write an accumulator as a node does.

        Parameters
        ----------
        number : int
            Of the node, a `RegisterWrite`.
        value : Value
            Next contents of the accumulator.
        """
