"""Multiply-accumulate as a multiplication and an addition, which analyses know."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IROp, IRValue, KernelIR
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["expand_mulacc"]


@ir_pass(
    "expand-mulacc", "mulacc becomes a multiplication and an addition", term="lowering of fused operations"
)
def expand_mulacc(kernel: KernelIR) -> KernelIR:
    """Replace ``mulacc(a, b, c)`` by ``add(mul(a, b), c)``; integer results are the same."""
    folder = Folder()
    found: list[IROp] = []

    def expanded(op: IROp) -> IRValue | None:
        if op.op != "mulacc":
            return None
        found.append(op)
        a, b, c = op.srcs
        return folder.op("add", op.dtype, folder.op("mul", op.dtype, a, b), c)

    rewriter = Rewriter(folder, replace=expanded)
    tree = rewriter.loop(kernel.loop_tree)
    return replace(kernel, loop_tree=tree) if found else kernel
