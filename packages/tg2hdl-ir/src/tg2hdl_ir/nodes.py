"""Typed nodes of the kernel IR.

A kernel is a tree of counted loops.  Loads and stores are statements: they stand in the loop where they execute, in
program order.  Everything else is a pure value and has no place.  Nodes are immutable and compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tg2hdl_ir.dtype import DType

__all__ = [
    "BufferMeta",
    "IRBufLoad",
    "IRBufStore",
    "IRConst",
    "IRCounter",
    "IROp",
    "IRRegLoad",
    "IRRegStore",
    "IRStatement",
    "IRValue",
    "IRVariable",
    "KernelIR",
    "LoopIR",
    "RegisterMeta",
]


@dataclass(frozen=True, eq=False, slots=True)
class IRConst:
    """A literal of type `dtype`."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class IRVariable:
    """A run-time scalar between `low` and `high` inclusive: an input port of the hardware."""

    name: str
    low: int
    high: int
    dtype: DType = DType.INT32


@dataclass(frozen=True, eq=False, slots=True)
class IRCounter:
    """Induction variable of the loop `axis`: 0, 1, ..., bound - 1.

    Parameters
    ----------
    bound : int or IRValue
        Trip count; a value built from variables and constants only when it is known at run time.
    depth : int
        Nesting level, 0 for an outermost loop.
    axis : int
        Number of the loop, unique in the kernel.
    dtype : DType
        Integer type of the value.
    """

    bound: int | IRValue
    depth: int
    axis: int
    dtype: DType = DType.INT32


@dataclass(frozen=True, eq=False, slots=True)
class IRBufLoad:
    """Read one element of a buffer; with `gate` false the address is ignored and `alt` is the result."""

    buf_idx: int
    addr: IRValue
    dtype: DType
    gate: IRValue | None = None
    alt: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IRRegLoad:
    """Read register `reg`; `index` selects the element of an array of registers."""

    dtype: DType
    reg: int = 0
    index: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IROp:
    """A pure operation: `op` names an `OpDef`."""

    op: str
    dtype: DType
    srcs: tuple[IRValue, ...]


@dataclass(frozen=True, eq=False, slots=True)
class IRBufStore:
    """Write `value` to one element of a buffer, when `gate` is absent or true."""

    buf_idx: int
    addr: IRValue
    value: IRValue
    dtype: DType
    gate: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IRRegStore:
    """Write `value` to register `reg`, when `gate` is absent or true."""

    value: IRValue
    reg: int = 0
    index: IRValue | None = None
    gate: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class LoopIR:
    """A level of the loop tree.

    The items run in the order prologue, body, epilogue.  With inner loops, `body` begins with the first and ends
    with the last of them; without, it holds all the statements.

    Parameters
    ----------
    axis_type : {"loop", "reduce"} or None
        None for the root, which runs once.
    bound : int or IRValue
        Trip count, 1 for the root.
    depth : int
        -1 for the root.
    counter : IRCounter or None
        The induction variable; None for the root.
    """

    axis_type: str | None
    bound: int | IRValue
    depth: int
    prologue: tuple[IRItem, ...]
    body: tuple[IRItem, ...]
    epilogue: tuple[IRItem, ...]
    counter: IRCounter | None = None

    @property
    def items(self) -> tuple[IRItem, ...]:
        """All statements and inner loops in program order."""
        return self.prologue + self.body + self.epilogue

    @property
    def loops(self) -> tuple[LoopIR, ...]:
        """Inner loops, in program order."""
        return tuple(i for i in self.body if isinstance(i, LoopIR))

    @classmethod
    def from_items(
        cls, items: tuple[IRItem, ...], *, counter: IRCounter | None = None, axis_type: str | None = None
    ) -> LoopIR:
        """Build a level from its items; the root when `counter` is None."""
        inner = [n for n, item in enumerate(items) if isinstance(item, LoopIR)]
        first, last = (inner[0], inner[-1] + 1) if inner else (0, len(items))
        return cls(
            None if counter is None else (axis_type or "loop"),
            1 if counter is None else counter.bound,
            -1 if counter is None else counter.depth,
            items[:first],
            items[first:last],
            items[last:],
            counter,
        )

    def walk(self) -> Iterator[LoopIR]:
        """This level and all inner ones, outermost first."""
        yield self
        for loop in self.loops:
            yield from loop.walk()

    def statements(self) -> Iterator[IRStatement]:
        """All statements of this level and of inner ones, in program order."""
        for item in self.items:
            if isinstance(item, LoopIR):
                yield from item.statements()
            else:
                yield item


IRValue: TypeAlias = IRConst | IRVariable | IRCounter | IRBufLoad | IRRegLoad | IROp
IRStatement: TypeAlias = IRBufLoad | IRRegLoad | IRBufStore | IRRegStore
IRItem: TypeAlias = IRStatement | LoopIR


@dataclass(frozen=True)
class BufferMeta:
    """A global buffer: `depth` elements of `dtype`, slot `idx` of the kernel."""

    idx: int
    depth: int
    dtype: DType
    is_output: bool
    name: str = ""


@dataclass(frozen=True)
class RegisterMeta:
    """An accumulator, or an array of `size` of them; `origin` is the register that a lane's copy stands for."""

    idx: int
    dtype: DType
    size: int = 1
    origin: int | None = None


@dataclass(frozen=True, eq=False)
class KernelIR:
    """One kernel: buffers, registers, run-time variables and the loop tree."""

    buffers: tuple[BufferMeta, ...]
    loop_tree: LoopIR
    registers: tuple[RegisterMeta, ...] = ()
    variables: tuple[IRVariable, ...] = ()
    name: str = "kernel"
    source: str = field(default="", compare=False)

    @property
    def acc_dtype(self) -> DType | None:
        """Type of the first accumulator; None without one."""
        return self.registers[0].dtype if self.registers else None

    @property
    def scalar_stores(self) -> tuple[IRBufStore, ...]:
        """Buffer stores outside all loops."""
        return tuple(i for i in self.loop_tree.items if isinstance(i, IRBufStore))

    @property
    def where(self) -> str:
        """Name of the kernel and, if known, what made it in the user's program, for messages."""
        return f"kernel {self.name}, made by {self.source}" if self.source else f"kernel {self.name}"

    def buffer(self, idx: int) -> BufferMeta:
        """Return the buffer of slot `idx`."""
        return next(b for b in self.buffers if b.idx == idx)

    def register(self, idx: int) -> RegisterMeta:
        """Return the register `idx`."""
        return next(r for r in self.registers if r.idx == idx)

    def format(self, show_buffers: bool = True) -> str:
        """Printed form: numbered statements, ``%n`` values; `tg2hdl_ir.parse_kernel` reads it back."""
        from tg2hdl_ir.printer import format_kernel

        return format_kernel(self, show_buffers=show_buffers)

    def pretty(self) -> str:
        """Same as `format`, with the buffers."""
        return self.format()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show a kernel in a notebook as text: its values are shared, so that a nested form would be endless."""
        printer.text(self.format())
