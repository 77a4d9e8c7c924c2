"""Open-tool synthesis flow: Fmax, utilization, critical path, netlist check and schematics."""

from tg2hdl_ir.lazy import lazy_face

# Loaded on demand: the plugin of this package is loaded by every command.
__all__, __getattr__, __dir__ = lazy_face(__name__)
