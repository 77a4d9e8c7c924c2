"""The innermost levels of a loop tree, which hold the statements of a flattened kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tg2hdl_ir.nodes import LoopIR

__all__ = ["leaf_paths", "replace_leaves"]


def leaf_paths(loop: LoopIR, above: tuple[LoopIR, ...] = ()) -> Iterator[tuple[LoopIR, ...]]:
    """Levels from the root to each leaf, in program order.

    Parameters
    ----------
    loop : LoopIR
    above : tuple of LoopIR, optional
        Levels outside `loop`, outermost first.
    """
    path = (*above, loop)
    if not loop.loops:
        yield path
    for inner in loop.loops:
        yield from leaf_paths(inner, path)


def replace_leaves(loop: LoopIR, leaves: Mapping[int, LoopIR]) -> LoopIR:
    """A flattened tree with other leaves; `leaves` is by the `id` of the old ones, and those not in it are kept.

    Parameters
    ----------
    loop : LoopIR
    leaves : mapping of int to LoopIR
        New leaves by the ``id`` of the old ones.
    """
    if not loop.loops:
        return leaves.get(id(loop), loop)
    items = tuple(replace_leaves(inner, leaves) for inner in loop.loops)
    return LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type)
