"""Initial values of integer maxima and minima: selected in parallel with the comparison instead of before it."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRConst, IROp, IRRegLoad, IRValue, KernelIR
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["choose_initial_late"]


@ir_pass("choose-initial-late", "initial values of extrema are selected beside the comparison")
def choose_initial_late(kernel: KernelIR) -> KernelIR:
    """Rewrite ``max(where(first, initial, r), x)`` to ``where(first, x, max(r, x))``; likewise for min.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, registers forwarded.
    """
    folder = Folder()
    rewriter = Rewriter(folder, replace=lambda op: _late(op, folder))
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))


def _late(node: IROp, folder: Folder) -> IRValue | None:
    if node.op not in ("max", "min") or node.dtype.is_float or node.dtype.is_bool:
        return None
    for carried, other in (node.srcs, node.srcs[::-1]):
        if not isinstance(carried, IROp) or carried.op != "where":
            continue
        first, initial, before = carried.srcs
        if isinstance(initial, IRConst) and isinstance(before, IRRegLoad):
            neutral = node.dtype.min_value if node.op == "max" else node.dtype.max_value
            begun = other if initial.value == neutral else folder.op(node.op, node.dtype, initial, other)
            going_on = folder.op(node.op, node.dtype, before, other)
            return folder.op("where", node.dtype, first, begun, going_on)
    return None
