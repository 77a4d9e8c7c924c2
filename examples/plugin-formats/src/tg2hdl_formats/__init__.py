"""Posit and Microscaling (MX) number formats for tg2hdl.

Names are imported when they are first used, so that loading the plugin imports no hardware library.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "mx_cores": ("MXDot", "MXFromFloat", "MXScale", "MXWordDot"),
    "mx_elements": (
        "BLOCK",
        "E2M1",
        "E2M3",
        "E3M2",
        "E4M3",
        "E5M2",
        "ELEMENTS",
        "INT8",
        "Element",
        "element_values",
        "from_blocks",
        "to_blocks",
        "to_words",
    ),
    "posit": ("POSIT8", "POSIT16", "POSIT32", "Posit"),
    "posit_cores": (
        "PositAdd",
        "PositCompare",
        "PositDiv",
        "PositFromFloat",
        "PositMul",
        "PositResize",
        "PositSub",
        "PositToFloat",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
