"""How many multiplications a kernel executes."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.nodes import (
    IRBufStore,
    IRCounter,
    IROp,
    IRRegStore,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)

__all__ = ["count_macs"]

_MULTIPLYING = ("mul", "mulacc")


def count_macs(kernel: KernelIR, variables: Mapping[str, int] | None = None) -> int:
    """Multiplications of data in one run: multiply ops in stored values, times the trips of their loops.

    Address arithmetic does not count.
    """
    return _in_loop(kernel.loop_tree, variables or {}, set())


def _in_loop(loop: LoopIR, variables: Mapping[str, int], seen: set[int]) -> int:
    inside = 0
    for item in loop.items:
        inside += _in_loop(item, variables, seen) if isinstance(item, LoopIR) else _in_statement(item, seen)
    return inside * _trips(loop.bound, variables)


def _in_statement(statement: IRStatement, seen: set[int]) -> int:
    if not isinstance(statement, IRBufStore | IRRegStore):
        return 0
    count, pending = 0, [statement.value]
    while pending:
        value = pending.pop()
        if isinstance(value, IROp) and id(value) not in seen:
            seen.add(id(value))
            count += value.op in _MULTIPLYING and not all(_is_index(s) for s in value.srcs)
            pending.extend(value.srcs)
    return count


def _is_index(value: IRValue) -> bool:
    return isinstance(value, IRCounter | IRVariable)


def _trips(bound: int | IRValue, variables: Mapping[str, int]) -> int:
    if isinstance(bound, int):
        return bound
    from tg2hdl_lower.plan.bounds import bound_value

    return bound_value(bound, dict(variables))
