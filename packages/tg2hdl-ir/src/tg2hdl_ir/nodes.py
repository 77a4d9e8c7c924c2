"""The kernel and, from `tg2hdl_ir.tree`, the nodes that it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.listing import format_body
from tg2hdl_ir.tree import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    IRVariable,
    LoopIR,
    RegisterMeta,
    const_int,
    is_const,
    loads_used_by,
    operands,
    values_below,
)

__all__ = [
    "BufferMeta",
    "IRBufLoad",
    "IRBufStore",
    "IRConst",
    "IRCounter",
    "IRItem",
    "IROp",
    "IRRegLoad",
    "IRRegStore",
    "IRStatement",
    "IRValue",
    "IRVariable",
    "KernelIR",
    "LoopIR",
    "RegisterMeta",
    "const_int",
    "is_const",
    "loads_used_by",
    "operands",
    "values_below",
]


@dataclass(frozen=True, eq=False)
class KernelIR:
    """One kernel: buffers, registers, run-time variables and the loop tree.

    Parameters
    ----------
    buffers : tuple of BufferMeta
        By slot, from 0.
    loop_tree : LoopIR
        The root.
    registers : tuple of RegisterMeta
    variables : tuple of IRVariable
        In the order of their input ports.
    name : str
    source : str
        The linearized UOps that it was made of, for listings.
    """

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
        """Name of the kernel and, if known, its place in the user's program, for messages."""
        return f"kernel {self.name}, made by {self.source}" if self.source else f"kernel {self.name}"

    def buffer(self, idx: int) -> BufferMeta:
        """Return the buffer of slot `idx`."""
        return next(b for b in self.buffers if b.idx == idx)

    def register(self, idx: int) -> RegisterMeta:
        """Return the register `idx`."""
        return next(r for r in self.registers if r.idx == idx)

    def format(self, show_buffers: bool = True) -> str:
        """Printed form: numbered statements, ``%n`` values; `tg2hdl_ir.parse_kernel` reads it back."""
        return format_body(
            self.name,
            self.buffers if show_buffers else (),
            self.registers,
            self.variables,
            self.loop_tree,
        )

    def pretty(self) -> str:
        """Same as `format`, with the buffers."""
        return self.format()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show a kernel in a notebook as text: its values are shared, so that a nested form would be endless."""
        printer.text(self.format())
