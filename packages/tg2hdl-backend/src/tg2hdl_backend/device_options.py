"""Options of the device HDL, given in tinygrad's target string: ``DEV=HDL::engine=golden,multipliers=16``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from tg2hdl_ir import registry
from tg2hdl_ir.target_options import POSITIVE, TargetOptions, engine_names

__all__ = ["DeviceOptions"]


@dataclass(frozen=True)
class DeviceOptions(TargetOptions):
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

    device: ClassVar[str] = "HDL"

    @classmethod
    def allowed(cls) -> dict[str, str]:
        """Engines by name, positive integers, and units by op."""
        return {
            "engine": engine_names("auto", "golden"),
            **dict.fromkeys(("multipliers", "clock_mhz", "patience"), POSITIVE),
            "unit": "OP=UNIT",
        }

    def changed(self, name: str, value: str) -> Self | None:
        """These with another value of an option, or with one more unit."""
        if name != "unit":
            return super().changed(name, value)
        op, _, unit = value.partition("=")
        if not op or not unit:
            return None
        registry().check_units({op: unit})
        return replace(self, units=(*self.units, (op, unit)))

    def __str__(self) -> str:
        return ",".join(filter(None, [super().__str__(), *(f"unit={op}={unit}" for op, unit in self.units)]))
