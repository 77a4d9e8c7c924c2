"""Open-tool synthesis flow: Fmax, utilization, critical path, netlist check and schematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_synth.compat import show_hardware, synthesis_stats
    from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
    from tg2hdl_synth.estimate import estimate_design
    from tg2hdl_synth.families.answers import Estimate
    from tg2hdl_synth.fits import Fit, check_weights_fit, design_fits
    from tg2hdl_synth.flow import synthesize
    from tg2hdl_synth.parts import PARTS, part_named
    from tg2hdl_synth.result import CriticalStep, SynthesisResult

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
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".compat": ("show_hardware", "synthesis_stats"),
        ".errors": ("DesignTooLargeError", "SynthesisError"),
        ".estimate": ("estimate_design",),
        ".families.answers": ("Estimate",),
        ".fits": ("Fit", "check_weights_fit", "design_fits"),
        ".flow": ("synthesize",),
        ".parts": ("PARTS", "part_named"),
        ".result": ("CriticalStep", "SynthesisResult"),
    },
)
