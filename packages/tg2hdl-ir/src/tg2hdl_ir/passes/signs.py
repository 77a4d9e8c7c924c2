"""Products with a sign, as in ``x * sign(x)``, without a multiplier."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import IRConst, IROp, IRValue, KernelIR, const_int, is_const
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["choose_signs"]


@ir_pass("choose-signs", "products with -1, 0 or 1 become selections", term="strength reduction")
def choose_signs(kernel: KernelIR) -> KernelIR:
    """Replace integer products of `x` and a multiplexer of -1, 0 and 1 by a multiplexer of -`x`, 0 and `x`."""
    folder = Folder()
    found: list[IROp] = []

    def signed(sign: IRValue, value: IRValue) -> IRValue:
        if isinstance(sign, IROp):
            condition, *choices = sign.srcs
            return folder.op("where", sign.dtype, condition, *(signed(s, value) for s in choices))
        if is_const(sign, 0):
            return const_int(0, value.dtype)
        return value if is_const(sign, 1) else folder.op("neg", value.dtype, value)

    def chosen(op: IROp) -> IRValue | None:
        if op.op != "mul" or op.dtype.is_float or op.dtype.is_bool:
            return None
        for sign, value in (op.srcs, op.srcs[::-1]):
            if isinstance(sign, IROp) and _is_sign(sign):
                found.append(op)
                return signed(sign, value)
        return None

    rewriter = Rewriter(folder, replace=chosen)
    tree = rewriter.loop(kernel.loop_tree)
    return replace(kernel, loop_tree=tree) if found else kernel


def _is_sign(value: IRValue) -> bool:
    """Whether a value only selects among the constants -1, 0 and 1."""
    if isinstance(value, IROp):
        return value.op == "where" and not value.dtype.is_bool and all(map(_is_sign, value.srcs[1:]))
    return isinstance(value, IRConst) and any(is_const(value, n) for n in (-1, 0, 1))
