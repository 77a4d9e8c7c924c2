"""The hardware plan of a kernel: every decision about its hardware, as plain data that prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tg2hdl_ir import DType, KernelIR, LoopIR
from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower.decisions import Decision
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.control_registers import ControlRegisters
from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.graph import LeafPlan, NodeGraph, bound_value, loop_steps
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_lower.plan.placement import Placement, Schedule
from tg2hdl_lower.plan.registers import AccumulatorStorage
from tg2hdl_lower.plan.resources import SharedResource, SharedUnit

__all__ = ["BufferPort", "HardwarePlan", "PortRegisters"]

HOLD = 4
"""Initiation interval from which a register holds a waiting value for a step, not for a cycle."""


@dataclass(frozen=True)
class PortRegisters:
    """Buffers whose ports have a register: after a multiplexer of accesses, or before very many block RAMs."""

    reads: frozenset[int]
    writes: frozenset[int]

    def delay(self, access: Load | Store) -> int:
        """Cycles from the issue of an access to the memory."""
        return int(access.buffer in (self.reads if isinstance(access, Load) else self.writes))


@dataclass(frozen=True)
class BufferPort:
    """A port of the kernel to a buffer: `reads` for reading (otherwise writing) words of `lanes` elements."""

    buffer: int
    number: int
    reads: bool
    dtype: DType
    layout: Layout

    @property
    def word_width(self) -> int:
        """Bits of a word."""
        return self.layout.lanes * self.dtype.bit_width


@dataclass(frozen=True)
class HardwarePlan(NodeGraph):
    """All decisions about a kernel, for the emitter and for reports.

    Parameters
    ----------
    kernel : KernelIR
        After all transforms.
    leaves : tuple of LeafPlan
        Innermost loops, in execution order.
    nodes : mapping of int to Node
        In the order of their numbers.
    schedule : Schedule
        When each node is computed.
    ports : tuple of BufferPort
        Ports of the memories, by buffer and number.
    depth : int
        Stage of the last store: cycles from the issue of a step to its last effect.
    read_latency : int
        Cycles from an address on a read port to its data.
    layouts, storage : dict of int
        Physical layout and element type of each buffer.
    multipliers : int
        Products of two variable operands, except those that share a multiplier within the kernel.
    notes : tuple of str
        Reasons of decisions, for reports.
    products, shared_units : tuple of SharedResource
        Multipliers and units that the top level provides, by the ports of the nodes that use them.
    port_registers : PortRegisters
        Buffers with a register at their read or write ports.
    control_registers : ControlRegisters
        Flags that wait in registers.
    accumulators : mapping of int to AccumulatorStorage
        Hardware of each register of the kernel.
    delay_lines : mapping of int to DelayLine
        Of the nodes that replay a word.
    run_constant : frozenset of int
        Nodes whose value does not change during a run, so that it takes no registers to keep it.
    family : str
        FPGA family that it is planned for.
    latencies : mapping of int to int
        Cycles from an address to its word of each buffer.
    variants : tuple of HardwarePlan
        The plans of a core for several plans of one shape; the other fields are wide enough for each.
    regrouped : bool
        Whether float sums may be added in another order than the program's; the order is that of `kernel`.
    follows : bool
        Whether it keeps the pace of the kernel before it, whose results it reads as they are written.
    decisions : tuple of Decision
        Decisions of the planner.
    source : KernelIR, optional
        The kernel that `plan_kernel` was given, where the plan must compute the same bits; a design has its own.
        Of sums that take turns, the kernel of `summed_at_the_end`.
    """

    kernel: KernelIR
    leaves: tuple[LeafPlan, ...]
    nodes: Mapping[int, Node]
    schedule: Schedule
    ports: tuple[BufferPort, ...]
    depth: int
    read_latency: int
    layouts: dict[int, Layout] = field(default_factory=dict)
    storage: dict[int, DType] = field(default_factory=dict)
    multipliers: int = 0
    notes: tuple[str, ...] = ()
    regrouped: bool = False
    products: tuple[SharedResource, ...] = ()
    shared_units: tuple[SharedUnit, ...] = ()
    port_registers: PortRegisters = PortRegisters(frozenset(), frozenset())
    control_registers: ControlRegisters = field(default_factory=ControlRegisters)
    accumulators: Mapping[int, AccumulatorStorage] = field(default_factory=dict)
    delay_lines: Mapping[int, DelayLine] = field(default_factory=dict)
    run_constant: frozenset[int] = frozenset()
    family: str = "generic"
    latencies: Mapping[int, int] = field(default_factory=dict)
    variants: tuple[HardwarePlan, ...] = ()
    follows: bool = field(default=False, metadata=OPTIONAL)
    decisions: tuple[Decision, ...] = field(default=(), compare=False, repr=False, metadata=OPTIONAL)
    source: KernelIR | None = field(default=None, compare=False, repr=False, metadata=OPTIONAL)

    @property
    def ii(self) -> int:
        """Initiation interval: cycles from one step to the next."""
        return self.schedule.ii

    @property
    def holds_values(self) -> bool:
        """Whether a register holds a value that waits for a step, instead of a chain of one for each cycle."""
        return self.ii >= HOLD

    @property
    def units(self) -> frozenset[str]:
        """Names of all arithmetic units, the shared ones included."""
        return frozenset(n.unit.name for n in self.all(UnitOp))

    def placement(self, number: int) -> Placement:
        """When and where a node is computed."""
        return self.schedule.placements[number]

    def steps(self, variables: dict[str, int] | None = None) -> int:
        """Steps of one run; `variables` gives the run-time bounds."""
        return loop_steps(self.kernel.loop_tree, variables or {})

    @property
    def rows(self) -> int:
        """Runs that the iterations of the outermost loop are; 0 where all steps are one run."""
        loops = self.kernel.loop_tree.loops
        return bound_value(loops[0].bound, {}) if loops and loops[0].axis_type == "rows" else 0

    def cycles(self, variables: dict[str, int] | None = None) -> int:
        """Clock cycles from the start pulse to the done pulse; of all runs together where each row is one."""
        runs = self.rows or 1
        return (self.steps(variables) - runs) * self.ii + runs * (self.drain + 1)

    @property
    def drain(self) -> int:
        """Cycles from the issue of the last step to the done pulse, with the last write."""
        return max(self.depth, 1)

    def format(self) -> str:
        """All decisions, with a table of the nodes in schedule order."""
        name, ii, depth = self.kernel.name, self.ii, self.depth
        lines = [
            f"PLAN {name}: ii={ii} steps={self.steps()} depth={depth} cycles={self.cycles()}"
            if not self.kernel.variables
            else f"PLAN {name}: ii={ii} depth={depth}"
        ]
        if self.holds_values:
            lines.append("  values wait in registers that hold them for a step")
        for idx, layout in self.layouts.items():
            ends = {"read": self.port_registers.reads, "write": self.port_registers.writes}
            registers = "".join(
                f", register at the {end} ports" for end, found in ends.items() if idx in found
            )
            lines.append(f"  buffer {idx}: {self.storage[idx]} {layout}{registers}")
        lines += [*_slots(self.products), *_slots(self.shared_units)]
        lines += [f"  r{idx}: {accumulator}" for idx, accumulator in self.accumulators.items()]
        for leaf in self.leaves:
            path = " > ".join(f"i{loop.counter.axis}<{_bound(loop)}" for loop in leaf.path if loop.counter)
            early = leaf.number in self.control_registers.advances and len(leaf.path) > 1
            registered = ", outer loops advance by registered flags" if early else ""
            lines.append(f"  leaf {leaf.number}: {path or 'one step'}{registered}")
            for number in sorted(leaf.nodes, key=lambda n: (self.placement(n)[1:3], n)):
                lines.append("    " + self._line(self.nodes[number]))
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _line(self, node: Node) -> str:
        at = self.placement(node.number)
        sign = "s" if node.signed else "u"
        operands = " ".join(f"%{n}" for n in node.operands)
        more = f" ({self.delay_lines[node.number]})" if node.number in self.delay_lines else ""
        if node.number in self.run_constant and not node.is_fixed:
            more += " (constant during a run)"
        early = [
            f"%{flag}" for number, flag in sorted(self.control_registers.enables) if number == node.number
        ]
        more += f" (registered enable by {' '.join(early)})" if early else ""
        what = f"{node.label:<8} {node.detail.format(port=at.port)} {operands}".rstrip()
        return f"%{node.number:<4} {f'@{at.stage}.{at.level}':<7} {sign}{node.width:<3} {what}{more}"


def _slots(resources: Sequence[SharedResource]) -> Iterator[str]:
    """Lines of the resources outside, equal neighbours in one."""
    for resource, group in groupby(enumerate(resources), key=lambda pair: pair[1]):
        first, *_, last = [number for number, _ in group] * 2
        numbers = str(first) if first == last else f"{first} to {last}"
        yield f"  {resource.port} {numbers}: {resource}"


def _bound(loop: LoopIR) -> str:
    return str(loop.bound) if isinstance(loop.bound, int) else "n"
