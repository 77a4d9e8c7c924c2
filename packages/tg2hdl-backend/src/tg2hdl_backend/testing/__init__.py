"""Programs that must run, and how their results are compared."""

from tg2hdl_ir.lazy import lazy_face

__all__, __getattr__, __dir__ = lazy_face(__name__)
