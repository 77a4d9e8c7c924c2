"""Registration of the quantization methods and of roundings of other runtimes; imports nothing heavy."""

from __future__ import annotations

from tg2hdl_ir import QuantizerDef, RoundingDef, hookimpl

__all__ = ["tg2hdl_quantizers", "tg2hdl_roundings"]

_CALIBRATIONS = (
    ("minmax", "range from the smallest to the largest value"),
    ("percentile", "range that holds 99.99 % of the values"),
    ("mse", "range with the smallest squared error of the quantized values"),
    ("entropy", "range with the smallest Kullback-Leibler divergence of the quantized distribution"),
)
_WEIGHT_ROUNDINGS = (
    ("nearest", "each weight to the nearest code"),
    ("compensated", "codes of weights that take up the errors of each other in the sums on samples (GPTQ)"),
)
_EQUALIZATIONS = (
    (
        "cross-layer",
        "scales of the channels between layers, which balance their ranges with those of the weights",
    ),
)


@hookimpl
def tg2hdl_quantizers() -> list[QuantizerDef]:
    """Symmetric quantization of one tensor, and methods that choose ranges and codes of weights from samples."""
    return [
        QuantizerDef(
            "int8", "symmetric per tensor, scale max|x| / 127", "tg2hdl_quant.symmetric:quantize_int8"
        ),
        QuantizerDef(
            "int16", "symmetric per tensor, scale max|x| / 32767", "tg2hdl_quant.symmetric:quantize_int16"
        ),
        *(
            QuantizerDef(name, description, calibrate=f"tg2hdl_quant.methods:{name}")
            for name, description in _CALIBRATIONS
        ),
        *(
            QuantizerDef(name, description, round_weights=f"tg2hdl_quant.methods:{name}")
            for name, description in _WEIGHT_ROUNDINGS
        ),
        *(
            QuantizerDef(name, description, equalize=f"tg2hdl_quant.methods:{name.replace('-', '_')}")
            for name, description in _EQUALIZATIONS
        ),
    ]


@hookimpl
def tg2hdl_roundings() -> list[RoundingDef]:
    """Roundings of products, as other runtimes compute them."""
    return [
        RoundingDef(
            "onnxruntime",
            "the product with a float32, half to even, as ONNX Runtime",
            "numpy:rint",
            sums="tg2hdl_quant.graph.products:rounded_product",
            product="tg2hdl_quant.graph.requantize:float32_product",
            is_proven=True,
        ),
        RoundingDef(
            "tflite",
            "a doubling high product, then a shift, as TensorFlow Lite: two roundings",
            "numpy:rint",
            sums="tg2hdl_quant.graph.requantize:doubling_codes",
            product="tg2hdl_quant.graph.requantize:doubling_product",
            any_scale=True,
            is_proven=True,
        ),
    ]
