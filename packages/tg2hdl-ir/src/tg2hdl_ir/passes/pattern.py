"""Patterns of ops, for rewrites.

IR nodes compare by identity, so that ``op.srcs[1] == IRConst(1, dtype)`` is never true.  A pattern compares nodes by
content: ops by name, literals by the bits of their value.

>>> from tg2hdl_ir.passes.pattern import const, op, rewrite, value
>>> average = op("shr", op("add", value("a"), value("b")), const(1))

``rewrite(kernel, average, make)`` calls ``make(node, a=..., b=...)`` for each match and puts its result there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import IRConst, IROp, IRValue, KernelIR
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["Pattern", "const", "op", "rewrite", "value"]

COMMUTATIVE = frozenset(("add", "mul", "and", "or", "xor", "max", "min", "eq", "ne"))
Bindings = dict[str, IRValue]


@dataclass(frozen=True)
class Pattern:
    """A form of values.  Make one with `op`, `const` and `value`.

    Parameters
    ----------
    op : str
        Name of the op; empty for a literal or any value.
    operands : tuple of Pattern
        Of the op; those of a commutative one match in either order.
    literal : int or float, optional
        Number of a literal, in any type.
    name : str
        Under which the value is given to the rewrite; one name twice matches the same value only.
    """

    op: str = ""
    operands: tuple[Pattern, ...] = ()
    literal: int | float | None = None
    name: str = ""

    def match(self, node: IRValue) -> Bindings | None:
        """Values by name when a node has this form, else None."""
        return self._match(node, {})

    def _match(self, node: IRValue, found: Bindings) -> Bindings | None:
        if self.name:
            if self.name in found:
                return found if found[self.name] is node else None
            found = {**found, self.name: node}
        if self.literal is not None:
            same = isinstance(node, IRConst) and _same_number(node, self.literal)
            return found if same else None
        if not self.op:
            return found
        if not isinstance(node, IROp) or node.op != self.op or len(node.srcs) != len(self.operands):
            return None
        swapped = len(node.srcs) == 2 and node.op in COMMUTATIVE
        for sources in (node.srcs, node.srcs[::-1]) if swapped else (node.srcs,):
            bound: Bindings | None = found
            for pattern, source in zip(self.operands, sources, strict=True):
                bound = None if bound is None else pattern._match(source, bound)
            if bound is not None:
                return bound
        return None


def _same_number(node: IRConst, number: int | float) -> bool:
    if node.dtype.is_float:
        return node.dtype.const_to_bits(node.value) == node.dtype.const_to_bits(number)
    return int(node.value) == number


def op(name: str, *operands: Pattern, bind: str = "") -> Pattern:
    """Op of a name, whose operands have forms of their own.

    Parameters
    ----------
    name : str
    *operands : Pattern
        One pattern for each operand.
    bind : str, optional
        Name under which a match returns the op.
    """
    return Pattern(op=name, operands=operands, name=bind)


def const(number: int | float) -> Pattern:
    """Literal of a number; of a float type, of the nearest value."""
    return Pattern(literal=number)


def value(name: str) -> Pattern:
    """Any value."""
    return Pattern(name=name)


def rewrite(kernel: KernelIR, pattern: Pattern, make: Callable[..., IRValue | None]) -> KernelIR:
    """Replace all ops of a form; the same kernel when there is none.

    Parameters
    ----------
    make : callable
        ``(node, **values by name) -> value or None``; None leaves the op as it is.
    """
    count = 0

    def replaced(node: IROp) -> IRValue | None:
        nonlocal count
        found = pattern.match(node)
        new = None if found is None else make(node, **found)
        count += new is not None
        return new

    tree = Rewriter(replace=replaced).loop(kernel.loop_tree)
    return replace(kernel, loop_tree=tree) if count else kernel
