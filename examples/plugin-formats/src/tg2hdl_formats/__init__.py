"""Posit and Microscaling (MX) number formats for tg2hdl.

Names are imported when they are first used, so that loading the plugin imports no hardware library.
"""

from tg2hdl_ir.lazy import lazy_face

__all__, __getattr__, __dir__ = lazy_face(__name__)
