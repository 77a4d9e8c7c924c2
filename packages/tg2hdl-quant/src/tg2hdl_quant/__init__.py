"""Post-training quantization for integer hardware.

Names are imported when they are first used: the plugin module of this package must not bring in numpy.
"""

from tg2hdl_ir.lazy import lazy_face

__all__, __getattr__, __dir__ = lazy_face(__name__)
