"""Platforms of amaranth-boards, completed where they lack a serial line, and boards that it lacks."""

from __future__ import annotations

from typing import Any

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform, LatticeECP5Platform
from amaranth_boards import ecpix5, icebreaker, orangecrab_r0_2, ulx3s
from amaranth_boards import tang_nano_9k as _tang_nano_9k
from amaranth_boards.resources import UARTResource

__all__ = [
    "colorlight_i5",
    "ecpix5_45f",
    "ecpix5_85f",
    "icebreaker_up5k",
    "orangecrab_25f",
    "orangecrab_85f",
    "tang_nano_9k",
    "tang_nano_20k",
    "ulx3s_12f",
    "ulx3s_25f",
    "ulx3s_45f",
    "ulx3s_85f",
]

_LVCMOS33 = Attrs(IO_TYPE="LVCMOS33")

ulx3s_12f = ulx3s.ULX3S_12F_Platform
ulx3s_25f = ulx3s.ULX3S_25F_Platform
ulx3s_45f = ulx3s.ULX3S_45F_Platform
ulx3s_85f = ulx3s.ULX3S_85F_Platform
ecpix5_45f = ecpix5.ECPIX545Platform
ecpix5_85f = ecpix5.ECPIX585Platform
icebreaker_up5k = icebreaker.ICEBreakerPlatform


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


class _Himbaechel(GowinPlatform):
    """Gowin parts by the present nextpnr; Amaranth's own script calls one that is no longer published."""

    _apicula_required_tools = ("yosys", "nextpnr-himbaechel-gowin", "gowin_pack")
    yosys_family: str

    @property
    def _apicula_command_templates(self) -> list[str]:
        yosys, _, pack = GowinPlatform._apicula_command_templates
        place = r"""
        {{invoke_tool("nextpnr-himbaechel-gowin")}}
            {{get_override("nextpnr_opts")|options}}
            --log {{name}}.tim
            --device {{platform.part}}
            --vopt family={{platform.pack_family}}
            --vopt cst={{name}}.cst
            --json {{name}}.syn.json
        """
        return [yosys, place, pack.replace("platform._chipdb_device", "platform.pack_family")]

    def toolchain_prepare(self, fragment: Any, name: str, *, synth_opts: str = "", **options: Any) -> Any:
        """Name the family to Yosys."""
        synth_opts += f" -family {self.yosys_family}"
        return super().toolchain_prepare(fragment, name, synth_opts=synth_opts, **options)


class tang_nano_9k(_Himbaechel, _tang_nano_9k.TangNano9kPlatform):
    """Sipeed Tang Nano 9k."""

    yosys_family = "gw1n"
    pack_family = "GW1N-9C"


class tang_nano_20k(_Himbaechel):
    """Sipeed Tang Nano 20k; its debugger has the serial line."""

    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    yosys_family = "gw2a"
    pack_family = "GW2A-18C"
    default_clk = "clk27"
    resources = (
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="70", tx="69", attrs=Attrs(PULL_MODE="UP", IO_TYPE="LVCMOS33")),
    )
    connectors = ()
