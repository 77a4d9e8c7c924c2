"""Operands of the multipliers that kernels share: which kernel's, of which one runs at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import ClassVar

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.operations import Product
from tg2hdl_lower.sharing.multiplexer import selected
from tg2hdl_top.lane_choice import total_multiplications
from tg2hdl_top.options import CompileOptions

__all__ = ["HeldOperands", "MuxedOperands", "with_held_operands"]

_KERNELS = 3
"""Kernels from which a choice among them is more than one LUT for each bit."""


def with_held_operands(options: CompileOptions, kernels: Sequence[KernelIR]) -> CompileOptions:
    """Options with the cycle of `HeldOperands`, where kernels share so many multipliers that ways to them are long."""
    users = sum(total_multiplications(kernel) > 0 for kernel in kernels)
    if not options.share_multipliers or not options.spread or users < _KERNELS:
        return options
    return replace(options, product_latency=options.timing.product_latency + 1)


class MuxedOperands:
    """Multiplexers on the way to a multiplier."""

    latency = 0
    """Cycles."""

    def __init__(self, busy: Sequence[Value]) -> None:
        self.busy = busy

    def of(self, operands: Mapping[int, Value]) -> Value:
        """The operand of the running kernel, among those of some kernels by number."""
        return selected([(self.busy[number], operand) for number, operand in operands.items()])

    def close(self) -> None:
        """Nothing is left to do when all operands are known."""


class HeldOperands:
    """Registers that are zero while their kernel does not run, so that an operand is no more than the OR of them.

    A choice among three kernels would be two LUTs for each bit in front of the one register.  Clears would be no LUTs,
    but registers with different ones must not share a slice, which leads to long ways in a full part.
    """

    latency = 1
    _LATENCY: ClassVar[int] = 5
    """Least cycles of a product of which this may be one: two are in front of a multiplier, and two behind it."""
    _FIRST: ClassVar[int] = 2
    """First cycle of a kernel that may have an operand: those of the kernel before it are zero by then."""

    @classmethod
    def suit(cls, plans: Sequence[HardwarePlan]) -> bool:
        """Whether kernels may and should have them."""
        issues = (p.placement(n.number).issue for p in plans for n in p.live() if isinstance(n, Product))
        first = min(issues, default=0)
        users = sum(bool(plan.products) for plan in plans)
        return users >= _KERNELS and first >= cls._FIRST and plans[0].product_latency >= cls._LATENCY

    def __init__(self, m: Module, busy: Sequence[Value]) -> None:
        self.m = m
        self.busy = busy
        self.parts: dict[int, list[tuple[Value, Signal]]] = {}

    def of(self, operands: Mapping[int, Value]) -> Value:
        """The operand of the running kernel one cycle later, among those of some kernels by number."""
        held: list[Value] = []
        for number, operand in operands.items():
            part = Signal(operand.shape(), name=f"part{number}")
            self.parts.setdefault(number, []).append((operand, part))
            held.append(part)
        return reduce(or_, held)

    def close(self) -> None:
        """Make one register of all operands of a kernel, which is less text than one for each of them."""
        for number, parts in self.parts.items():
            operands = Cat(operand for operand, _ in parts)
            # Synthesis has many copies of the second register, and the first one is the way to them.
            early = Signal(name=f"early{number}", reset_less=True)
            chosen = Signal(name=f"chosen{number}", reset_less=True)
            held = Signal(len(operands), name=f"held{number}", reset_less=True)
            self.m.d.sync += [
                early.eq(self.busy[number]),
                chosen.eq(early),
                held.eq(operands & chosen.replicate(len(operands))),
            ]
            self.m.d.comb += Cat(part for _, part in parts).eq(held)
