"""Typed kernel IR, verifier, golden model and plugin registry of tg2hdl."""

from tg2hdl_ir.lazy import lazy_face

__all__, __getattr__, __dir__ = lazy_face(__name__)
