"""Arithmetic units outside of the kernels, which kernels that never run at the same time share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, resolve
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.operations import ConstantProduct, SharedUnitOp, UnitOp, UnitProduct
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.resources import SharedUnit
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes

__all__ = ["bind_shared_units", "build_constant_unit", "build_unit", "unit_slots"]


def bind_shared_units(flow: Dataflow, names: Collection[str]) -> Dataflow:
    """Move units of these names out of the kernel, except in recurrences, where another cycle would raise the II."""
    if not names:
        return flow
    circular = recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    return flow.with_nodes(
        {
            n.number: SharedUnitOp(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, n.unit)
            for n in flow.all(UnitOp)
            if n.unit.name in names
            and n.number not in circular
            and not isinstance(n, ConstantProduct | UnitProduct)
        }
    )


def unit_slots(flow: Dataflow, schedule: Schedule) -> tuple[SharedUnit, ...]:
    """Shared units of a scheduled kernel, in the order of the nodes' ports."""
    slots = {schedule.placements[n.number].port: SharedUnit(n.unit) for n in flow.all(SharedUnitOp)}
    return tuple(slots[port] for port in sorted(slots))


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
