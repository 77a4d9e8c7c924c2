"""A bitstream that echoes the bytes that it receives, to tell a dead cable from a dead design."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth import Module, Signal
from amaranth.build import ResourceError
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_synth.boards.bitstream import Bitstream, build_bitstream
from tg2hdl_synth.boards.usage import BoardComponent

__all__ = ["LoopbackDesign", "build_loopback"]

_BLINK_BITS = 24
_SLOW = 24.0
"""Clock (MHz) that each part reaches; it blinks an LED about once a second."""


class LoopbackDesign(wiring.Component):
    """A wire from the receiver to the sender, which needs no clock; the clock blinks an LED where the board has one.

    Members
    -------
    uart : Out
        As the member of the host port ``uart``.
    """

    def __init__(self) -> None:
        super().__init__({"uart": Out(wiring.Signature({"rx": In(1), "tx": Out(1), "divisor": In(16)}))})

    def elaborate(self, platform: Any) -> Module:
        """Build the module."""
        m = Module()
        m.d.comb += self.uart.tx.eq(self.uart.rx)
        blink = Signal(_BLINK_BITS)
        m.d.sync += blink.eq(blink + 1)
        try:
            pad = platform.request("led", 0, dir="-")
        except (AttributeError, ResourceError):  # a simulation, or a board without a plain LED
            return m
        m.submodules.led = led = io.Buffer("o", pad)
        m.d.comb += led.o.eq(blink[-1])
        return m


def build_loopback(
    board: str, folder: Path, *, progress: Callable[[str], None] = lambda message: None
) -> Bitstream:
    """Build the bitstream, and the description with which ``tg2hdl program`` loads it.

    Parameters
    ----------
    board : str
        As in `board_named`.
    folder : path
    progress : callable, optional
        Called with a message before each slow step.

    Raises
    ------
    SynthesisError
        When a tool fails.
    ToolMissingError
        When a wheel is not installed.
    InputError
        For a class that is not a board.
    """
    component = BoardComponent("loop-back test", LoopbackDesign, {}, "take a larger part")
    made = build_bitstream(component, board, folder, clock=_SLOW, progress=progress)
    facts = {
        "id": "0" * 16,
        "design": component.name,
        "buffers": [],
        "board": board,
        "bitstream": made.path.name,
        "baud": made.baud,
    }
    (folder / "device.json").write_text(json.dumps(facts, indent=1) + "\n")
    return made
