"""Operators that no hardware of fixed sizes computes: why, and what to do instead."""

from __future__ import annotations

__all__ = ["REFUSALS"]

_BOXES = (
    "how many boxes it keeps depends on the data",
    "cut the file before it (onnx.utils.extract_model) and choose among boxes and scores on the host",
)
_SIZE = (
    "the shape of its result depends on the data",
    "compute it on the host, or write the model with a mask (Where) in place of a selection",
)
_RANDOM = ("hardware has no random numbers", "make the random tensor an input of the model")
_TEXT = ("it computes with text", "do this step on the host, and make its numbers the input of the model")
_FLOAT = (
    "its codes have other scales in every step",
    "leave it in float: quantize_dynamic(..., op_types_to_quantize=['MatMul', 'Conv', 'Gemm'])",
)
_FUSED = (
    "ONNX Runtime fused it from simpler operators",
    "compile the file that was optimized, as it was before",
)

REFUSALS: dict[tuple[str, str], tuple[str, str]] = {
    ("", "NonMaxSuppression"): _BOXES,
    **{("", name): _SIZE for name in ("NonZero", "Unique")},
    **{
        ("", name): _RANDOM
        for name in (
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        )
    },
    **{
        ("", name): _TEXT
        for name in ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer")
    },
    ("", "SimplifiedLayerNormalization"): _FUSED,
    **{
        ("com.microsoft", name): _FUSED
        for name in (
            "GroupQueryAttention",
            "MultiHeadAttention",
            "NhwcMaxPool",
            "RotaryEmbedding",
            "SkipSimplifiedLayerNormalization",
        )
    },
    **{
        ("com.microsoft", name): _FLOAT
        for name in ("DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization")
    },
}
"""Reason and hint by domain and operator; a plugin's definition comes first."""
