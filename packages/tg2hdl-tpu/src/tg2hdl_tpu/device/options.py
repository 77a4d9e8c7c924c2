"""Options of the device TINYTPU, given in tinygrad's target string: ``DEV=TINYTPU::engine=isa``."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from tg2hdl_ir.errors import InputError

__all__ = ["DeviceOptions"]


@dataclass(frozen=True)
class DeviceOptions:
    """Options of the device TINYTPU.

    Parameters
    ----------
    engine : str
        ``isa`` is the simulator of instructions; other names are engines of `tg2hdl_sim`, which simulate the hardware.
    clock_mhz : int
        Clock that turns cycles into the time that tinygrad shows (MHz).
    """

    engine: str = "isa"
    clock_mhz: int = 100

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
            name, _, value = item.partition("=")
            allowed = _allowed()
            if name not in allowed:
                raise InputError(
                    f"unknown device option {name!r}",
                    where=f"DEV=TINYTPU::{text}",
                    hint="allowed: " + ", ".join(f"{n}={v}" for n, v in allowed.items()),
                )
            if name == "engine" and value in allowed[name].split("|"):
                options = replace(options, engine=value)
            elif name == "clock_mhz" and value.isdecimal() and int(value) >= 1:
                options = replace(options, clock_mhz=int(value))
            else:
                raise InputError(
                    f"device option {name} cannot be {value!r}",
                    where=f"DEV=TINYTPU::{text}",
                    hint=f"allowed: {allowed[name]}",
                )
        return options

    def __str__(self) -> str:
        default = DeviceOptions()
        return ",".join(
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        )


def _allowed() -> dict[str, str]:
    from tg2hdl_ir.plugins.registry import registry

    engines = "|".join(["isa", *sorted(engine.name for engine in registry().simulators())])
    return {"engine": engines, "clock_mhz": "1, 2, ..."}
