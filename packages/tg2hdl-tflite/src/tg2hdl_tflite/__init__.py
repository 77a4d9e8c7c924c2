"""TFLite files as models: int8 with the bits of TensorFlow Lite Micro, float in float32."""

from tg2hdl_ir.lazy import lazy_face

# Loaded on demand: the registry imports the plugin module of every package.
__all__, __getattr__, __dir__ = lazy_face(__name__)
