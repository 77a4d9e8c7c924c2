"""Recognize tinygrad's form of the logistic function."""

from __future__ import annotations

import math
from dataclasses import replace

from tg2hdl_ir import DType, IRConst, IROp, IRValue, KernelIR
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["rewrite_sigmoid"]

_FACTOR = DType.FP32.const_to_bits(-1 / math.log(2))
_ONE = DType.FP32.const_to_bits(1.0)


def rewrite_sigmoid(kernel: KernelIR) -> KernelIR:
    """Replace every ``reciprocal(1 + exp2(x * -1/ln 2))`` on fp32 by ``sigmoid(x)``."""
    return replace(kernel, loop_tree=Rewriter(replace=_match).loop(kernel.loop_tree))


def _match(value: IROp) -> IROp | None:
    if value.op != "reciprocal" or value.dtype != DType.FP32:
        return None
    power = _other_operand(value.srcs[0], "add", _ONE)
    if not isinstance(power, IROp) or power.op != "exp2":
        return None
    x = _other_operand(power.srcs[0], "mul", _FACTOR)
    return None if x is None else IROp("sigmoid", DType.FP32, (x,))


def _other_operand(value: IRValue, op: str, constant: int) -> IRValue | None:
    """Return x of ``op(x, constant)`` or ``op(constant, x)``."""
    if isinstance(value, IROp) and value.op == op:
        for this, other in (value.srcs, value.srcs[::-1]):
            if isinstance(this, IRConst) and DType.FP32.const_to_bits(this.value) == constant:
                return other
    return None
