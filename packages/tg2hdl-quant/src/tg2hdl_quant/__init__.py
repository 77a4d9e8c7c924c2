"""Post-training quantization for integer hardware."""

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
