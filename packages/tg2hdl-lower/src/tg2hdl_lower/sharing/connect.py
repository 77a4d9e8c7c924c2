"""Shared resources of a design: built, and connected to the kernels by an arbiter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_lower.emit.core import KernelCore
from tg2hdl_lower.emit.ports import ResourcePort
from tg2hdl_lower.ops.multiplication import Multiplier
from tg2hdl_lower.ops.unit_component import build_unit
from tg2hdl_lower.plan.resources import SharedMultiplier, SharedResource, SharedUnit, WideMultiplier, pools
from tg2hdl_lower.sharing.arbiter import Arbiter, HeldOperands, MuxedOperands, RegisteredOperands
from tg2hdl_lower.sharing.multipliers import Multiplier18

__all__ = ["connect_shared"]


def connect_shared(
    m: Module,
    cores: Sequence[KernelCore],
    *,
    share_multipliers: bool = True,
    held_operands: bool = False,
    selects: Callable[[int, str], Value] | None = None,
) -> None:
    """Build the shared resources of kernel cores, which use them one at a time, and connect them.

    Parameters
    ----------
    selects : callable, optional
        ``(kernel, pool) -> Value``, the flag that selects a kernel at a pool of resources; that it is busy if absent.
    share_multipliers : bool
        Whether all cores use one set of multipliers.
    held_operands : bool
        Whether registers hold the operands of idle kernels at zero, in place of multiplexers.
    """
    m.submodules.multipliers = multipliers = Module()
    number, every = 0, range(len(cores))
    names = dict.fromkeys(resource.pool for core in cores for resource in core.plan.products)
    for group in [every] if share_multipliers else [range(n, n + 1) for n in every]:
        for pool in names:
            users = [_of_pool(cores[n].plan.products, cores[n].products, pool) for n in group]
            shared = selects if share_multipliers else None
            flags = [shared(n, pool) if shared else cores[n].busy for n in group]
            arbiter = (HeldOperands if held_operands else MuxedOperands)(m, flags, multipliers)
            number = _connect(m, multipliers, users, arbiter, number)
    if any(core.plan.shared_units for core in cores):
        m.submodules.units = submodule = Module()
        pool = next(r.pool for core in cores for r in core.plan.shared_units)
        flags = [selects(n, pool) if selects else cores[n].busy for n in every]
        _connect(
            m,
            submodule,
            [(c.plan.shared_units, c.units) for c in cores],
            RegisteredOperands(submodule, flags),
            0,
        )


def _of_pool(
    resources: Sequence[SharedResource], ports: Sequence[ResourcePort], pool: str
) -> tuple[Sequence[SharedResource], Sequence[ResourcePort]]:
    """The slots of a kernel that one pool serves."""
    found = [(r, p) for r, p in zip(resources, ports, strict=True) if r.pool == pool]
    return [r for r, _ in found], [p for _, p in found]


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
        case WideMultiplier(widths=widths, limbs=limbs, bits=bits):
            return Multiplier(widths, limbs, bits)
        case SharedUnit(unit=unit):
            assert latency == unit.latency, "the arbiter takes the rest"
            return build_unit(unit)
    raise AssertionError(resource)
