"""Options of the device TINYTPU, given in tinygrad's target string: ``DEV=TINYTPU::engine=isa``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tg2hdl_ir.target_options import POSITIVE, TargetOptions, engine_names

__all__ = ["TinytpuOptions"]


@dataclass(frozen=True)
class TinytpuOptions(TargetOptions):
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

    device: ClassVar[str] = "TINYTPU"

    @classmethod
    def allowed(cls) -> dict[str, str]:
        """Engines by name, and a positive integer."""
        return {"engine": engine_names("isa"), "clock_mhz": POSITIVE}
