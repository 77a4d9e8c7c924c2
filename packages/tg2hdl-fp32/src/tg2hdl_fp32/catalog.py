"""The cores that the compiler may use, as plain data; importing this imports no hardware library.

Latencies are kept in ``latencies.json``, which ``python -m tg2hdl_fp32.catalog`` writes and a test compares with
the cores.  ``figures.json`` has the figures that ``benchmarks/fp32/unit_figures.py`` measured.
"""

__all__ = ["CATALOG", "CatalogEntry", "ConstantEntry", "figures", "latencies", "write_latencies"]

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .catalog_functions import FUNCTIONS

_FLOATS = ("FP32", "FP16", "BF16", "FP64", "FP8_E4M3", "FP8_E5M2")
#: FP8 results saturate, as in the compiler's golden model and in tinygrad.
_SATURATING = ("FP8_E4M3", "FP8_E5M2")
#: Formats with units for a family whose clock is faster than a short pipeline.
_DEEP = ("FP32", "FP16", "BF16")
#: Cores whose portable pipeline is too short for that clock, where a sum waits for its own result.
_SHORT = ("Add", "Sub")
_MODES = ("RNE", "RTZ", "RDN", "RUP", "RMM")
_PRIORITIES = {"balanced": 10, "fast": 5, "small": 0}
_FIGURES = Path(__file__).with_name("figures.json")
_LATENCIES = Path(__file__).with_name("latencies.json")


@dataclass(frozen=True)
class CatalogEntry:
    """One core with its parameters; calling it builds the core.

    Parameters
    ----------
    name : str
        Unique name, such as ``fp32.add.balanced``.
    op : str
        Operation of the compiler's IR.
    core : str
        Name of the class, exported by this package.
    operands, result : tuple of str, str
        Types by name, such as ``FP32``, ``INT8`` and ``BOOL``.
    parameters : tuple of (str, object)
        Keyword arguments; a value that names a format stands for the format.
    priority : int
        Choice among the profiles.
    accuracy : str
        ``exact``, ``correctly rounded`` or a bound in ULP.
    target : str
        Family that the core is for.
    """

    name: str
    op: str
    core: str
    operands: tuple[str, ...]
    result: str
    parameters: tuple[tuple[str, Any], ...]
    priority: int
    accuracy: str
    target: str = "generic"

    def __call__(self) -> Any:
        """Build the core."""
        package = import_module("tg2hdl_fp32")
        parameters = {key: _resolve(package, value) for key, value in self.parameters}
        return getattr(package, self.core)(**parameters)


@dataclass(frozen=True)
class ConstantEntry:
    """The core of a product by a constant, in place of the core of an entry, with the same latency.

    Attributes
    ----------
    entry : CatalogEntry
    """

    entry: CatalogEntry

    def __call__(self, constant: int) -> Any:
        """Build the core for the bit pattern of a constant."""
        package = import_module("tg2hdl_fp32")
        parameters = {key: _resolve(package, value) for key, value in self.entry.parameters}
        parameters.pop("profile", None)
        return package.MulConstant(constant=constant, stages=latencies()[self.entry.name], **parameters)


def _resolve(package: Any, value: Any) -> Any:
    if value in _FLOATS:
        return getattr(package, value)
    return package.RoundingMode[value] if value in _MODES else value


def _entries() -> Iterator[CatalogEntry]:
    rounded = "correctly rounded"
    for name in _FLOATS:
        for op, core, arity, result, accuracy, extra in (
            ("add", "Add", 2, name, rounded, {}),
            ("sub", "Sub", 2, name, rounded, {}),
            ("mul", "Mul", 2, name, rounded, {}),
            ("max", "MinMax", 2, name, "exact", {"variant": "select_max", "stages": 1}),
            ("min", "MinMax", 2, name, "exact", {"variant": "select_min", "stages": 1}),
            ("lt", "Compare", 2, "BOOL", "exact", {"predicate": "lt", "stages": 1}),
            ("eq", "Compare", 2, "BOOL", "exact", {"predicate": "eq", "stages": 1}),
            ("ne", "Compare", 2, "BOOL", "exact", {"predicate": "ne", "stages": 1}),
            ("neg", "Neg", 1, name, "exact", {"profile": "comb"}),
        ):
            saturating = _saturation(result) if op in ("add", "sub", "mul") else {}
            yield from _profiles(op, core, (name,) * arity, result, accuracy, extra | saturating)
    for op, core, formats, arity, accuracy in FUNCTIONS:
        for name in formats:
            extra = _saturation(name) if op == "div" else {}
            yield from _profiles(op, core, (name,) * arity, name, accuracy, extra)
    for name in _FLOATS:
        yield from _profiles("trunc", "RoundToIntegral", (name,), name, "exact", {"rounding": "RTZ"})
        yield from _casts(name)


def _saturation(result: str) -> dict[str, Any]:
    return {"saturate": True} if result in _SATURATING else {}


def _casts(name: str) -> Iterator[CatalogEntry]:
    """Casts of the compiler's IR: to an integer toward zero and modulo its width, to a float correctly rounded."""
    yield _balanced("NonZero", name, "BOOL", "exact", {"format": name})
    boolean: dict[str, Any] = {"format": name, "width": 1, "signed": False} | _saturation(name)
    yield _balanced("IntToFloat", "BOOL", name, "exact", boolean)
    for width in (8, 16, 32, 64):
        for signed in (True, False):
            integer = f"{'' if signed else 'U'}INT{width}"
            shape: dict[str, Any] = {"format": name, "width": width, "signed": signed}
            yield _balanced("FloatToInt", name, integer, "exact", shape | {"overflow": "wrap"})
            yield _balanced("IntToFloat", integer, name, "correctly rounded", shape | _saturation(name))
    for other in _FLOATS:
        if other != name:
            options = {"format": name, "result": other} | _saturation(other)
            yield _balanced("FloatToFloat", name, other, "correctly rounded", options)


def _balanced(core: str, source: str, result: str, accuracy: str, parameters: dict[str, Any]) -> CatalogEntry:
    name = f"{source.lower()}.cast.{result.lower()}.balanced"
    options = (*parameters.items(), ("profile", "balanced"))
    return CatalogEntry(name, "cast", core, (source,), result, options, _PRIORITIES["balanced"], accuracy)


def _profiles(
    op: str, core: str, operands: tuple[str, ...], result: str, accuracy: str, extra: dict[str, Any]
) -> Iterator[CatalogEntry]:
    source = operands[0].lower()
    fixed = "stages" in extra or "profile" in extra
    if operands[0] in _DEEP and not fixed:
        # Portable registers that place and route moves into the hard blocks.
        parameters = {"format": operands[0]} | extra | {"profile": "fast", "target": "ecp5_model"}
        options = tuple(parameters.items())
        yield CatalogEntry(f"{source}.{op}.ecp5", op, core, operands, result, options, 10, accuracy, "ecp5")
        if core in _SHORT and operands[0] == "FP32":
            options = tuple((parameters | {"profile": "balanced"}).items())
            name = f"{source}.{op}.ecp5-balanced"
            yield CatalogEntry(name, op, core, operands, result, options, 5, accuracy, "ecp5")
    for profile, priority in _PRIORITIES.items():
        if fixed and profile != "balanced":
            continue
        parameters = {"format": operands[0]} | extra | ({} if fixed else {"profile": profile})
        yield CatalogEntry(
            f"{source}.{op}.{profile}",
            op,
            core,
            operands,
            result,
            tuple(parameters.items()),
            priority,
            accuracy,
        )


CATALOG: tuple[CatalogEntry, ...] = tuple(_entries())


@cache
def latencies() -> dict[str, int]:
    """Return the latency in cycles of every entry, by its name."""
    table: dict[str, int] = json.loads(_LATENCIES.read_text())
    return table


@cache
def figures() -> dict[str, dict[str, float]]:
    """Return LUTs, flip-flops, multipliers, block RAMs and Fmax (MHz; 0 where unknown) on an ECP5, by name."""
    table: dict[str, dict[str, float]] = json.loads(_FIGURES.read_text())
    return table


def write_latencies() -> None:
    """Build every core and write its latency."""
    table = {entry.name: entry().latency for entry in CATALOG}
    _LATENCIES.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    write_latencies()
