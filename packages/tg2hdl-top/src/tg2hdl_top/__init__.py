"""Joins kernels into one design: shared buffers, sequencing and host ports."""

from tg2hdl_ir.lazy import lazy_face

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
__all__, __getattr__, __dir__ = lazy_face(__name__)
