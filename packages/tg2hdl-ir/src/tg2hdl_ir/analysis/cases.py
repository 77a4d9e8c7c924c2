"""Cases: the iterations in which an operation is needed, where choices between values depend on counters only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tg2hdl_ir.nodes import IRBufLoad, IRConst, IROp, IRRegLoad, IRValue, IRVariable
from tg2hdl_ir.tree import values_below

__all__ = ["ALWAYS", "Cases", "cases_of", "is_product"]

MAX_CASES = 8
"""Cases of a value; one with more is taken as needed in every iteration."""

Cases: TypeAlias = frozenset[frozenset[tuple[IRValue, bool]]]
"""Conjunctions of conditions and their truth; a value is needed where one of them holds."""

ALWAYS: Cases = frozenset((frozenset(),))


def cases_of(roots: Iterable[IRValue]) -> dict[IRValue, Cases]:
    """Cases of all operations of expressions whose results are always needed; operands come after their users.

    Loads are leaves: their addresses, gates and alternatives are not visited.
    """
    roots = list(roots)
    found: dict[IRValue, Cases] = dict.fromkeys(roots, ALWAYS)
    for value in reversed(_operands_first(roots)):
        if not isinstance(value, IROp):
            continue
        cases, condition = found.pop(value), value.srcs[0]
        found[value] = cases
        chooses = value.op == "where" and not _depends_on_data(condition)
        for number, source in enumerate(value.srcs):
            own = cases
            if chooses and number:
                own = frozenset(case | {(condition, number == 1)} for case in cases)
            own |= found.get(source, frozenset())
            found[source] = ALWAYS if frozenset() in own or len(own) > MAX_CASES else own
    return found


def is_product(value: IRValue) -> bool:
    """Whether a value is the product of two values that are not constants."""
    return (
        isinstance(value, IROp)
        and value.op in ("mul", "mulacc")
        and not any(isinstance(source, IRConst) for source in value.srcs[:2])
    )


def _operands_first(roots: Iterable[IRValue]) -> list[IRValue]:
    order: dict[IRValue, None] = {}
    pending = [(root, False) for root in roots]
    while pending:
        value, done = pending.pop()
        if done:
            order[value] = None
        elif value not in order:
            pending.append((value, True))
            pending += [(s, False) for s in value.srcs] if isinstance(value, IROp) else []
    return list(order)


def _depends_on_data(value: IRValue) -> bool:
    return any(isinstance(v, IRBufLoad | IRRegLoad | IRVariable) for v in values_below((value,)))
