"""TFLite files as models: int8 with the bits of TensorFlow Lite Micro, float in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_tflite.model import TfliteModel

__all__ = ["TfliteModel"]

# Loaded on demand: the registry imports the plugin module of every package.
__getattr__, __dir__ = lazy_names(__name__, {".model": ("TfliteModel",)})
