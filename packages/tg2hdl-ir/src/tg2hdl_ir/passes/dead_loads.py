"""Removing loads that no store uses."""

from __future__ import annotations

from tg2hdl_ir.nodes import IRBufLoad, IRRegLoad, LoopIR
from tg2hdl_ir.tree import loads_used_by, operands

__all__ = ["without_dead_loads"]


def without_dead_loads(tree: LoopIR) -> LoopIR:
    """The loop tree without dead loads."""
    stores = [s for s in tree.statements() if not isinstance(s, IRBufLoad | IRRegLoad)]
    live = set(loads_used_by(tuple(v for s in stores for v in operands(s))))

    def kept(level: LoopIR) -> LoopIR:
        items = (kept(item) if isinstance(item, LoopIR) else item for item in level.items)
        left = tuple(i for i in items if not isinstance(i, IRBufLoad | IRRegLoad) or i in live)
        return LoopIR.from_items(left, counter=level.counter, axis_type=level.axis_type)

    return kept(tree)
