"""Components of arithmetic units, checked against their descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amaranth.hdl import ClockSignal, Instance, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import ArithmeticUnit, registry

__all__ = ["build_constant_unit", "build_unit", "units_as_modules"]

_modules: ContextVar[tuple[str, dict[str, Any]] | None] = ContextVar("modules", default=None)


@contextmanager
def units_as_modules(design: str) -> Iterator[dict[str, Any]]:
    """Build each unit once inside the context, and instances of its module in its places.

    Yields the components of the modules by name, which are to be written next to the module `design`.
    """
    found: dict[str, Any] = {}
    token = _modules.set((design, found))
    try:
        yield found
    finally:
        _modules.reset(token)


def build_unit(unit: ArithmeticUnit) -> Any:
    """Component of a unit.

    Raises
    ------
    PluginError
        When the factory raises, or when its component has other ports or another latency than the descriptor says.
    """
    names = "abc"[: len(unit.operands)]
    return _placed(unit, unit.name, lambda: registry().call(unit, "factory"), names)


def build_constant_unit(unit: ArithmeticUnit, constant: int) -> Any:
    """Component of a unit for products by a constant, given as a bit pattern; its factor is `a`.

    Parameters
    ----------
    unit : ArithmeticUnit
        With a factory `constant`.
    constant : int
        Bit pattern in the format of the operand.

    Raises
    ------
    PluginError
        As `build_unit`.
    """
    assert unit.constant is not None, "only units that offer it are built for a constant"
    name = f"{unit.name}_{constant:x}"
    return _placed(unit, name, lambda: registry().call(unit, "constant", constant), "a")


class _UnitInstance(wiring.Component):
    """An instance of the module of a unit."""

    def __init__(self, module: str, unit: ArithmeticUnit, operands: str) -> None:
        self.module = module
        ports = zip(operands, unit.operands, strict=False)
        super().__init__(
            {"en": In(1), "result": Out(unit.result.bit_width)}
            | {name: In(dtype.bit_width) for name, dtype in ports}
        )

    def elaborate(self, platform: object) -> Instance:
        inputs = [
            (name, getattr(self, name))
            for name, member in self.signature.members.items()
            if member.flow is In
        ]
        clock = [("clk", ClockSignal()), ("rst", ResetSignal(allow_reset_less=True))]
        return Instance(self.module, *(("i", *port) for port in clock + inputs), ("o", "result", self.result))


def _placed(unit: ArithmeticUnit, name: str, build: Callable[[], Any], operands: str) -> Any:
    """The component that a factory builds, or an instance of its module."""
    modules = _modules.get()
    if modules is None:
        return _checked(unit, build(), operands)
    design, found = modules
    module = f"{design}.unit_" + re.sub(r"\W", "_", name)
    if module not in found:
        found[module] = _checked(unit, build(), operands)
    return _UnitInstance(module, unit, operands)


def _checked(unit: ArithmeticUnit, component: Any, operands: str) -> Any:
    """The component, checked: it has the ports and the latency of the descriptor."""
    widths = {"en": 1, "result": unit.result.bit_width}
    widths |= {name: dtype.bit_width for name, dtype in zip(operands, unit.operands, strict=False)}
    for name, width in widths.items():
        port = getattr(component, name, None)
        if port is None or len(port) != width:
            found = f"no port {name}" if port is None else f"a port {name} of {len(port)} bits"
            raise registry().fault(
                unit,
                f": the component that its factory builds has {found}; its descriptor asks for {width} bits",
            )
    built = getattr(component, "latency", unit.latency)
    if built != unit.latency:
        raise registry().fault(unit, f" says latency {unit.latency}, but its component has {built}")
    return component
