"""Timing constraints of the wrapper, for Vivado (XDC) and for Quartus and others (SDC)."""

from __future__ import annotations

from collections.abc import Iterable

from tg2hdl.export.interfaces import WrapperPort
from tg2hdl.export.wrapper import CLOCK

__all__ = ["constraint_files"]

_ASYNCHRONOUS = ("uart", "spi")
"""Groups of ports at pins, whose inputs the design samples with synchronizers."""


def constraint_files(name: str, ports: Iterable[WrapperPort], clock: float) -> dict[str, str]:
    """Constraints of a clock (MHz) by paths in the folder.

    Parameters
    ----------
    name : str
        Of the design.
    ports : iterable of WrapperPort
        Those of the wrapper.
    clock : float
        MHz.
    """
    period = 1000 / clock
    lines = [
        f"# {name}: a clock of {clock:g} MHz at {CLOCK}; leave this out if the enclosing design constrains the clock.",
        f"create_clock -name {CLOCK} -period {period:.3f} [get_ports {CLOCK}]",
    ]
    pins = [port for port in ports if port.group in _ASYNCHRONOUS]
    if pins:
        lines.append(
            "# Signals of the line are sampled by synchronizers, or change long before they are read."
        )
    lines += [f"set_false_path {'-from' if p.is_input else '-to'} [get_ports {{{_bits(p)}}}]" for p in pins]
    text = "\n".join([*lines, ""])
    return {f"constraints/{name}.xdc": text, f"constraints/{name}.sdc": text}


def _bits(port: WrapperPort) -> str:
    return port.name if port.width == 1 else f"{port.name}[*]"
