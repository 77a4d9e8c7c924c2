"""What this distribution contributes; imports neither Amaranth nor numpy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tg2hdl_ir import Area, ArithmeticUnit, DType, OpDef, hookimpl

__all__ = ["tg2hdl_arithmetic_units", "tg2hdl_ops"]

_TYPES = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32}
_BINARY = {"add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b"}
_CORES = {
    "add": "PositAdd",
    "sub": "PositSub",
    "mul": "PositMul",
    "div": "PositDiv",
    "from_fp32": "PositFromFloat",
    "to_fp32": "PositToFloat",
}
#: Registers of the cores in the profile ``balanced``, by op, for 8, 16 and 32 bits.
_LATENCIES = {
    "add": (7, 7, 10),
    "sub": (7, 7, 10),
    "mul": (5, 5, 8),
    "div": (7, 17, 35),
    "from_fp32": (3, 3, 3),
    "to_fp32": (5, 5, 6),
}


#: Measured by benchmarks/fp32/formats.py.
_AREAS = {
    "add": (Area(294, 163), Area(630, 285), Area(1483, 733)),
    "mul": (Area(187, 114, 1), Area(432, 207, 1), Area(1136, 677, 4)),
    "div": (Area(267, 156), Area(828, 707), Area(3075, 2805)),
    "from_fp32": (Area(128, 102), Area(176, 126), Area(286, 179)),
    "to_fp32": (Area(243, 156), Area(337, 205), Area(537, 313)),
}
#: Microscaling: class of the core, its operands and result, and its latency for E2M1 and INT8.
_BLOCKS = {
    "dot": ("MXWordDot", (DType.UINT32,) * 2, DType.INT32, (2, 1)),
    "scale": ("MXScale", (DType.INT32, DType.UINT8, DType.UINT8), DType.FP32, (7, 7)),
}


@dataclass(frozen=True)
class _Factory:
    """Builds a core."""

    core: str
    format: str | int

    def __call__(self) -> Any:
        package = import_module("tg2hdl_formats")
        found = isinstance(self.format, str)
        format = package.ELEMENTS[self.format] if found else package.Posit(self.format)
        return getattr(package, self.core)(format)


@hookimpl
def tg2hdl_ops() -> list[OpDef]:
    """Arithmetic on posits, whose width is that of the unsigned type that holds them, and on words of elements."""
    golden, blocks = "tg2hdl_formats.golden", "tg2hdl_formats.mx_golden"
    return [
        *(
            OpDef(f"posit.{op}", 2, f"{golden}:same_type", f"{golden}:{op}", f"{text} of posits")
            for op, text in _BINARY.items()
        ),
        OpDef(
            "posit.from_fp32", 1, f"{golden}:from_fp32_type", f"{golden}:from_fp32", "posit of an FP32 number"
        ),
        OpDef("posit.to_fp32", 1, f"{golden}:to_fp32_type", f"{golden}:to_fp32", "FP32 number of a posit"),
        *(
            OpDef(
                f"mx.{op}_{element}",
                len(operands),
                f"{blocks}:{op}_type",
                f"{blocks}:{op}_{element}",
                f"{text}, elements {element.upper()}",
            )
            for (op, (_, operands, _, _)), text in zip(
                _BLOCKS.items(), ("sum of products", "sum times scales"), strict=True
            )
            for element in ("e2m1", "int8")
        ),
    ]


@hookimpl
def tg2hdl_arithmetic_units() -> list[ArithmeticUnit]:
    """A pipelined core for each op and width."""
    units = []
    for op, core in _CORES.items():
        areas = _AREAS["add" if op == "sub" else op]
        for (width, posit), latency, area in zip(_TYPES.items(), _LATENCIES[op], areas, strict=True):
            operands = (DType.FP32,) if op == "from_fp32" else (posit,) * (2 if op in _BINARY else 1)
            units.append(
                ArithmeticUnit(
                    f"posit{width}.{op}",
                    f"posit.{op}",
                    operands,
                    DType.FP32 if op == "to_fp32" else posit,
                    latency=latency,
                    factory=_Factory(core, width),
                    area=area,
                    accuracy="rounded as the posit standard says",
                )
            )
    for op, (core, operands, result, latencies) in _BLOCKS.items():
        for element, latency in zip(("E2M1", "INT8"), latencies, strict=True):
            name = f"{op}_{element.lower()}"
            units.append(
                ArithmeticUnit(
                    f"mx.{name}.balanced",
                    f"mx.{name}",
                    operands,
                    result,
                    latency=latency,
                    factory=_Factory(core, element),
                    accuracy="exact" if op == "dot" else "correctly rounded",
                )
            )
    return units
