"""Registration of the quantization methods; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir.plugins.descriptors import QuantizerDef
from tg2hdl_ir.plugins.hookspecs import hookimpl

__all__ = ["tg2hdl_quantizers"]


@hookimpl
def tg2hdl_quantizers() -> list[QuantizerDef]:
    """Symmetric per-tensor quantization."""
    return [
        QuantizerDef(
            "int8", "symmetric per tensor, scale max|x| / 127", "tg2hdl_quant.symmetric:quantize_int8"
        ),
        QuantizerDef(
            "int16", "symmetric per tensor, scale max|x| / 32767", "tg2hdl_quant.symmetric:quantize_int16"
        ),
    ]
