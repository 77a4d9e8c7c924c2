"""An op with combinational hardware, and the pass that finds it: addition of bytes that stops at the limits."""

from __future__ import annotations

from typing import Any

import numpy as np
from amaranth import Mux

from tg2hdl_ir import DType, IROp, IRValue, KernelIR, OpDef, OpLowering, PassDef, hookimpl
from tg2hdl_ir.passes.pattern import const, op, rewrite, value


def result_type(operands: tuple[DType, ...]) -> DType | None:
    """Two bytes give a byte."""
    return DType.INT8 if operands == (DType.INT8, DType.INT8) else None


def evaluate(arrays: tuple[np.ndarray, ...], operands: tuple[DType, ...], result: DType) -> Any:
    """What the hardware gives, bit for bit."""
    return np.clip(arrays[0].astype(np.int16) + arrays[1], -128, 127).astype(np.int8)


def build(m: Any, operands: list[Any], types: tuple[DType, ...], result: DType) -> Any:
    """Sum with a bit more; its two highest bits say when it is beyond a limit."""
    total = (operands[0] + operands[1]).as_unsigned()
    return Mux(total[8] == total[7], total[:8], Mux(total[8], 128, 127)).as_signed()


# How versions of tinygrad write (a.cast("int32") + b.cast("int32")).clip(-128, 127).
WIDE = op("add", op("cast", value("a")), op("cast", value("b")))
LOWERS = (op("max", WIDE, const(-128)), op("where", op("lt", WIDE, const(-128)), const(-128), WIDE))
FORMS = tuple(op("where", op("lt", const(127), lower), const(127), lower) for lower in LOWERS)


def find(kernel: KernelIR) -> KernelIR:
    """Replace each form by the op."""
    for form in FORMS:
        kernel = rewrite(kernel, form, _saturated)
    return kernel


def _saturated(node: IROp, a: IRValue, b: IRValue) -> IRValue | None:
    if a.dtype != DType.INT8 or b.dtype != DType.INT8:
        return None
    return IROp("cast", node.dtype, (IROp("myext.add_sat", DType.INT8, (a, b)),))


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """The op; its name has a namespace, because names of this project cannot be taken."""
    return [OpDef("myext.add_sat", 2, result_type, evaluate, "a + b within -128 and 127")]


@hookimpl
def tg2hdl_op_lowerings() -> list[OpLowering]:
    """Its hardware: a carry chain of 9 bits and a multiplexer, about two LUT levels."""
    return [OpLowering("myext.add_sat", "myext.add_sat", lambda types, result: True, build, lambda *types: 2)]


@hookimpl
def tg2hdl_passes() -> list[PassDef]:
    """The rewrite; golden results are those of the op from here on."""
    return [PassDef("myext.saturate", "clipped sums of bytes become myext.add_sat", find)]
