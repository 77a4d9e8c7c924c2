"""Divide, square root and the elementary functions, as the catalog lists them."""

__all__ = ["FUNCTIONS", "MODELLED"]

_TABLES = ("FP32", "FP16", "BF16")
_ANY = ("FP32", "FP16", "BF16", "FP64", "FP8_E4M3", "FP8_E5M2")

#: Operation of the compiler's IR, core, formats, number of operands, accuracy.
FUNCTIONS: tuple[tuple[str, str, tuple[str, ...], int, str], ...] = (
    ("div", "Div", _ANY, 2, "correctly rounded"),
    ("sqrt", "Sqrt", _ANY, 1, "correctly rounded"),
    ("reciprocal", "Reciprocal", _TABLES, 1, "1 ULP"),
    ("exp2", "Exp2", _TABLES, 1, "1 ULP"),
    ("log2", "Log2", _TABLES, 1, "1 ULP"),
    ("sin", "Sin", _TABLES, 1, "1 ULP"),
)

#: Operations whose cores are not correctly rounded; `tg2hdl_fp32.golden` has a function of the same bits for each.
MODELLED = frozenset(("exp2", "log2", "reciprocal", "sin"))
