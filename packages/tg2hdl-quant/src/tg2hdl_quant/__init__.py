"""Post-training quantization for integer hardware.

Names are imported when they are first used: the plugin module of this package must not bring in numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_quant.layers import Conv2D, Dense, Flatten, Layer, MaxPool2D, QuantizedLayer, ReLU
    from tg2hdl_quant.patterns import bits_to_float, float_to_bits
    from tg2hdl_quant.post_training import QuantizedNetwork, quantize_network, run_float
    from tg2hdl_quant.symmetric import dequantize, quantize_int8, quantize_int16, quantize_symmetric

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

_MODULES = {
    "layers": ("Conv2D", "Dense", "Flatten", "Layer", "MaxPool2D", "QuantizedLayer", "ReLU"),
    "patterns": ("bits_to_float", "float_to_bits"),
    "post_training": ("QuantizedNetwork", "quantize_network", "run_float"),
    "symmetric": ("dequantize", "quantize_int8", "quantize_int16", "quantize_symmetric"),
}
_OWNERS = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)
