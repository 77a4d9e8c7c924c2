"""Products with a sign, as in ``x * sign(x)``, without a multiplier.

A product with 1 or -1 is exact, of floats too.  One with 0 is 0 among integers; among floats it is NaN for an infinity
and has the sign of both operands, so that only the product of a zero with 0 is known: it is that zero.  NaN stays NaN.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tg2hdl_ir.nodes import IRConst, IROp, IRValue, KernelIR, const_int
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["choose_signs"]


@ir_pass("choose-signs", "products with -1, 0 or 1 become selections", term="strength reduction")
def choose_signs(kernel: KernelIR) -> KernelIR:
    """Replace products of `x` and a multiplexer of -1, 0 and 1 by a multiplexer of -`x`, 0 and `x`.

    Of floats, 0 must be what the multiplexer gives where it found `x` to be zero.
    """
    folder = Folder()
    found: list[IROp] = []

    def signed(sign: IRValue, value: IRValue, is_zero: bool = False) -> IRValue | None:
        """The product; None where that is not one of `value`, its negative and a known zero."""
        if isinstance(sign, IROp):
            condition, *choices = sign.srcs
            zeros = [is_zero or _finds_zero(condition, value, holds) for holds in (True, False)]
            yes, no = (signed(s, value, z) for s, z in zip(choices, zeros, strict=True))
            if yes is None or no is None:
                return None
            if zeros == [False, True] and no is value and _keeps_zero(yes, value):
                return yes
            return folder.op("where", sign.dtype, condition, yes, no)
        if number := _number(sign):
            return value if number == 1 else folder.op("neg", value.dtype, value)
        if value.dtype.is_float:
            return value if is_zero else None
        return const_int(0, value.dtype)

    def chosen(op: IROp) -> IRValue | None:
        if op.op != "mul" or op.dtype.is_bool:
            return None
        for sign, value in (op.srcs, op.srcs[::-1]):
            if isinstance(sign, IROp) and _is_sign(sign) and (made := signed(sign, value)) is not None:
                found.append(op)
                return made
        return None

    rewriter = Rewriter(folder, replace=chosen)
    tree = rewriter.loop(kernel.loop_tree)
    return replace(kernel, loop_tree=tree) if found else kernel


def _number(value: IRValue) -> int | float | None:
    """The number of a literal; -0.0, which would change the sign of a zero, is none."""
    if not isinstance(value, IRConst) or value.dtype.is_bool:
        return None
    return None if value.value == 0 and math.copysign(1, value.value) < 0 else value.value


def _is_sign(value: IRValue) -> bool:
    """Whether a value only selects among the constants -1, 0 and 1."""
    if isinstance(value, IROp):
        return value.op == "where" and not value.dtype.is_bool and all(map(_is_sign, value.srcs[1:]))
    return _number(value) in (-1, 0, 1)


def _finds_zero(condition: IRValue, value: IRValue, holds: bool) -> bool:
    """Whether a float is zero where a condition holds, or where it does not."""
    if not value.dtype.is_float or not isinstance(condition, IROp):
        return False
    compared = condition.op == ("eq" if holds else "ne") and value in condition.srcs
    return compared and any(_number(source) == 0 for source in condition.srcs)


def _keeps_zero(made: IRValue, value: IRValue) -> bool:
    """Whether a choice gives zeros as they are: it is the float, or its negative only below zero."""
    if made is value:
        return True
    if not isinstance(made, IROp) or made.op != "where" or made.srcs[2] is not value:
        return False
    condition = made.srcs[0]
    if not isinstance(condition, IROp) or condition.op != "lt":
        return False
    return condition.srcs[0] is value and _number(condition.srcs[1]) == 0
