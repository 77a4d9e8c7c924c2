"""Operands of the multipliers that kernels share: which kernel's, of which one runs at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value

from tg2hdl_lower.selection import selected

__all__ = ["HeldOperands", "MuxedOperands"]


class MuxedOperands:
    """Multiplexers on the way to a multiplier."""

    latency = 0
    """Cycles."""

    def __init__(self, busy: Sequence[Value]) -> None:
        self.busy = busy

    def of(self, operands: Mapping[int, Value]) -> Value:
        """The operand of the running kernel, among those of some kernels by number."""
        return selected([(self.busy[number], operand) for number, operand in operands.items()])


class HeldOperands:
    """Registers that are zero while their kernel does not run, so that an operand is no more than the OR of them.

    A choice among three kernels would be two LUTs for each bit, with flags that thousands of LUTs read.  Here the flag
    is a clear, after a cycle for the way to it.
    """

    latency = 1
    LEAST: ClassVar[int] = 5
    """Cycles of a product of which the registers may be one: two are in front of a multiplier, and two behind it."""
    FIRST: ClassVar[int] = 2
    """Cycle of a kernel in which its first operand may come: those of the kernel before it are cleared by then."""

    def __init__(self, m: Module, busy: Sequence[Value]) -> None:
        self.m = m
        self.idle: list[Signal] = []
        for number, flag in enumerate(busy):
            stopped = Signal(name=f"stopped{number}", reset_less=True)
            idle = Signal(name=f"idle{number}", reset_less=True)
            m.d.sync += [stopped.eq(~flag), idle.eq(stopped)]
            self.idle.append(idle)

    def of(self, operands: Mapping[int, Value]) -> Value:
        """The operand of the running kernel one cycle later, among those of some kernels by number."""
        result: Value | None = None
        for number, operand in operands.items():
            held = Signal(operand.shape(), name=f"held{number}", reset_less=True)
            self.m.d.sync += held.eq(Mux(self.idle[number], 0, operand))
            result = held if result is None else result | held
        assert result is not None, "a multiplier has a user"
        return result
