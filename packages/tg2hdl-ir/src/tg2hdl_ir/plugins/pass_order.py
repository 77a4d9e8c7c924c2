"""The order of rewrites: by stage, and in it as registered, but for those that name another one."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_ir.plugins.descriptors import PASS_STAGES, PassDef

__all__ = ["in_order"]


def in_order(passes: Sequence[PassDef]) -> tuple[list[PassDef], list[PassDef]]:
    """Rewrites in the order in which they run.

    Parameters
    ----------
    passes : sequence of PassDef
        Passes with neither `before` nor `after` keep their order in a stage.

    Returns
    -------
    ordered : list of PassDef
    misplaced : list of PassDef
        Those whose `before` or `after` names none of their stage, or one another.
    """
    stages = list(PASS_STAGES)
    ordered = sorted((p for p in passes if not p.anchor), key=lambda p: stages.index(p.place))
    waiting = [p for p in passes if p.anchor]
    while waiting:
        known = {(p.place, p.name) for p in ordered}
        ready = [p for p in waiting if (p.place, p.anchor) in known]
        if not ready:
            break
        # Several at one place keep their order.
        for each in (*(p for p in ready if p.before), *(p for p in reversed(ready) if p.after)):
            at = next(n for n, p in enumerate(ordered) if (p.place, p.name) == (each.place, each.anchor))
            ordered.insert(at if each.before else at + 1, each)
        waiting = [p for p in waiting if p not in ready]
    return ordered, waiting
