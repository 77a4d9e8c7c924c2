"""The tools of FPGA families, found by the hook ``tg2hdl_flows``."""

from tg2hdl_synth.flows.base import SynthesisFlow, flow_of

__all__ = ["SynthesisFlow", "flow_of"]
