"""Boards of Gowin parts, with the present nextpnr."""

from __future__ import annotations

from typing import Any

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards import tang_nano_9k as _tang_nano_9k
from amaranth_boards import tang_primer_20k as _tang_primer_20k
from amaranth_boards.resources import UARTResource

__all__ = ["tang_nano_9k", "tang_nano_20k", "tang_primer_20k", "with_present_tools"]


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


class tang_primer_20k(_Himbaechel, _tang_primer_20k.TangPrimer20kDockPlatform):
    """Sipeed Tang Primer 20k on its dock."""

    yosys_family = "gw2a"
    pack_family = "GW2A-18C"


_FAMILIES = {"gw1nr-9c": ("gw1n", "GW1N-9C"), "gw2ar-18c": ("gw2a", "GW2A-18C")}
"""Families for Yosys and nextpnr, by parts."""


def with_present_tools(platform: type, part: str) -> type:
    """Return a platform of Amaranth as one that the present tools build.

    Parameters
    ----------
    platform : type
        Class of Amaranth for a Gowin board.
    part : str
        Name of the part, such as ``"gw1nr-9c"``.
    """
    yosys, pack = _FAMILIES[part]
    names = {"yosys_family": yosys, "pack_family": pack}
    return (
        platform
        if issubclass(platform, _Himbaechel)
        else type(platform.__name__, (_Himbaechel, platform), names)
    )


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
