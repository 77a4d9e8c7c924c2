"""Printed form of loop trees; `tg2hdl_ir.parser` reads it back.

::

    kernel gemv
      b0 out: int32[2] output
      b1 x: int8[3]
      r0: int32
     0  RANGE i0 < 2 loop
     1    SET r0 = 0:int32
     2    RANGE i1 < 3 reduce
     3      %0 = LOAD int8 b1[i1]
     ...

Ops, loads and register reads are ``%n``; counters are ``i<axis>``, variables ``$name``, literals ``value:type``.
An op is printed before the first statement that uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tg2hdl_ir.tree import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRStatement,
    IRValue,
    IRVariable,
    LoopIR,
    RegisterMeta,
    operands,
)

__all__ = ["describe", "format_body", "format_variable", "quote"]

_PLAIN = re.compile(r"[A-Za-z_][\w.\-]*\Z")


def format_body(
    name: str,
    buffers: tuple[BufferMeta, ...],
    registers: tuple[RegisterMeta, ...],
    variables: tuple[IRVariable, ...],
    tree: LoopIR,
) -> str:
    """Print the parts of a kernel.

    Parameters
    ----------
    name : str
    buffers : tuple of BufferMeta
    registers : tuple of RegisterMeta
    variables : tuple of IRVariable
    tree : LoopIR
        Root of the loop nest; its counters need no order.
    """
    lines = [f"kernel {quote(name)}"]
    for b in buffers:
        label = f" {quote(b.name)}" if b.name else ""
        lines.append(f"  b{b.idx}{label}: {b.dtype}[{b.depth}]{' output' if b.is_output else ''}")
    for r in registers:
        lines.append(f"  r{r.idx}: {r.dtype}" + (f"[{r.size}]" if r.size != 1 else ""))
    lines.extend(f"  {format_variable(v)}" for v in variables)
    body = list(_Printer().loop(tree, 0))
    width = len(str(len(body)))
    lines.extend(f"{n:>{width + 1}}  {line}" for n, line in enumerate(body))
    return "\n".join(lines) + "\n"


def describe(node: IRValue | IRStatement, depth: int = 3) -> str:
    """One-line expression of a node for messages; deeper operands are shortened to ``...``.

    Parameters
    ----------
    node : IRValue or IRStatement
    depth : int, default 3
        Levels of operands that are printed.
    """
    if isinstance(node, IRConst | IRCounter | IRVariable):
        return _leaf(node)
    if depth == 0:
        return "..."
    inner = {v: describe(v, depth - 1) for v in operands(node)}
    if isinstance(node, IROp):
        return f"{node.op}({', '.join(inner[s] for s in node.srcs)}):{node.dtype}"
    return _statement(node, inner)


def quote(name: str) -> str:
    """Return a name as it is printed: in JSON quotes unless it is plain."""
    return name if _PLAIN.match(name) else json.dumps(name)


def format_variable(v: IRVariable) -> str:
    """Declaration of a run-time variable."""
    return f"${v.name}: {v.dtype} {v.low}..{v.high}"


def _leaf(value: IRConst | IRCounter | IRVariable) -> str:
    match value:
        case IRCounter():
            return f"i{value.axis}"
        case IRVariable():
            return f"${value.name}"
    if value.dtype.is_bool:
        text = str(bool(value.value)).lower()
    elif isinstance(value.value, int):
        text = str(int(value.value))
    else:
        text = repr(float(value.value))
    return f"{text}:{value.dtype}"


def _statement(node: IRStatement, text: dict[IRValue, str]) -> str:
    """Line of a statement; loads without the name of their result."""
    gate = "" if isinstance(node, IRRegLoad) or node.gate is None else f" if {text[node.gate]}"
    match node:
        case IRBufLoad():
            alt = "" if node.alt is None else f" else {text[node.alt]}"
            ahead = f" forwarded {node.forwarded}" if node.forwarded else ""
            return f"LOAD {node.dtype} b{node.buf_idx}[{text[node.addr]}]{gate}{alt}{ahead}"
        case IRBufStore():
            return f"STORE {node.dtype} b{node.buf_idx}[{text[node.addr]}] = {text[node.value]}{gate}"
    index = "" if node.index is None else f"[{text[node.index]}]"
    if isinstance(node, IRRegLoad):
        return f"GET {node.dtype} r{node.reg}{index}"
    return f"SET r{node.reg}{index} = {text[node.value]}{gate}"


class _Printer:
    def __init__(self) -> None:
        self.names: dict[IRValue, str] = {}
        self.count = 0

    def loop(self, loop: LoopIR, level: int) -> Iterator[str]:
        indent = "  " * level
        for item in loop.items:
            if isinstance(item, LoopIR):
                assert item.counter is not None, "only the root has no counter"
                bound = item.bound
                if not isinstance(bound, int):
                    yield from self.define((bound,), indent)
                limit = bound if isinstance(bound, int) else self.names[bound]
                dtype = "" if item.counter.dtype.name == "int32" else f":{item.counter.dtype}"
                yield f"{indent}RANGE i{item.counter.axis}{dtype} < {limit} {item.axis_type}"
                yield from self.loop(item, level + 1)
                yield f"{indent}END i{item.counter.axis}"
            else:
                yield from self.define(operands(item), indent)
                line = _statement(item, self.names)
                if isinstance(item, IRBufLoad | IRRegLoad):
                    line = f"{self.number(item)} = {line}"
                yield indent + line

    def number(self, value: IRValue) -> str:
        self.names[value] = f"%{self.count}"
        self.count += 1
        return self.names[value]

    def define(self, values: tuple[IRValue, ...], indent: str) -> Iterator[str]:
        """Lines of the ops that are not printed yet, operands first."""
        stack = [(v, False) for v in reversed(values)]
        while stack:
            node, ready = stack.pop()
            if node in self.names:
                continue
            if isinstance(node, IRConst | IRCounter | IRVariable):
                self.names[node] = _leaf(node)
            elif not isinstance(node, IROp):
                self.names[node] = "%?"
            elif ready:
                sources = ", ".join(self.names[s] for s in node.srcs)
                yield f"{indent}{self.number(node)} = {node.op} {node.dtype} {sources}"
            else:
                stack.append((node, True))
                stack.extend((s, False) for s in reversed(node.srcs))
