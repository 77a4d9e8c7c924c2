"""Emits vector instructions at the place where their operands allow it: outside of loops when possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.code import Code, CodeBlock, Label, Line, RowPlace, Rows
from tg2hdl_tpu.isa import PRE, XLU

__all__ = ["Emitter", "LaneConstant", "Value", "Vector"]

CROSSBAR = PRE.index("xlu")
#: Address registers; nothing keeps one for longer than a few lines.
EXTERNAL, WORD, ROW, SEGMENT, GATE, BRANCH = 1, 2, 3, 4, 5, 7
#: Operations with their operands exchanged.
SWAPPED = {
    **{op: op for op in ("add", "mul", "and", "or", "xor", "eq", "ne", "fadd", "fmul", "feq", "fne")},
    **{op: op for op in ("max", "min", "maxu", "minu")},
    **{"sub": "rsub", "fsub": "frsub", "fdiv": "frdiv"},
}


@dataclass(frozen=True)
class LaneConstant:
    """The same 32 bits in every lane, as int32."""

    bits: int


@dataclass(frozen=True, eq=False)
class Vector:
    """Rows of VMEM: an element for each thread, or the same one in all lanes of one row.

    Parameters
    ----------
    rows : Rows
    uniform : bool
        One row whose lanes are all the same.
    level : int
        The scope that computes it.
    """

    rows: Rows
    uniform: bool
    level: int


Value = LaneConstant | Vector


class Emitter:
    """Code with a stack of scopes; scope 0 is the whole program."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.code = Code()
        self.scopes = [self.code.root]
        self.threads = 1  # rows of a vector that is not uniform

    @property
    def depth(self) -> int:
        """The innermost scope."""
        return len(self.scopes) - 1

    def line(self, op: str, level: int | None = None, **parts: object) -> None:
        """Append an instruction.

        Parameters
        ----------
        op : str
            Name of the instruction.
        level : int or None
            Scope; the innermost by default.
        **parts : object
            Parts and fields of `Line`.
        """
        fields = {k: v for k, v in parts.items() if k not in ("dst", "a", "b", "slot", "target")}
        known = {k: v for k, v in parts.items() if k in ("dst", "a", "b", "slot", "target")}
        self.scopes[self.depth if level is None else level].items.append(Line(op, fields=fields, **known))  # type: ignore[arg-type]

    def label(self, level: int | None = None) -> Label:
        """Append a label."""
        found = Label()
        self.place(found, level)
        return found

    def place(self, label: Label, level: int | None = None) -> None:
        """Append this label.

        Parameters
        ----------
        label : Label
        level : int or None
            Scope; the innermost by default.
        """
        self.scopes[self.depth if level is None else level].items.append(label)

    def open(self, *, is_loop: bool) -> None:
        """Begin a scope inside the innermost one."""
        self.scopes.append(CodeBlock(is_loop=is_loop))

    def close(self) -> None:
        """End the innermost scope."""
        block = self.scopes.pop()
        self.scopes[-1].items.append(block)

    # Rows

    def zero(self) -> Rows:
        """A row of zeros."""
        return self.code.constant(np.zeros(self.config.lanes))

    def lanes(self) -> Rows:
        """A row whose lanes hold their numbers."""
        return self.code.constant(np.arange(self.config.lanes))

    def new(self, *, uniform: bool, level: int, keeps: bool = False) -> Vector:
        """Rows for a value.

        Parameters
        ----------
        uniform : bool
            Whether all threads have the same value: one row instead of one for each row of threads.
        level : int
            Scope that assigns it.
        keeps : bool
            Whether the rows stay for the whole program.
        """
        return Vector(Rows(1 if uniform else self.threads, keeps=keeps), uniform, level)

    def vector(self, value: Value, level: int) -> Vector:
        """The value as rows.

        Parameters
        ----------
        value : Value
        level : int
            Scope that assigns a constant.
        """
        if isinstance(value, Vector):
            return value
        result = self.new(uniform=True, level=level)
        self.line(
            "or",
            level,
            dst=RowPlace(result.rows),
            a=RowPlace(self.zero()),
            b=value.bits,
            constant=1,
            count=1,
        )
        return result

    def operate(
        self,
        op: str,
        a: Value,
        b: Value | None = None,
        *,
        into: Vector | None = None,
        level: int = 0,
        **fields: int,
    ) -> Vector:
        """``op(a, b)`` of whole vectors, in the outermost scope that has both operands, and at least in `level`.

        Parameters
        ----------
        op : str
            Name of the instruction.
        a, b : Value
            Operands; `b` may be missing.
        into : Vector or None
            Rows of the result; new ones without it.
        level : int
            Outermost scope that is allowed.
        **fields : int
            Further fields of the instruction.
        """
        operands = [v for v in (a, b) if isinstance(v, Vector)]
        level = max([level, *(v.level for v in operands)])
        uniform = all(v.uniform for v in operands)
        first = self.vector(a, level)
        result = into or self.new(uniform=uniform, level=level)
        count = result.rows.count
        parts: dict[str, object] = dict(fields)
        if isinstance(b, LaneConstant):
            parts |= {"b": b.bits, "constant": 1}
        elif b is not None:
            parts["b"] = RowPlace(b.rows, stride=_stride(b, count))
        self.line(
            op,
            level,
            dst=RowPlace(result.rows, stride=int(count > 1)),
            a=RowPlace(first.rows, stride=_stride(first, count)),
            count=count,
            **parts,
        )
        return result

    def linear(self, const: int, terms: Iterable[tuple[Value, int]]) -> Value:
        """``const`` and the sum of values times factors.

        Parameters
        ----------
        const : int
        terms : iterable of (Value, int)
            Values and their factors.
        """
        total: Value | None = None
        for value, factor in terms:
            if isinstance(value, LaneConstant):
                const += value.bits * factor
            elif factor:
                term = value if factor == 1 else self.operate("mul", value, LaneConstant(factor))
                total = term if total is None else self.operate("add", total, term)
        if total is None:
            return LaneConstant(const)
        return self.operate("add", total, LaneConstant(const)) if const else total

    def copy_into(self, target: Vector, value: Value) -> None:
        """Write a value into the rows of another, now.

        Parameters
        ----------
        target : Vector
            With as many rows as `value`, or more.
        value : Value
        """
        if isinstance(value, LaneConstant):
            zero = Vector(self.zero(), True, 0)
            self.operate("or", zero, value, into=target, level=self.depth)
        else:
            self.operate("copy", value, into=target, level=self.depth)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """``a`` where the condition is not 0, else ``b``.

        Parameters
        ----------
        condition : Value
        a, b : Value
        """
        if isinstance(condition, LaneConstant):
            return a if condition.bits else b
        operands = [v for v in (condition, a, b) if isinstance(v, Vector)]
        level = max(v.level for v in operands)
        result = self.new(uniform=all(v.uniform for v in operands), level=level)
        self.operate("copy", condition, into=result, level=level)
        self.operate("select", a, b, into=result, level=level)
        return result

    def permute(self, a: RowPlace, index: Vector, into: Rows) -> None:
        """Row by row, lanes of `a` in the order of `index`, now.

        Parameters
        ----------
        a : RowPlace
            First row that is read, with the stride to the next.
        index : Vector
            Lane for each lane.
        into : Rows
            Rows of the result.
        """
        self.line(
            "copy",
            dst=RowPlace(into, stride=int(into.count > 1)),
            a=a,
            b=RowPlace(index.rows, stride=_stride(index, into.count)),
            pre=CROSSBAR,
            xlu=XLU.index("permute"),
            count=into.count,
        )

    # Control

    def register(self, number: int, value: Vector) -> None:
        """Set an address register to the first lane of the first row, now.

        Parameters
        ----------
        number : int
            Of the address register.
        value : Vector
        """
        self.line("lda", dst=None, a=RowPlace(value.rows), dst_reg=number, k=0)

    def loop(self, bound: int, body: Callable[[Value], None]) -> None:
        """Run `body` with a uniform counter from 0 to `bound` - 1.

        Parameters
        ----------
        bound : int
            Iterations; none for 0.
        body : callable
            Emits an iteration.
        """
        if bound < 1:
            return
        if bound == 1:
            self.open(is_loop=False)
            body(LaneConstant(0))
            self.close()
            return
        counter = self.new(uniform=True, level=self.depth + 1)
        self.copy_into(counter, LaneConstant(0))
        self.open(is_loop=True)
        top = self.label()
        body(counter)
        self.operate("add", counter, LaneConstant(1), into=counter, level=self.depth)
        rest = self.operate("lt", counter, LaneConstant(bound), level=self.depth)
        self.register(BRANCH, rest)
        self.line("bnz", target=top, a_reg=BRANCH)
        self.close()

    def each_row(self, count: int, step: int, body: Callable[[], None]) -> None:
        """Run `body` for each row, with its number in the register ROW, and `step` times that in SEGMENT.

        Parameters
        ----------
        count : int
            Rows.
        step : int
            Segments from one row to the next.
        body : callable
            Emits the instructions of a row.
        """
        self.line("set", dst_reg=ROW, b=0)
        self.line("set", dst_reg=SEGMENT, b=0)
        self.open(is_loop=count > 1)
        if count > 1:
            self.line("loop", b=count)
        body()
        if count > 1:
            self.line("set", dst_reg=ROW, a_reg=ROW, b=1)
            self.line("set", dst_reg=SEGMENT, a_reg=SEGMENT, b=step)
            self.line("end")
        self.close()


def _stride(value: Vector, count: int) -> int:
    return int(value.rows.count == count and count > 1)
