"""Typed nodes of the kernel IR.

A kernel is a tree of counted loops.  Loads and stores are statements: they are in the loop where they execute, in
program order.  Everything else is a pure value and has no place.  Nodes are immutable and compare by identity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tg2hdl_ir.dtype import DType

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
    "LoopIR",
    "RegisterMeta",
    "const_int",
    "is_const",
    "loads_used_by",
    "operands",
    "values_below",
]


@dataclass(frozen=True, eq=False, slots=True)
class IRConst:
    """A literal of type `dtype`.

    Parameters
    ----------
    value : int, float or bool
        Within the range of the type.
    dtype : DType
    """

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class IRVariable:
    """A run-time scalar between `low` and `high` inclusive: an input port of the hardware.

    Parameters
    ----------
    name : str
    low, high : int
        Least and greatest value.
    dtype : DType
    """

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
    """Read one element of a buffer; with `gate` false the address is ignored and `alt` is the result.

    Parameters
    ----------
    buf_idx : int
        Slot of the buffer.
    addr : IRValue
        Number of the element.
    dtype : DType
        Of the element.
    gate, alt : IRValue, optional
        Both or neither.
    forwarded : int
        So many steps before this one may still be writing: `forward_stores` takes their elements from registers.
    """

    buf_idx: int
    addr: IRValue
    dtype: DType
    gate: IRValue | None = None
    alt: IRValue | None = None
    forwarded: int = field(default=0, metadata={"optional": True})


@dataclass(frozen=True, eq=False, slots=True)
class IRRegLoad:
    """Read register `reg`; `index` selects the element of an array of registers.

    Parameters
    ----------
    dtype : DType
        Of the register.
    reg : int
        Number of the register.
    index : IRValue, optional
        Element of an array of registers.
    """

    dtype: DType
    reg: int = 0
    index: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IROp:
    """A pure operation: `op` names an `OpDef`.

    Parameters
    ----------
    op : str
        Name of an `OpDef`.
    dtype : DType
        Of the result.
    srcs : tuple of IRValue
        The operands.
    """

    op: str
    dtype: DType
    srcs: tuple[IRValue, ...]


@dataclass(frozen=True, eq=False, slots=True)
class IRBufStore:
    """Write `value` to one element of a buffer, when `gate` is absent or true.

    Parameters
    ----------
    buf_idx : int
        Slot of the buffer.
    addr : IRValue
        Number of the element.
    value : IRValue
    dtype : DType
        Of the element.
    gate : IRValue, optional
        A bool.
    """

    buf_idx: int
    addr: IRValue
    value: IRValue
    dtype: DType
    gate: IRValue | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IRRegStore:
    """Write `value` to register `reg`, when `gate` is absent or true.

    Parameters
    ----------
    value : IRValue
    reg : int
        Number of the register.
    index : IRValue, optional
        Element of an array of registers.
    gate : IRValue, optional
        A bool.
    """

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
    axis_type : {"loop", "reduce", "rows"} or None
        None for the root, which runs once; each iteration of the outermost loop over "rows" is a run of the core.
    bound : int or IRValue
        Trip count, 1 for the root.
    depth : int
        -1 for the root.
    prologue, body, epilogue : tuple of statements and LoopIR
        In the order of execution.
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
        """Build a level from its items; the root when `counter` is None.

        Parameters
        ----------
        items : tuple of statements and LoopIR
            In the order of execution.
        counter : IRCounter, optional
            The induction variable.
        axis_type : {"loop", "reduce", "rows"}, optional
            Whether iterations are independent, or sum up, or are independent runs.
        """
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

    @property
    def perfect_nest(self) -> tuple[LoopIR, ...]:
        """This loop and those inside it, as far as each is all that is in the one around it."""
        nest = [self]
        while len(nest[-1].items) == 1 and isinstance(inner := nest[-1].items[0], LoopIR):
            nest.append(inner)
        return tuple(nest)

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
    """A global buffer: `depth` elements of `dtype`, slot `idx` of the kernel.

    Parameters
    ----------
    idx : int
        Slot of the kernel.
    depth : int
        Number of elements.
    dtype : DType
        Of the elements.
    is_output : bool
        Whether the kernel writes it.
    name : str
        Empty where the program gives none.
    """

    idx: int
    depth: int
    dtype: DType
    is_output: bool
    name: str = ""


@dataclass(frozen=True)
class RegisterMeta:
    """An accumulator, or an array of `size` of them; `origin` is the register that a lane's copy stands for.

    Parameters
    ----------
    idx : int
        Number of the register.
    dtype : DType
        Of its elements.
    size : int
        Elements of an array of registers; 1 for an accumulator.
    origin : int, optional
        Number of the register that this one is a lane's copy of.
    """

    idx: int
    dtype: DType
    size: int = 1
    origin: int | None = None


def operands(node: IRValue | IRStatement) -> tuple[IRValue, ...]:
    """Values that a node reads directly, in a fixed order."""
    match node:
        case IROp():
            return node.srcs
        case IRBufLoad():
            return tuple(v for v in (node.addr, node.gate, node.alt) if v is not None)
        case IRRegLoad():
            return () if node.index is None else (node.index,)
        case IRBufStore():
            return tuple(v for v in (node.addr, node.value, node.gate) if v is not None)
        case IRRegStore():
            return tuple(v for v in (node.value, node.index, node.gate) if v is not None)
    return ()


def values_below(roots: Iterable[IRValue], stop: Collection[IRValue] = ()) -> dict[IRValue, None]:
    """The values and all that they reach through pure ops and through the addresses of loads, each once.

    Parameters
    ----------
    roots : iterable of IRValue
    stop : collection of IRValue, optional
        Values whose operands are not followed.
    """
    seen: dict[IRValue, None] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen[value] = None
        if value not in stop:
            stack.extend(operands(value))
    return seen


def loads_used_by(roots: tuple[IRValue, ...], stop: Collection[IRValue] = ()) -> list[IRBufLoad | IRRegLoad]:
    """Loads that the values reach through pure ops and through the addresses of other loads.

    Parameters
    ----------
    roots : tuple of IRValue
    stop : collection of IRValue, optional
        Values whose operands are not followed.
    """
    return [v for v in values_below(roots, stop) if isinstance(v, IRBufLoad | IRRegLoad)]


def const_int(value: int, dtype: DType = DType.INT32) -> IRConst:
    """Integer literal, wrapped into its type.

    Parameters
    ----------
    value : int
        Any integer; it is wrapped modulo 2^bit_width.
    dtype : DType, optional
        Integer type or bool.
    """
    return IRConst(dtype.wrap(value), dtype)


def is_const(value: IRValue | None, number: int | bool) -> bool:
    """Whether a value is this integer or bool literal.

    Parameters
    ----------
    value : IRValue or None
    number : int or bool
        Compared as an integer: 1 is also True.
    """
    return isinstance(value, IRConst) and not value.dtype.is_float and int(value.value) == int(number)
