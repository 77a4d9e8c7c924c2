"""The clock of a board: settings of the family's PLL, and the domain that it drives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amaranth import Module, Signal
from amaranth.hdl import ClockDomain
from amaranth.lib.cdc import ResetSynchronizer

from tg2hdl_ir import InputError
from tg2hdl_synth.families import Family, tools_of
from tg2hdl_synth.families.answers import PllSettings

__all__ = ["add_clock", "add_domains", "pll_settings"]


def pll_settings(
    family: str, source: float, wanted: float, suits: Callable[[float], bool] = lambda frequency: True
) -> PllSettings:
    """Settings for the fastest clock that suits and is not faster than the wanted one (MHz).

    Parameters
    ----------
    family : str
        Name.
    source : float
        Frequency of the reference (MHz).
    wanted : float
        Highest frequency (MHz).
    suits : callable, optional
        Whether a frequency (MHz) is allowed.

    Raises
    ------
    InputError
        When there is none.
    """
    found = (settings for settings in tools_of(family).plls(source, wanted) if suits(settings.frequency))
    best = max(found, key=lambda s: s.frequency, default=None)
    if best is None:
        raise InputError(
            f"the PLL of the {family} makes no suitable clock of {wanted:g} MHz or less from {source:g} MHz",
            hint="ask for a faster clock, or another baud rate",
        )
    return best


def add_clock(m: Module, platform: Any, tools: Family, settings: PllSettings) -> None:
    """The domain ``sync`` from the default clock of a platform by a PLL; in reset until the PLL is locked.

    Parameters
    ----------
    m : Module
        Top module of the board.
    platform
        Of Amaranth.
    tools : Family
    settings : PllSettings
        From `Family.plls`.
    """
    m.domains.sync = domain = ClockDomain("sync")
    locked = Signal()
    tools.add_pll(m, platform, settings, domain.clk, locked)
    m.submodules.reset = ResetSynchronizer(~locked, domain="sync")


def add_domains(m: Module, platform: Any, tools: Family, clocks: Mapping[str, float]) -> None:
    """Domains besides ``sync``, from the default clock of a platform; in reset until they are stable.

    Parameters
    ----------
    m : Module
        Top module of the board.
    platform
        Of Amaranth.
    tools : Family
    clocks : mapping of str to float
        MHz by the names of the domains.
    """
    for name, frequency in clocks.items():
        domain, locked = ClockDomain(name), Signal(name=f"{name}_locked")
        m.domains += domain
        tools.add_clock(m, platform, frequency, domain.clk, locked)
        m.submodules[f"{name}_reset"] = ResetSynchronizer(~locked, domain=name)
