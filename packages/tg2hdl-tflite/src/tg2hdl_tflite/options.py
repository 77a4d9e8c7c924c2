"""Options of operators: the fields of the schema that are read, with their defaults where a file has none."""

from __future__ import annotations

from typing import Any

import tflite

__all__ = ["ACTIVATIONS", "OPTIONS", "read_options"]

ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
"""Fused activations by their number in a file."""

_FUSED = ("FusedActivationFunction",)
_POOL = ("Padding", "StrideW", "StrideH", "FilterWidth", "FilterHeight", *_FUSED)
_RESIZE = ("AlignCorners", "HalfPixelCenters")

#: Table and fields by operator; an operator without options has no entry.
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ADD": ("AddOptions", (*_FUSED, "PotScaleInt16")),
    "AVERAGE_POOL_2D": ("Pool2DOptions", _POOL),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", *_FUSED)),
    "CONV_2D": (
        "Conv2DOptions",
        ("Padding", "StrideW", "StrideH", "DilationWFactor", "DilationHFactor", *_FUSED),
    ),
    "DEPTHWISE_CONV_2D": (
        "DepthwiseConv2DOptions",
        ("Padding", "StrideW", "StrideH", "DilationWFactor", "DilationHFactor", *_FUSED),
    ),
    "DIV": ("DivOptions", _FUSED),
    "FULLY_CONNECTED": ("FullyConnectedOptions", (*_FUSED, "WeightsFormat", "KeepNumDims")),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "GELU": ("GeluOptions", ("Approximate",)),
    "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MAX_POOL_2D": ("Pool2DOptions", _POOL),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "MUL": ("MulOptions", _FUSED),
    "PACK": ("PackOptions", ("Axis", "ValuesCount")),
    "REDUCE_MAX": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MIN": ("ReducerOptions", ("KeepDims",)),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", _RESIZE),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", _RESIZE),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SPLIT": ("SplitOptions", ("NumSplits",)),
    "SPLIT_V": ("SplitVOptions", ("NumSplits",)),
    "STRIDED_SLICE": (
        "StridedSliceOptions",
        ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    ),
    "SUB": ("SubOptions", (*_FUSED, "PotScaleInt16")),
    "SVDF": ("SVDFOptions", ("Rank", *_FUSED)),
    "SUM": ("ReducerOptions", ("KeepDims",)),
    "TRANSPOSE_CONV": ("TransposeConvOptions", ("Padding", "StrideW", "StrideH", *_FUSED)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions",
        ("CellClip", "ProjClip", "TimeMajor", *_FUSED),
    ),
    "UNPACK": ("UnpackOptions", ("Num", "Axis")),
    "VAR_HANDLE": ("VarHandleOptions", ("Container", "SharedName")),
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
}

_EMPTY = b"\x04\x00\x04\x00\x04\x00\x00\x00"
"""A table without fields: its vtable, and the table at byte 4."""


def read_options(operator: Any, name: str) -> dict[str, Any]:
    """Fields of an operator's options by their names.

    Parameters
    ----------
    operator
        Table of the schema.
    name : str
        Of the operator.
    """
    kind, fields = OPTIONS[name]
    table = getattr(tflite, kind)()
    given = operator.BuiltinOptions()
    if given is None or operator.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, kind):
        table.Init(_EMPTY, 4)
    else:
        table.Init(given.Bytes, given.Pos)
    # A schema of an older package may lack a field, such as `Offset` of a slice.
    return {field: getattr(table, field)() for field in fields if hasattr(table, field)}
