"""Units outside of the kernels, which kernels that never run at the same time share.

In front of a shared unit is a register, behind the choice of the kernel: it takes one cycle more than the unit alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from amaranth import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, resolve
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.operations import SharedUnitOp, UnitOp
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes
from tg2hdl_lower.sharing.multiplexer import selected

__all__ = ["bind_shared_units", "build_unit", "connect_pool", "pool_units", "unit_signature", "unit_slots"]


def bind_shared_units(flow: Dataflow, names: Collection[str]) -> Dataflow:
    """The same with the units of these names outside, except in recurrences, where a cycle more would raise the II."""
    if not names:
        return flow
    circular = recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    return flow.with_nodes(
        {
            n.number: SharedUnitOp(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, n.unit)
            for n in flow.all(UnitOp)
            if n.unit.name in names and n.number not in circular
        }
    )


def unit_slots(flow: Dataflow, schedule: Schedule) -> tuple[ArithmeticUnit, ...]:
    """Shared units of a scheduled kernel, in the order of the nodes' ports."""
    slots = {schedule.placements[n.number].port: n.unit for n in flow.all(SharedUnitOp)}
    return tuple(slots[port] for port in sorted(slots))


def pool_units(
    kernels: Iterable[Sequence[ArithmeticUnit]],
) -> list[tuple[ArithmeticUnit, list[tuple[int, int]]]]:
    """Units that serve several kernels, with the (kernel, slot) of each user."""
    pool: dict[tuple[str, int], tuple[ArithmeticUnit, list[tuple[int, int]]]] = {}
    for kernel, slots in enumerate(kernels):
        seen: dict[str, int] = {}
        for slot, unit in enumerate(slots):
            turn = seen[unit.name] = seen.get(unit.name, -1) + 1
            pool.setdefault((unit.name, turn), (unit, []))[1].append((kernel, slot))
    return list(pool.values())


def unit_signature(unit: ArithmeticUnit) -> wiring.Signature:
    """Port of a kernel to a shared unit: operands out, `result` in one cycle after the latency of the unit."""
    operands = {p: Out(unsigned(t.bit_width)) for p, t in zip("abc", unit.operands, strict=False)}
    return wiring.Signature({**operands, "result": In(unsigned(unit.result.bit_width))})


def build_unit(unit: ArithmeticUnit) -> Any:
    """Component of a unit.

    Raises
    ------
    PluginError
        When the factory raises, or what it builds has other ports or another latency than the descriptor says.
    """
    where = f"unit {unit.name!r}"
    try:
        component = resolve(unit.factory)()
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(
            f"its factory raised {type(error).__name__}: {error}",
            where=where,
            hint="choose another unit of the op, or disable the plugin that registers it",
        ) from error
    widths = {"en": 1, "result": unit.result.bit_width}
    widths |= {name: dtype.bit_width for name, dtype in zip("abc", unit.operands, strict=False)}
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


def connect_pool(m: Module, pool: Module, cores: Sequence[Any]) -> None:
    """Build the shared units of kernel cores, of which one is busy at a time, and connect them."""
    for number, (unit, users) in enumerate(pool_units(core.plan.shared_units for core in cores)):
        pool.submodules[f"u{number}_{unit.op}"] = component = build_unit(unit)
        m.d.comb += component.en.eq(1)
        ports = [(cores[kernel].busy, getattr(cores[kernel], f"unit_{slot}")) for kernel, slot in users]
        for name in [n for n, _ in zip("abc", unit.operands, strict=False)]:
            chosen = selected([(busy, getattr(port, name)) for busy, port in ports])
            register = Signal(len(chosen), name=f"u{number}_{name}", reset_less=True)
            pool.d.sync += register.eq(chosen)
            m.d.comb += getattr(component, name).eq(register)
        m.d.comb += [port.result.eq(component.result) for _, port in ports]
