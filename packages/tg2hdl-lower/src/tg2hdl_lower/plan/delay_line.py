"""Delay lines of registers, LUT RAM or block RAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.families import GENERIC

__all__ = ["LONGEST_CHAIN", "DelayLine"]

LONGEST_CHAIN = 4
"""Cycles from which a memory takes less room than registers."""


@dataclass(frozen=True)
class DelayLine:
    """A value delayed by `cycles` clock cycles."""

    cycles: int
    storage: Literal["registers", "LUT RAM", "block RAM"]

    def __str__(self) -> str:
        return f"{self.cycles} cycles in {self.storage}"

    @classmethod
    def of(cls, cycles: int, width: int) -> DelayLine:
        """The smallest delay line for a value of `width` bits.

        Parameters
        ----------
        cycles : int
            Of the delay.
        width : int
            Bits of the value.
        """
        if cycles <= LONGEST_CHAIN:
            return cls(cycles, "registers")
        small = (cycles - 1) * width <= GENERIC.memory.lut_bits or cycles <= GENERIC.memory.lut_words
        return cls(cycles, "LUT RAM" if small else "block RAM")

    def build(self, m: Module, value: Value, name: str) -> Value:
        """The delayed value.

        Parameters
        ----------
        m : Module
        value : Value
        name : str
            Prefix of the signals.
        """
        output = Signal(value.shape(), name=name, reset_less=True)
        if self.cycles == 0:
            m.d.comb += output.eq(value)
            return output
        match self.storage:
            case "registers":
                for cycle in range(1, self.cycles):
                    register = Signal(value.shape(), name=f"{name}_{cycle}", reset_less=True)
                    m.d.sync += register.eq(value)
                    value = register
            case "LUT RAM":
                value = _ring(m, value, self.cycles - 1, name)
            case "block RAM":
                value = _block_ring(m, value, self.cycles - 1, name)
        m.d.sync += output.eq(value)
        return output


def _ring(m: Module, value: Value, cycles: int, name: str) -> Value:
    """LUT RAM that is read before it is written, at one cyclic address."""
    memory = Memory(shape=value.shape(), depth=cycles, init=[], attrs={"ram_style": "distributed"})
    m.submodules[f"{name}_ring"] = memory
    place = _cyclic_counter(m, cycles, f"{name}_place")
    read, write = memory.read_port(domain="comb"), memory.write_port()
    m.d.comb += [read.addr.eq(place), write.addr.eq(place), write.data.eq(value), write.en.eq(1)]
    return read.data


def _block_ring(m: Module, value: Value, cycles: int, name: str) -> Value:
    """Block RAM that is read one address ahead of where it is written."""
    memory = Memory(shape=value.shape(), depth=cycles, init=[], attrs={"ram_style": "block"})
    m.submodules[f"{name}_ring"] = memory
    ahead = _cyclic_counter(m, cycles, f"{name}_place")
    place = Signal.like(ahead, name=f"{name}_written", init=cycles - 1)
    m.d.sync += place.eq(ahead)
    read, write = memory.read_port(), memory.write_port()
    m.d.comb += [read.addr.eq(ahead), write.addr.eq(place), write.data.eq(value), write.en.eq(1)]
    return read.data


def _cyclic_counter(m: Module, cycles: int, name: str) -> Signal:
    """Counter from 0 to `cycles` - 1."""
    place = Signal(range(cycles), name=name)
    m.d.sync += place.eq(place + 1)
    with m.If(place == cycles - 1):
        m.d.sync += place.eq(0)
    return place
