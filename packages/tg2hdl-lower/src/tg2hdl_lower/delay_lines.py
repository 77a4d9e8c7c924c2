"""Delay lines of registers, LUT RAM or block RAM, and the accumulators that are one.

Where outputs take turns, every element is written once in each round and read once in the next, a fixed number of
cycles later: a delay line instead of a memory with an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_lower.memories import SHALLOW_WORDS, SMALL_BITS
from tg2hdl_lower.plan import PlanNode

__all__ = ["LONGEST_CHAIN", "delayed", "turning_registers"]

LONGEST_CHAIN = 4
"""Cycles from which a memory takes less room than registers."""


def turning_registers(
    kernel: KernelIR, nodes: Sequence[PlanNode], period: Callable[[PlanNode], int]
) -> dict[int, int]:
    """Arrays of registers of which each step writes the element that it reads; their nodes lose the index.

    Parameters
    ----------
    period : callable
        Steps from one use of the element of a ``regread`` or ``regwrite`` to the next; 1 when not known.

    Returns
    -------
    dict of int to int
        Steps from writing an element to reading it, by register.
    """
    found: dict[int, int] = {}
    for register in kernel.registers:
        reads = [n for n in nodes if n.kind == "regread" and n.register == register.idx]
        writes = [n for n in nodes if n.kind == "regwrite" and n.register == register.idx]
        if register.size == 1 or len(reads) != 1 or len(writes) != 1:
            continue
        read, write = reads[0], writes[0]
        same = read.leaf == write.leaf and read.index == write.index and write.gate is None
        # What a unit computes comes from its own register.
        if same and period(read) == register.size and nodes[write.operands[0]].kind == "unit":
            found[register.idx] = register.size
            read.index, read.operands = None, ()
            write.index, write.operands = None, write.operands[:1]
    return found


def delayed(m: Module, value: Value, cycles: int, name: str) -> Signal:
    """`value`, so many cycles later."""
    line = Signal(value.shape(), name=name, reset_less=True)
    if cycles == 0:
        m.d.comb += line.eq(value)
    elif cycles <= LONGEST_CHAIN:
        m.d.sync += line.eq(delayed(m, value, cycles - 1, f"{name}_{cycles - 1}") if cycles > 1 else value)
    elif (cycles - 1) * len(value) <= SMALL_BITS or cycles <= SHALLOW_WORDS:
        m.d.sync += line.eq(_ring(m, value, cycles - 1, name))
    else:
        m.d.sync += line.eq(_block_ring(m, value, cycles - 1, name))
    return line


def _ring(m: Module, value: Value, cycles: int, name: str) -> Value:
    """LUT RAM that is read right before it is written, at one address that goes round."""
    memory = Memory(shape=value.shape(), depth=cycles, init=[], attrs={"ram_style": "distributed"})
    m.submodules[f"{name}_ring"] = memory
    place = _going_round(m, cycles, f"{name}_place")
    read, write = memory.read_port(domain="comb"), memory.write_port()
    m.d.comb += [read.addr.eq(place), write.addr.eq(place), write.data.eq(value), write.en.eq(1)]
    return read.data


def _block_ring(m: Module, value: Value, cycles: int, name: str) -> Value:
    """Block RAM that is read one address ahead of where it is written."""
    memory = Memory(shape=value.shape(), depth=cycles, init=[], attrs={"ram_style": "block"})
    m.submodules[f"{name}_ring"] = memory
    ahead = _going_round(m, cycles, f"{name}_place")
    place = Signal.like(ahead, name=f"{name}_written", init=cycles - 1)
    m.d.sync += place.eq(ahead)
    read, write = memory.read_port(), memory.write_port()
    m.d.comb += [read.addr.eq(ahead), write.addr.eq(place), write.data.eq(value), write.en.eq(1)]
    return read.data


def _going_round(m: Module, cycles: int, name: str) -> Signal:
    """Counter from 0 to `cycles` - 1."""
    place = Signal(range(cycles), name=name)
    m.d.sync += place.eq(place + 1)
    with m.If(place == cycles - 1):
        m.d.sync += place.eq(0)
    return place
