"""Components of arithmetic units, checked against their descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, resolve

__all__ = ["build_constant_unit", "build_unit"]


def build_unit(unit: ArithmeticUnit) -> Any:
    """Component of a unit.

    Raises
    ------
    PluginError
        When the factory raises, or what it builds has other ports or another latency than the descriptor says.
    """
    names = "abc"[: len(unit.operands)]
    return _checked(unit, lambda: resolve(unit.factory)(), names)


def build_constant_unit(unit: ArithmeticUnit, constant: int) -> Any:
    """Component of a unit for products by a constant, given as a bit pattern; its factor is `a`.

    Raises
    ------
    PluginError
        As `build_unit`.
    """
    factory = unit.constant
    assert factory is not None, "only units that offer it are built for a constant"
    return _checked(unit, lambda: resolve(factory)(constant), "a")


def _checked(unit: ArithmeticUnit, build: Callable[[], Any], operands: str) -> Any:
    """What a factory builds, with the ports and the latency of the descriptor."""
    where = f"unit {unit.name!r}"
    try:
        component = build()
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(
            f"its factory raised {type(error).__name__}: {error}",
            where=where,
            hint="choose another unit of the op, or disable the plugin that registers it",
        ) from error
    widths = {"en": 1, "result": unit.result.bit_width}
    widths |= {name: dtype.bit_width for name, dtype in zip(operands, unit.operands, strict=False)}
    for name, width in widths.items():
        port = getattr(component, name, None)
        if port is None or len(port) != width:
            found = f"no port {name}" if port is None else f"a port {name} of {len(port)} bits"
            raise PluginError(
                f"what its factory builds has {found}; its descriptor asks for {width} bits",
                where=where,
                hint="run tg2hdl_ir.testing.conformance.check_unit in the plugin's tests",
            )
    built = getattr(component, "latency", unit.latency)
    if built != unit.latency:
        raise PluginError(
            f"unit {unit.name!r} says latency {unit.latency}, but what it builds has {built}",
            hint="correct the descriptor in the plugin that registers it",
        )
    return component
