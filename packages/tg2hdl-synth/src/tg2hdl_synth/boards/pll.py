"""Settings of PLLs for a clock, and the PLLs as hardware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth import ClockSignal, Const, Instance, Module, Signal
from amaranth.hdl import ClockDomain
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from tg2hdl_ir.errors import InputError

__all__ = ["PllSettings", "add_clock", "pll_settings"]


@dataclass(frozen=True)
class PllSettings:
    """Dividers of a PLL.

    Parameters
    ----------
    frequency : float
        MHz of its output.
    """

    family: str
    frequency: float
    values: tuple[tuple[str, int], ...]


def pll_settings(
    family: str, source: float, wanted: float, suits: Callable[[float], bool] = lambda frequency: True
) -> PllSettings:
    """Settings for the fastest clock that suits and is not faster than the wanted one (MHz).

    Raises
    ------
    InputError
        When there is none, or for a family whose PLL is not known.
    """
    if family not in _SEARCHES:
        raise InputError(
            f"the PLL of the family {family!r} is not known", hint="choose a board of another family"
        )
    found = (settings for settings in _SEARCHES[family](source, wanted) if suits(settings.frequency))
    best = max(found, key=lambda s: s.frequency, default=None)
    if best is None:
        raise InputError(
            f"the PLL of the {family} makes no suitable clock of {wanted:g} MHz or less from {source:g} MHz",
            hint="ask for a faster clock, or another baud rate",
        )
    return best


def _ecp5(source: float, wanted: float) -> list[PllSettings]:
    """Feedback from the output: fout = fin * FB / I, with a VCO of fout * OP in 400 to 800 MHz."""
    found = []
    for divider in range(1, min(128, int(source / 3.125)) + 1):
        for feedback in range(1, min(80, int(wanted * divider / source + 1e-9)) + 1):
            frequency = source * feedback / divider
            output = next((n for n in range(1, 129) if 400 <= frequency * n <= 800), None)
            if output:
                values = (("CLKI_DIV", divider), ("CLKFB_DIV", feedback), ("CLKOP_DIV", output))
                found.append(PllSettings("ecp5", frequency, values))
    return found


def _ice40(source: float, wanted: float) -> list[PllSettings]:
    """fout = fin * (DIVF + 1) / 2^DIVQ, with a VCO of 533 to 1,066 MHz."""
    found = []
    for divq in range(1, 7):
        for divf in range(min(128, int(wanted * 2**divq / source + 1e-9))):
            vco = source * (divf + 1)
            if 533 <= vco <= 1066:
                values = (("DIVR", 0), ("DIVF", divf), ("DIVQ", divq))
                found.append(PllSettings("ice40", vco / 2**divq, values))
    return found


def _gowin(source: float, wanted: float) -> list[PllSettings]:
    """fout = fin * (FBDIV + 1) / (IDIV + 1), with a VCO of fout * ODIV in 500 to 1,200 MHz."""
    found = []
    for divider in range(1, min(64, int(source / 3)) + 1):
        for feedback in range(1, min(64, int(wanted * divider / source + 1e-9)) + 1):
            frequency = source * feedback / divider
            output = next((n for n in (2, 4, 8, *range(16, 129, 16)) if 500 <= frequency * n <= 1200), None)
            if output:
                values = (("IDIV_SEL", divider - 1), ("FBDIV_SEL", feedback - 1), ("ODIV_SEL", output))
                found.append(PllSettings("gowin", frequency, values))
    return found


_SEARCHES = {"ecp5": _ecp5, "ice40": _ice40, "gowin": _gowin}


def add_clock(m: Module, platform: Any, settings: PllSettings) -> None:
    """The domain ``sync`` from the default clock of a platform by a PLL; in reset until the PLL is locked."""
    m.domains.sync = domain = ClockDomain("sync")
    locked = Signal()
    pads = platform.request(platform.default_clk, dir="-")
    values = dict(settings.values)
    if settings.family == "ecp5":
        m.submodules.clock_buffer = buffer = io.Buffer("i", pads)
        m.submodules.pll = Instance(
            "EHXPLLL",
            *(("p", name, value) for name, value in values.items()),
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_CPHASE=values["CLKOP_DIV"] // 2 - 1 if values["CLKOP_DIV"] > 1 else 0,
            p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            a_FREQUENCY_PIN_CLKI=str(platform.default_clk_frequency / 1e6),
            a_FREQUENCY_PIN_CLKOP=str(settings.frequency),
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            i_CLKI=buffer.i,
            i_CLKFB=ClockSignal("sync"),
            i_RST=Const(0),
            i_STDBY=Const(0),
            i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0),
            i_PHASEDIR=Const(0),
            i_PHASESTEP=Const(0),
            i_PHASELOADREG=Const(0),
            i_PLLWAKESYNC=Const(0),
            i_ENCLKOP=Const(0),
            o_CLKOP=domain.clk,
            o_LOCK=locked,
        )
    elif settings.family == "gowin":
        m.submodules.clock_buffer = buffer = io.Buffer("i", pads)
        m.submodules.pll = Instance(
            "rPLL",
            *(("p", name, value) for name, value in values.items()),
            *(("p", f"DYN_{name}", "false") for name in ("IDIV_SEL", "FBDIV_SEL", "ODIV_SEL", "DA_EN")),
            *(("i", name, Const(0, 6)) for name in ("FBDSEL", "IDSEL", "ODSEL")),
            *(("i", name, Const(0, 4)) for name in ("PSDA", "DUTYDA", "FDLY")),
            p_FCLKIN=f"{platform.default_clk_frequency / 1e6:g}",
            p_DEVICE=platform.family,
            p_CLKFB_SEL="internal",
            i_CLKIN=buffer.i,
            i_CLKFB=Const(0),
            i_RESET=Const(0),
            i_RESET_P=Const(0),
            o_CLKOUT=domain.clk,
            o_LOCK=locked,
        )
    else:
        m.submodules.pll = Instance(
            "SB_PLL40_PAD",
            *(
                ("p", name, Const(value, width))
                for (name, value), width in zip(values.items(), (4, 7, 3), strict=True)
            ),
            p_FEEDBACK_PATH="SIMPLE",
            p_PLLOUT_SELECT="GENCLK",
            p_FILTER_RANGE=Const(1, 3),
            i_PACKAGEPIN=pads.io,
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            o_PLLOUTGLOBAL=domain.clk,
            o_LOCK=locked,
        )
    m.submodules.reset = ResetSynchronizer(~locked, domain="sync")
