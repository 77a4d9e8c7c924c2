"""Connects tg2hdl to tinygrad: capture, compile and simulate tinygrad programs as hardware."""

import tg2hdl_backend.tinygrad_adapter  # noqa: F401 (corrects tinygrad)
import tg2hdl_device_finder
from tg2hdl_ir.lazy import lazy_face

tg2hdl_device_finder.install()

# Loaded on demand: a program on the device HDL that only computes must not wait for Amaranth.
__all__, __getattr__, __dir__ = lazy_face(__name__)
