"""Shared resources of a design: built, and connected to the kernels by an arbiter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_lower.emit.core import KernelCore
from tg2hdl_lower.emit.ports import ResourcePort
from tg2hdl_lower.ops.unit_component import build_unit
from tg2hdl_lower.plan.resources import SharedMultiplier, SharedResource, SharedUnit, pools
from tg2hdl_lower.sharing.arbiter import Arbiter, HeldOperands, MuxedOperands, RegisteredOperands
from tg2hdl_lower.sharing.multipliers import Multiplier18

__all__ = ["connect_shared"]


def connect_shared(
    m: Module,
    cores: Sequence[KernelCore],
    *,
    share_multipliers: bool = True,
    held_operands: bool = False,
    products: Sequence[Value] | None = None,
    units: Sequence[Value] | None = None,
) -> None:
    """Build the shared resources of kernel cores, which use them one at a time, and connect them.

    Parameters
    ----------
    products, units : sequence of Value, optional
        Flags that select a kernel at the multipliers and at the arithmetic units; that it is busy if absent.
    share_multipliers : bool
        Whether all cores use one set of multipliers.
    held_operands : bool
        Whether registers hold the operands of idle kernels at zero, in place of multiplexers.
    """
    busy = [core.busy for core in cores]
    m.submodules.multipliers = multipliers = Module()
    number = 0
    groups = [(cores, products or busy)] if share_multipliers else [([core], [core.busy]) for core in cores]
    for group, flags in groups:
        arbiter = (HeldOperands if held_operands else MuxedOperands)(m, flags, multipliers)
        number = _connect(m, multipliers, [(c.plan.products, c.products) for c in group], arbiter, number)
    if any(core.plan.shared_units for core in cores):
        m.submodules.units = submodule = Module()
        arbiter = RegisteredOperands(submodule, units or busy)
        _connect(m, submodule, [(c.plan.shared_units, c.units) for c in cores], arbiter, 0)


def _connect(
    m: Module,
    parent: Module,
    users: Sequence[tuple[Sequence[SharedResource], Sequence[ResourcePort]]],
    arbiter: Arbiter,
    first: int,
) -> int:
    """Build the resources of one kind as submodules of `parent`; returns the number of the next one."""
    for resource, slots in pools(resources for resources, _ in users):
        name = resource.instance(first)
        parent.submodules[name] = component = _build(resource, resource.latency - arbiter.latency)
        first += 1
        ports = {kernel: users[kernel][1][slot] for kernel, slot in slots}
        if hasattr(component, "en"):
            m.d.comb += component.en.eq(1)
        prefix = name.split("_")[0]
        for operand in resource.operands:
            drivers = {kernel: port.operand(operand) for kernel, port in ports.items()}
            m.d.comb += getattr(component, operand).eq(arbiter.of(drivers, f"{prefix}_{operand}"))
        m.d.comb += [port.result.eq(component.result) for port in ports.values()]
    arbiter.close()
    return first


def _build(resource: SharedResource, latency: int) -> Any:
    match resource:
        case SharedMultiplier(widths=widths):
            return Multiplier18(widths, latency)
        case SharedUnit(unit=unit):
            assert latency == unit.latency, "the arbiter takes the rest"
            return build_unit(unit)
    raise TypeError(f"{type(resource).__name__} is no shared resource")
