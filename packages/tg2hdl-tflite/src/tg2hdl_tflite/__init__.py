"""TFLite files as models: int8 with the bits of TensorFlow Lite Micro, float in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_tflite.model import TfliteModel

__all__ = ["TfliteModel"]


def __getattr__(name: str) -> Any:
    # Loaded on demand: the registry imports the plugin module of every package.
    if name != "TfliteModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tg2hdl_tflite.model import TfliteModel

    return TfliteModel
