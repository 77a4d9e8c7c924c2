"""Open-tool synthesis flow: Fmax, utilization, critical path, netlist check and schematics."""

from tg2hdl_synth.errors import DesignTooLargeError, SynthesisError
from tg2hdl_synth.estimate import Estimate, estimate_design
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
    "SynthesisError",
    "SynthesisResult",
    "estimate_design",
    "part_named",
    "show_hardware",
    "synthesis_stats",
    "synthesize",
]
