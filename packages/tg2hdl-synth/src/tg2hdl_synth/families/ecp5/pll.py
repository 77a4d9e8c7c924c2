"""The PLL of an ECP5, with feedback from its output: fout = fin * FB / I, and a VCO of fout * OP in 400 to 800 MHz."""

from __future__ import annotations

from collections.abc import Iterator

from amaranth import Const, Instance, Signal, Value

from tg2hdl_synth.families.answers import PllSettings

__all__ = ["pll", "plls"]


def plls(source: float, wanted: float) -> Iterator[PllSettings]:
    """Return the settings for clocks up to the wanted one (MHz)."""
    for divider in range(1, min(128, int(source / 3.125)) + 1):
        for feedback in range(1, min(80, int(wanted * divider / source + 1e-9)) + 1):
            frequency = source * feedback / divider
            output = next((n for n in range(1, 129) if 400 <= frequency * n <= 800), None)
            if output:
                values = (("CLKI_DIV", divider), ("CLKFB_DIV", feedback), ("CLKOP_DIV", output))
                yield PllSettings(frequency, values)


def pll(source: float, reference: Value, settings: PllSettings, clock: Signal, locked: Signal) -> Instance:
    """Return the PLL; `source` is the frequency of its reference (MHz)."""
    values = dict(settings.values)
    return Instance(
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
        a_FREQUENCY_PIN_CLKI=str(source),
        a_FREQUENCY_PIN_CLKOP=str(settings.frequency),
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1",
        a_MFG_GMCREF_SEL="2",
        i_CLKI=reference,
        i_CLKFB=clock,
        i_RST=Const(0),
        i_STDBY=Const(0),
        i_PHASESEL0=Const(0),
        i_PHASESEL1=Const(0),
        i_PHASEDIR=Const(0),
        i_PHASESTEP=Const(0),
        i_PHASELOADREG=Const(0),
        i_PLLWAKESYNC=Const(0),
        i_ENCLKOP=Const(0),
        o_CLKOP=clock,
        o_LOCK=locked,
    )
