"""What this distribution contributes; imports neither Amaranth nor numpy."""

from __future__ import annotations

from tg2hdl_ir import Area, ArithmeticUnit, DType, OpDef, PassDef, hookimpl

__all__ = ["tg2hdl_arithmetic_units", "tg2hdl_ops", "tg2hdl_passes"]


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """The op `sigmoid` on fp32."""
    return [
        OpDef(
            "sigmoid",
            1,
            "tg2hdl_sigmoid.golden:result_type",
            "tg2hdl_sigmoid.golden:evaluate",
            "logistic function by a table of 4096 steps",
        )
    ]


@hookimpl
def tg2hdl_passes() -> list[PassDef]:
    """The rewrite of tinygrad's expression."""
    return [
        PassDef(
            "sigmoid",
            "1 / (1 + exp2(x * -1/ln 2)) becomes sigmoid(x)",
            "tg2hdl_sigmoid.rewrite:rewrite_sigmoid",
            changes_numbers=True,
        )
    ]


@hookimpl
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:
    """The table as a pipelined unit."""
    return [
        ArithmeticUnit(
            "fp32.sigmoid.table",
            "sigmoid",
            (DType.FP32,),
            DType.FP32,
            latency=4,
            factory="tg2hdl_sigmoid.unit:SigmoidTable",
            area=Area(lut=150, ff=80, bram=8),
            accuracy="exact (the op is the table)",
        )
    ]
