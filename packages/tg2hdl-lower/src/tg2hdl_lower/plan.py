"""The hardware plan of a kernel: every operation with its unit, stage and operands.  Plain data, printable."""

from __future__ import annotations

from dataclasses import dataclass, field

from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.analysis.ranges import Interval, bits_for
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRVariable, KernelIR, LoopIR
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering
from tg2hdl_lower.bounds import bound_value
from tg2hdl_lower.layout import Layout

__all__ = ["DigitSplit", "HardwarePlan", "LeafPlan", "MemoryPort", "PlanNode", "PortRegisters"]


@dataclass(frozen=True)
class DigitSplit:
    """A position along a dimension that is divided into words: ``form // split`` counts `stride` words."""

    form: Affine
    split: int
    stride: int


@dataclass
class PlanNode:
    """One operation.

    Parameters
    ----------
    kind : str
        ``const counter first last address remainder laneindex variable load reuse lane op unit product shared
        regread regwrite store``.
    leaf : int
        Number of the leaf loop whose steps compute it.
    dtype : DType
    interval : (int, int)
        Smallest and largest value; of a float, of its bit pattern.
    operands : tuple of int
        Numbers of the nodes that it reads.
    choices : tuple of (int, int, int)
        Of a lane that moves: values of its last operand, each with the operand and the lane that it stands for; the
        value is the lane where there are none.
    stage, level : int
        When the result is there: cycles after the step was issued, and logic levels into that cycle.
    """

    number: int
    kind: str
    leaf: int
    dtype: DType
    interval: Interval
    operands: tuple[int, ...] = ()
    value: int = 0
    axis: int = 0
    form: Affine | None = None
    variable: IRVariable | None = None
    op: str = ""
    lowering: OpLowering | None = None
    unit: ArithmeticUnit | None = None
    levels: int = 0
    latency: int = 0
    buffer: int = 0
    register: int = 0
    index: int | None = None
    gate: int | None = None
    lanes: tuple[tuple[int, int, int | None], ...] = ()
    lane: int = 0
    lane_node: int | None = None
    digits: tuple[DigitSplit, ...] = ()
    weights: tuple[int, ...] = ()
    choices: tuple[tuple[int, int, int], ...] = ()
    port: int = 0  # of a product, its multiplier; of a shared unit, its slot
    issue: int = 0
    stage: int = 0
    level: int = 0

    @property
    def width(self) -> int:
        """Bits of the result."""
        return self.dtype.bit_width if self.dtype.is_float else bits_for(self.interval)[0]

    @property
    def signed(self) -> bool:
        """Whether the result is a two's complement number."""
        return not self.dtype.is_float and self.interval[0] < 0


@dataclass(frozen=True)
class PortRegisters:
    """Buffers whose ports get a register: behind a multiplexer of accesses, or on the way to very many block RAMs."""

    reads: frozenset[int]
    writes: frozenset[int]

    def delay(self, node: PlanNode) -> int:
        """Cycles from the issue of a load or store to the memory."""
        return int(node.buffer in (self.reads if node.kind == "load" else self.writes))


@dataclass(frozen=True)
class MemoryPort:
    """A port of the kernel to a buffer: `reads` for reading (otherwise writing) words of `lanes` elements."""

    buffer: int
    number: int
    reads: bool
    dtype: DType
    layout: Layout


@dataclass(frozen=True)
class LeafPlan:
    """A leaf loop: the counters on its path, outermost first, and its nodes."""

    number: int
    path: tuple[LoopIR, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class HardwarePlan:
    """Everything that the emitter needs, and what the reports show.

    Parameters
    ----------
    kernel : KernelIR
        After all transforms.
    ii : int
        Initiation interval: cycles from one step to the next.
    depth : int
        Stage of the last store: cycles from the issue of a step to its last effect.
    read_latency : int
        Cycles from an address on a read port to its data.
    layouts, storage : dict of int
        Physical layout and element type of each buffer.
    products : tuple of (int, int)
        Operand widths of each multiplier that the top level provides (bits, signed).
    product_latency : int
        Cycles of these multipliers.
    shared_units : tuple of ArithmeticUnit
        Units that the top level provides.
    registers : PortRegisters
        Buffers with a register in front of their read or write ports.
    turning : dict of int to int
        Registers that are delay lines, and the steps from writing an element to reading it.
    regrouped : bool
        Whether float sums may be added in another order than the source's; the order is that of `kernel`.
    """

    kernel: KernelIR
    leaves: tuple[LeafPlan, ...]
    nodes: tuple[PlanNode, ...]
    ports: tuple[MemoryPort, ...]
    ii: int
    depth: int
    read_latency: int
    layouts: dict[int, Layout] = field(default_factory=dict)
    storage: dict[int, DType] = field(default_factory=dict)
    multipliers: int = 0
    notes: tuple[str, ...] = ()
    regrouped: bool = False
    products: tuple[tuple[int, int], ...] = ()
    product_latency: int = 2
    shared_units: tuple[ArithmeticUnit, ...] = ()
    registers: PortRegisters = PortRegisters(frozenset(), frozenset())
    turning: dict[int, int] = field(default_factory=dict)

    def steps(self, variables: dict[str, int] | None = None) -> int:
        """Steps of one run; `variables` gives the run-time bounds."""
        return _steps(self.kernel.loop_tree, variables or {})

    def cycles(self, variables: dict[str, int] | None = None) -> int:
        """Clock cycles from the start pulse to the done pulse."""
        return (self.steps(variables) - 1) * self.ii + self.drain + 1

    @property
    def drain(self) -> int:
        """Cycles from the issue of the last step to the done pulse, with the last write."""
        return max(self.depth, 1)

    def format(self) -> str:
        """Table of the nodes in schedule order."""
        lines = [
            f"PLAN {self.kernel.name}: ii={self.ii} steps={self.steps()} depth={self.depth} cycles={self.cycles()}"
            if not self.kernel.variables
            else f"PLAN {self.kernel.name}: ii={self.ii} depth={self.depth}"
        ]
        lines += [f"  buffer {idx}: {self.storage[idx]} {layout}" for idx, layout in self.layouts.items()]
        for leaf in self.leaves:
            path = " > ".join(f"i{loop.counter.axis}<{_bound(loop)}" for loop in leaf.path if loop.counter)
            lines.append(f"  leaf {leaf.number}: {path or 'one step'}")
            for number in sorted(leaf.nodes, key=lambda n: (self.nodes[n].stage, self.nodes[n].level, n)):
                lines.append("    " + _line(self.nodes[number]))
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _bound(loop: LoopIR) -> str:
    return str(loop.bound) if isinstance(loop.bound, int) else "n"


def _line(node: PlanNode) -> str:
    sign = "s" if node.signed else "u"
    detail = {
        "const": str(node.value),
        "address": " + ".join(
            [str(node.form), *(f"{d.stride}*(({d.form}) // {d.split})" for d in node.digits)]
        ),
        "remainder": f"[{node.lane}]",
        "counter": f"i{node.axis}",
        "first": f"i{node.axis}",
        "last": f"i{node.axis}",
        "op": node.op,
        "product": f"m{node.port}",
        "unit": node.unit.name if node.unit else node.op,
        "shared": f"{node.unit.name} {node.port}" if node.unit else node.op,
        "load": f"buffer{node.buffer}.r{node.port}",
        "reuse": f"steps={node.value}",
        "store": f"buffer{node.buffer}.w{node.port}",
        "lane": f"[{node.lane}]",
        "regread": f"r{node.register}",
        "regwrite": f"r{node.register}",
    }.get(node.kind, "")
    operands = " ".join(f"%{n}" for n in node.operands)
    gate = f" if %{node.gate}" if node.gate is not None else ""
    when = f"@{node.stage}.{node.level}"
    return (
        f"%{node.number:<4} {when:<7} {sign}{node.width:<3} {node.kind:<8} {detail} {operands}{gate}".rstrip()
    )


def _steps(loop: LoopIR, variables: dict[str, int]) -> int:
    inner = sum(_steps(child, variables) for child in loop.loops) if loop.loops else 1
    return bound_value(loop.bound, variables) * inner
