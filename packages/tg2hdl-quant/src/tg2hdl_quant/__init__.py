"""Post-training quantization for integer hardware.

Names are imported when they are first used: the plugin module of this package must not bring in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_quant.compat import (
        bits_to_float,
        dequantize,
        float_to_bits,
        quantize_int8,
        quantize_int16,
    )
    from tg2hdl_quant.layers import Conv2D, Dense, Flatten, Layer, MaxPool2D, QuantizedLayer, ReLU
    from tg2hdl_quant.post_training import QuantizedNetwork, quantize_network, run_float
    from tg2hdl_quant.symmetric import quantize_symmetric

__all__ = [
    "Conv2D",
    "Dense",
    "Flatten",
    "Layer",
    "MaxPool2D",
    "QuantizedLayer",
    "QuantizedNetwork",
    "ReLU",
    "bits_to_float",
    "dequantize",
    "float_to_bits",
    "quantize_int8",
    "quantize_int16",
    "quantize_network",
    "quantize_symmetric",
    "run_float",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".compat": ("bits_to_float", "dequantize", "float_to_bits", "quantize_int8", "quantize_int16"),
        ".layers": ("Conv2D", "Dense", "Flatten", "Layer", "MaxPool2D", "QuantizedLayer", "ReLU"),
        ".post_training": ("QuantizedNetwork", "quantize_network", "run_float"),
        ".symmetric": ("quantize_symmetric",),
    },
)
