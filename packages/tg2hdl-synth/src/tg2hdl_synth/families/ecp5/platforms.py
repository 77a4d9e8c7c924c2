"""Boards that amaranth-boards lacks, or has without a serial line."""

from __future__ import annotations

from typing import Any

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import LatticeECP5Platform
from amaranth_boards import orangecrab_r0_2
from amaranth_boards.resources import UARTResource

__all__ = ["colorlight_i5", "orangecrab_25f", "orangecrab_85f"]

_LVCMOS33 = Attrs(IO_TYPE="LVCMOS33")


def orangecrab_25f() -> Any:
    """OrangeCrab 25F, with a serial line on its pins 0 (to the board) and 1."""
    return _with_uart(orangecrab_r0_2.OrangeCrabR0_2_25FPlatform(), rx="N17", tx="M18")


def orangecrab_85f() -> Any:
    """OrangeCrab 85F, with a serial line on its pins 0 (to the board) and 1."""
    return _with_uart(orangecrab_r0_2.OrangeCrabR0_2_85FPlatform(), rx="N17", tx="M18")


def _with_uart(platform: Any, rx: str, tx: str) -> Any:
    platform.add_resources([UARTResource(0, rx=rx, tx=tx, attrs=_LVCMOS33)])
    return platform


class colorlight_i5(LatticeECP5Platform):
    """Colorlight i5 7.0 on its extension board, whose debugger has the serial line."""

    device = "LFE5U-25F"
    package = "BG381"
    speed = "6"
    default_clk = "clk25"
    resources = (
        Resource("clk25", 0, Pins("P3", dir="i"), Clock(25e6), _LVCMOS33),
        UARTResource(0, rx="H18", tx="J17", attrs=_LVCMOS33),
    )
    connectors = ()
