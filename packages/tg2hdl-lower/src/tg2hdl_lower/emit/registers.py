"""Emission of accumulators and of the nodes of `tg2hdl_lower.plan.registers`."""

from __future__ import annotations

from amaranth import Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.emit.datapath import Datapath, shape_of
from tg2hdl_lower.emit.delay_lines import delayed
from tg2hdl_lower.plan.registers import (
    AccumulatorLine,
    AccumulatorMemory,
    AccumulatorRegister,
    RegisterRead,
    RegisterWrite,
)

__all__ = ["add_accumulators", "emit_register_read", "emit_register_write"]


def add_accumulators(d: Datapath) -> None:
    """Add what holds the registers of the kernel."""
    for register, accumulator in d.plan.accumulators.items():
        shape = shape_of(accumulator)
        match accumulator:
            case AccumulatorLine():
                d.lines[register] = Signal(shape, name=f"turn{register}")
            case AccumulatorRegister(cleared=cleared):
                d.result.acc[register] = Signal(shape, name=f"acc{register}", reset_less=cleared)
            case AccumulatorMemory(size=size):
                memory = Memory(shape=shape, depth=size, init=[], attrs={"ram_style": "distributed"})
                d.m.submodules[f"acc{register}"] = memory
                d.arrays[register] = memory


def emit_register_read(d: Datapath, node: RegisterRead) -> Value:
    """The accumulator, or an element that is read from it."""
    if node.register in d.lines:
        return d.lines[node.register]
    if node.index is None:
        return d.result.acc[node.register]
    port = d.arrays[node.register].read_port(domain="comb")
    d.m.d.comb += port.addr.eq(d.at_issue(node, node.index))
    return port.data


def emit_register_write(d: Datapath, node: RegisterWrite) -> None:
    """Write the accumulator."""
    accumulator = d.plan.accumulators[node.register]
    value = d.at_issue(node, node.clear.otherwise if node.clear else node.value)
    match accumulator:
        case AccumulatorLine(line=line):
            d.m.d.comb += d.lines[node.register].eq(delayed(d.m, value, line, f"acc{node.register}"))
        case AccumulatorRegister(cleared=cleared):
            register = d.result.acc[node.register]
            with d.m.If(d.active_when(node, node.gate)):
                d.m.d.sync += register.eq(value)
            if node.clear is not None:
                # A condition of its own becomes the reset input of the register.
                with d.m.If(d.active_when(node, node.clear.flag, init=int(cleared))):
                    d.m.d.sync += register.eq(0)
        case _:
            assert node.index is not None, "an array has an index"
            port = d.arrays[node.register].write_port()
            d.m.d.comb += [
                port.addr.eq(d.at_issue(node, node.index)),
                port.data.eq(value),
                port.en.eq(d.active_when(node, node.gate)),
            ]
