"""Options of the device HDL, given in tinygrad's target string: ``DEV=HDL::engine=golden,multipliers=16``."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.registry import registry

__all__ = ["DeviceOptions"]


@dataclass(frozen=True)
class DeviceOptions:
    """Options of the device HDL.

    Parameters
    ----------
    engine : str
        ``auto`` simulates the hardware with the engine that finishes soonest, and computes a run that is predicted to
        take longer than `patience` with the golden model; ``golden`` computes all with it and plans no hardware; an
        engine by name, also one of a plugin, simulates everything.
    multipliers : int
        Multipliers that a kernel may use.
    clock_mhz : int
        Clock that turns cycles into the time that tinygrad shows (MHz).
    patience : int
        Longest simulation of one run of a kernel under ``auto``, with the building of the simulator (s).
    units : tuple of (str, str)
        Arithmetic units by op: ``unit=add=myext.add5``, once for each.
    """

    engine: str = "auto"
    multipliers: int = 1
    clock_mhz: int = 100
    patience: int = 20
    units: tuple[tuple[str, str], ...] = ()

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
            allowed = _allowed()
            if name not in allowed:
                raise InputError(
                    f"unknown device option {name!r}",
                    where=f"DEV=HDL::{text}",
                    hint="allowed: " + ", ".join(f"{n}={v}" for n, v in allowed.items()),
                )
            if name == "unit":
                options = replace(options, units=(*options.units, _unit(value, text)))
                continue
            change: dict[str, Any] = {name: _value(name, value if separator else "", text)}
            options = replace(options, **change)
        return options

    def __str__(self) -> str:
        default = DeviceOptions()
        items = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name != "units" and getattr(self, f.name) != getattr(default, f.name)
        ]
        return ",".join([*items, *(f"unit={op}={unit}" for op, unit in self.units)])


def _allowed() -> dict[str, str]:
    engines = "|".join(["auto", "golden", *sorted(engine.name for engine in registry().simulators())])
    return {
        "engine": engines,
        **dict.fromkeys(("multipliers", "clock_mhz", "patience"), "1, 2, ..."),
        "unit": "OP=UNIT",
    }


def _value(name: str, value: str, text: str) -> str | int:
    if name == "engine" and value in _allowed()["engine"].split("|"):
        return value
    if name == "engine" or not value.isdecimal() or int(value) < 1:
        raise _bad_value(name, value, text)
    return int(value)


def _unit(value: str, text: str) -> tuple[str, str]:
    op, _, unit = value.partition("=")
    if not op or not unit:
        raise _bad_value("unit", value, text)
    registry().check_units({op: unit})
    return op, unit


def _bad_value(name: str, value: str, text: str) -> InputError:
    return InputError(
        f"device option {name} cannot be {value!r}",
        where=f"DEV=HDL::{text}",
        hint=f"allowed: {_allowed()[name]}",
    )
