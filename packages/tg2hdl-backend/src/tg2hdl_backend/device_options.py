"""Options of the device HDL, given in tinygrad's target string: ``DEV=HDL::engine=golden,multipliers=16``."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from tg2hdl_ir.errors import InputError

__all__ = ["DeviceOptions"]

_ENGINES = ("auto", "golden", "cxxrtl", "verilator", "amaranth")


@dataclass(frozen=True)
class DeviceOptions:
    """Options of the device HDL.

    Parameters
    ----------
    engine : {"auto", "golden", "cxxrtl", "verilator", "amaranth"}
        ``auto`` simulates the hardware with the engine that finishes soonest, and computes a run that is predicted to
        take longer than `patience` with the golden model; ``golden`` computes all with it and plans no hardware; the
        others simulate everything.
    multipliers : int
        Multipliers that a kernel may use.
    clock_mhz : int
        Clock that turns cycles into the time that tinygrad shows (MHz).
    patience : int
        Longest simulation of one run of a kernel under ``auto``, with the building of the simulator (s).
    """

    engine: str = "auto"
    multipliers: int = 1
    clock_mhz: int = 100
    patience: int = 20

    @classmethod
    def parse(cls, text: str) -> DeviceOptions:
        """Read ``name=value`` pairs that are separated by commas.

        Raises
        ------
        InputError
            For an unknown option or value.
        """
        options = cls()
        for item in filter(None, text.split(",")):
            name, separator, value = item.partition("=")
            if name not in _ALLOWED:
                raise InputError(
                    f"unknown device option {name!r}",
                    where=f"DEV=HDL::{text}",
                    hint="allowed: " + ", ".join(f"{n}={v}" for n, v in _ALLOWED.items()),
                )
            if not separator:
                raise _bad_value(name, "", text)
            change: dict[str, Any] = {name: _value(name, value, text)}
            options = replace(options, **change)
        return options

    def __str__(self) -> str:
        default = DeviceOptions()
        return ",".join(
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        )


_ALLOWED = {"engine": "|".join(_ENGINES)} | dict.fromkeys(
    ("multipliers", "clock_mhz", "patience"), "1, 2, ..."
)


def _value(name: str, value: str, text: str) -> str | int:
    if name == "engine":
        if value not in _ENGINES:
            raise _bad_value(name, value, text)
        return value
    if not value.isdecimal() or int(value) < 1:
        raise _bad_value(name, value, text)
    return int(value)


def _bad_value(name: str, value: str, text: str) -> InputError:
    return InputError(
        f"device option {name} cannot be {value!r}",
        where=f"DEV=HDL::{text}",
        hint=f"allowed: {_ALLOWED[name]}",
    )
