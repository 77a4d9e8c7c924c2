"""IEEE-754 floating-point cores in Amaranth: pipelined, correctly rounded, any format; and the parts to make others.

Names are imported when they are first used, so that loading the package costs nothing.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "accumulator": ("Accumulator",),
    "add": ("Add", "Sub"),
    "carry_save": ("compress",),
    "binade_function": ("Atan", "Erf", "Tanh"),
    "catalog": ("CATALOG", "CatalogEntry"),
    "classify": ("CLASSES", "Classify"),
    "compare": ("PREDICATES", "Compare"),
    "compat": (
        "FP32Add",
        "FP32Cmp",
        "FP32Exp2",
        "FP32FDiv",
        "FP32Fma",
        "FP32Log2",
        "FP32Mul",
        "FP32Reciprocal",
        "FP32Rsqrt",
        "FP32Sin",
        "FP32SinTurns",
        "FP32Sqrt",
    ),
    "composed": ("Atan2", "Hypot", "Pow", "Sigmoid"),
    "core": ("FLAGS", "TARGETS", "Core"),
    "div": ("Div",),
    "dot": ("ComplexMul", "DotProduct"),
    "errors": ("FloatParameterError", "FloatTypeError"),
    "exp2": ("Exp2",),
    "float_to_float": ("FloatToFloat",),
    "float_to_int": ("OVERFLOWS", "FloatToInt"),
    "fma": ("Fma", "Fmsub", "Fnmadd", "Fnmsub"),
    "format": (
        "BF16",
        "FORMATS",
        "FP16",
        "FP32",
        "FP64",
        "FP8_E4M3",
        "FP8_E5M2",
        "FloatValue",
        "Format",
        "format_by_name",
    ),
    "fused": ("FusedSum",),
    "iterative": ("IterativeDiv", "IterativeSqrt"),
    "logarithm": ("Ln", "Log10"),
    "log2": ("Log2",),
    "int_to_float": ("IntToFloat",),
    "mac": ("MultiplyAccumulate",),
    "minmax": ("MINMAX_VARIANTS", "MinMax"),
    "modes": ("RoundingMode",),
    "mul": ("Mul",),
    "mul_constant": ("MulConstant",),
    "multiplier": ("multiply",),
    "normalizing": ("normalize_unpacked",),
    "pipeline": ("Pipeline",),
    "power": ("Exp", "Exp10"),
    "reciprocal": ("Reciprocal",),
    "rsqrt": ("Rsqrt",),
    "scaled_result": ("round_scaled",),
    "shifting": ("leading_zeros", "shift_left", "shift_right_sticky"),
    "sign": ("Abs", "Neg", "NonZero"),
    "sin": ("Cos", "Sin", "SinCos"),
    "sin_turns": ("SinTurns",),
    "sqrt": ("Sqrt",),
    "stream": ("StreamCore",),
    "timing": ("PROFILES", "add_delay", "lut_delay", "reduce_delay"),
    "to_integral": ("RoundToIntegral",),
    "typed": ("Typed", "connect"),
    "unpacked": ("unpack",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
