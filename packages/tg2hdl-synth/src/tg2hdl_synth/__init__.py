"""Open-tool synthesis flow: Fmax, utilization, critical path, netlist check and schematics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
    from tg2hdl_synth.estimate import Estimate, estimate_design
    from tg2hdl_synth.fits import Fit, check_weights_fit, design_fits
    from tg2hdl_synth.flow import synthesize
    from tg2hdl_synth.parts import PARTS, part_named
    from tg2hdl_synth.result import CriticalStep, SynthesisResult
    from tg2hdl_synth.schematic import show_hardware
    from tg2hdl_synth.stats import synthesis_stats

__all__ = [
    "PARTS",
    "CriticalStep",
    "DesignTooLargeError",
    "Estimate",
    "Fit",
    "SynthesisError",
    "SynthesisResult",
    "check_weights_fit",
    "design_fits",
    "estimate_design",
    "part_named",
    "show_hardware",
    "synthesis_stats",
    "synthesize",
]

# Loaded on demand: the plugin of this package is loaded by every command.
_OWNERS = {
    "PARTS": "parts",
    "CriticalStep": "result",
    "DesignTooLargeError": "errors",
    "Estimate": "estimate",
    "Fit": "fits",
    "SynthesisError": "errors",
    "SynthesisResult": "result",
    "check_weights_fit": "fits",
    "design_fits": "fits",
    "estimate_design": "estimate",
    "part_named": "parts",
    "show_hardware": "schematic",
    "synthesis_stats": "stats",
    "synthesize": "flow",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
