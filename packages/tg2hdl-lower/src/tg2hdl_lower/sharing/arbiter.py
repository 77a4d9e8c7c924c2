"""Arbiters of shared resources: select the operands of the kernel that uses them; only one does in each cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import ClassVar

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value

from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.operations import Product
from tg2hdl_lower.plan.resources import SharedMultiplier
from tg2hdl_lower.sharing.multiplexer import selected, selected_inside

__all__ = ["Arbiter", "HeldOperands", "MuxedOperands", "RegisteredOperands"]


class Arbiter:
    """Multiplexes operands by a flag of each kernel.

    Parameters
    ----------
    m : Module
        For registers.
    busy : sequence of Value
        Whether each kernel runs, or may use the resources.
    resources : Module, optional
        Submodule with the resources, which may have the last level of a multiplexer.
    """

    latency: ClassVar[int] = 0
    """Cycles from the operands of the kernels to that of the resource."""

    def __init__(self, m: Module, busy: Sequence[Value], resources: Module | None = None) -> None:
        self.m = m
        self.busy = busy
        self.resources = resources

    def of(self, operands: Mapping[int, Value], name: str) -> Value:
        """The operand of the running kernel, among those of some kernels by number.

        Parameters
        ----------
        operands : mapping of int to Value
            By the number of the kernel.
        name : str
            Of the signal.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called when all operands are known."""


class MuxedOperands(Arbiter):
    """Multiplexers without registers."""

    def of(self, operands: Mapping[int, Value], name: str) -> Value:
        """The operand of the running kernel in the same cycle."""
        sources = [(self.busy[number], operand) for number, operand in operands.items()]
        if self.resources is None:
            return selected(sources)
        return selected_inside(self.m, self.resources, sources, name)


class RegisteredOperands(MuxedOperands):
    """Multiplexers with an output register."""

    latency = 1

    def of(self, operands: Mapping[int, Value], name: str) -> Value:
        """The operand of the running kernel one cycle later."""
        chosen = super().of(operands, name)
        register = Signal(len(chosen), name=name, reset_less=True)
        self.m.d.sync += register.eq(chosen)
        return register


class HeldOperands(Arbiter):
    """Registers that are zero while their kernel is idle, so that an operand is the OR of them.

    A multiplexer of three kernels would be two LUTs for each bit before the one register.  Clears would be no LUTs, but
    registers with different ones must not share a slice, which leads to long paths in a full part.
    """

    latency = 1
    KERNELS: ClassVar[int] = 3
    """Kernels from which a multiplexer is more than one LUT for each bit."""
    _LATENCY: ClassVar[int] = 5
    """Least cycles of a product with this arbiter: two before a multiplier, one in this arbiter, and two after it."""
    LEAD: ClassVar[int] = 2
    """Cycles from the flag of a kernel to its operands."""
    _FIRST: ClassVar[int] = LEAD
    """First cycle of a kernel that may have an operand: those of the kernel before it are zero by then."""

    @classmethod
    def suit(cls, plans: Sequence[HardwarePlan]) -> bool:
        """Whether kernels may and should have them."""
        if not all(isinstance(slot, SharedMultiplier) for p in plans for slot in p.products):
            return False
        issues = (p.placement(n.number).issue for p in plans for n in p.all(Product))
        latencies = [slot.latency for p in plans for slot in p.products]
        users = sum(bool(plan.products) for plan in plans)
        return (
            users >= cls.KERNELS and min(issues, default=0) >= cls._FIRST and min(latencies) >= cls._LATENCY
        )

    def __init__(self, m: Module, busy: Sequence[Value], resources: Module | None = None) -> None:
        super().__init__(m, busy, resources)
        self.parts: dict[int, list[tuple[Value, Signal]]] = {}

    def of(self, operands: Mapping[int, Value], name: str) -> Value:
        """The operand of the running kernel one cycle later."""
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
            # Synthesis replicates the second register; the first register spends a cycle on fan-out to its replicas.
            early = Signal(name=f"early{number}", reset_less=True)
            chosen = Signal(name=f"chosen{number}", reset_less=True)
            held = Signal(len(operands), name=f"held{number}", reset_less=True)
            self.m.d.sync += [
                early.eq(self.busy[number]),
                chosen.eq(early),
                held.eq(operands & chosen.replicate(len(operands))),
            ]
            self.m.d.comb += Cat(part for _, part in parts).eq(held)
