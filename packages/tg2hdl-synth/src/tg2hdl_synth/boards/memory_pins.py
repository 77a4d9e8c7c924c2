"""A design's memory port at the pins of a board's SDRAM."""

from __future__ import annotations

from typing import Any

from amaranth import Module
from amaranth.lib import io

from tg2hdl_ir import BoardDef, InputError
from tg2hdl_top import Design, TopModule

__all__ = ["check_memory", "connect_memory"]

_SIGNALS = {"clk_en": "cke", "cs": "cs_n", "we": "we_n", "ras": "ras_n", "cas": "cas_n", "ba": "ba", "a": "a"}
_SIGNALS |= {"dqm": "dqm"}
"""Signals of a board's chip that a design drives, and their names at the port."""


def check_memory(design: Design, board: BoardDef, platform: Any) -> float | None:
    """Whether a board has the memory of a design; the clock (MHz) at which the design must run, if any.

    Parameters
    ----------
    design : Design
    board : BoardDef
    platform
        Of Amaranth, an object.

    Raises
    ------
    InputError
        When the board has none, or another one.
    """
    if not design.streams_weights:
        return None
    plan = design.external
    assert plan is not None, "weights are streamed"
    where = f"design {design.program.name}"
    if plan.port != "sdram" or ("sdram", 0) not in platform.resources:
        has = "an SDRAM" if ("sdram", 0) in platform.resources else "no SDRAM that is supported"
        raise InputError(
            f"the weights are in memory behind the port {plan.port!r}, and {board.name} has {has}",
            where=where,
            hint='compile with memory_port="sdram" for a board with one, such as ulx3s-85f, or with weights="rom"',
        )
    pads = {pad.name: pad.ios[0].names for pad in platform.lookup("sdram", 0).ios}
    wanted = {"dq": plan.model.bits, "a": 13, "ba": 2}
    other = [
        f"{name}: {len(pads[name])} for {width}" for name, width in wanted.items() if len(pads[name]) != width
    ]
    if other:
        raise InputError(
            f"the SDRAM of {board.name} has other pins than the model of the memory",
            notes=tuple(other),
            where=where,
            hint=f"compile with memory=tg2hdl.SdramModel(bits={len(pads['dq'])}) for this board",
        )
    return plan.model.clock


def connect_memory(m: Module, platform: Any, top: TopModule) -> None:
    """Connect the pads; the chip's clock rises in the middle of a cycle, where all its inputs are stable.

    It gives a word half a cycle after its clock, which is read at the end of the cycle after that: the delays of both
    pads may be 2.5 to 9 ns together at 100 MHz.

    Parameters
    ----------
    m : Module
        Top module of the board.
    platform
        With a resource ``("sdram", 0)``.
    top : TopModule
        With the port ``sdram``.
    """
    pads = platform.request("sdram", 0, dir={pad.name: "-" for pad in platform.lookup("sdram", 0).ios})
    m.submodules.memory_pins = pins = Module()
    pins.submodules.clk = clock = io.DDRBuffer("o", pads.clk)
    pins.d.comb += [clock.o[0].eq(0), clock.o[1].eq(1)]
    for name, signal in _SIGNALS.items():
        if hasattr(pads, name):
            pad = getattr(pads, name)
            # The port drives the levels of the pins.
            buffer = io.Buffer("o", ~pad if all(pad.invert) else pad)
            pins.submodules[name] = buffer
            pins.d.comb += buffer.o.eq(getattr(top.sdram, signal))
    pins.submodules.dq = data = io.Buffer("io", pads.dq)
    pins.d.comb += [
        data.o.eq(top.sdram.dq_o),
        data.oe.eq(top.sdram.dq_oe),
        top.sdram.dq_i.eq(data.i),
        top.memory_base.eq(0),
    ]
