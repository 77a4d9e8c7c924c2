"""Components of arithmetic units, checked against their descriptors."""

from __future__ import annotations

from typing import Any

from tg2hdl_ir.plugins.descriptors import ArithmeticUnit
from tg2hdl_ir.plugins.registry import registry

__all__ = ["build_constant_unit", "build_unit"]


def build_unit(unit: ArithmeticUnit) -> Any:
    """Component of a unit.

    Raises
    ------
    PluginError
        When the factory raises, or what it builds has other ports or another latency than the descriptor says.
    """
    names = "abc"[: len(unit.operands)]
    return _checked(unit, registry().call(unit, "factory"), names)


def build_constant_unit(unit: ArithmeticUnit, constant: int) -> Any:
    """Component of a unit for products by a constant, given as a bit pattern; its factor is `a`.

    Raises
    ------
    PluginError
        As `build_unit`.
    """
    assert unit.constant is not None, "only units that offer it are built for a constant"
    return _checked(unit, registry().call(unit, "constant", constant), "a")


def _checked(unit: ArithmeticUnit, component: Any, operands: str) -> Any:
    """What a factory builds, with the ports and the latency of the descriptor."""
    widths = {"en": 1, "result": unit.result.bit_width}
    widths |= {name: dtype.bit_width for name, dtype in zip(operands, unit.operands, strict=False)}
    for name, width in widths.items():
        port = getattr(component, name, None)
        if port is None or len(port) != width:
            found = f"no port {name}" if port is None else f"a port {name} of {len(port)} bits"
            raise registry().fault(
                unit, f": what its factory builds has {found}; its descriptor asks for {width} bits"
            )
    built = getattr(component, "latency", unit.latency)
    if built != unit.latency:
        raise registry().fault(unit, f" says latency {unit.latency}, but what it builds has {built}")
    return component
