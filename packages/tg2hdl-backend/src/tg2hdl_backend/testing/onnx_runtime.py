"""ONNX Runtime as a reference."""

from __future__ import annotations

from os import PathLike
from typing import Any

__all__ = ["runtime_session"]


def runtime_session(model: str | PathLike[str] | bytes, options: Any = None) -> Any:
    """A session of ONNX Runtime with the same integers on every processor.

    By default it adds pairs of int8 products in 16 bits, which saturate, on x86 processors without VNNI.

    Parameters
    ----------
    model : path or bytes
    options : onnxruntime.SessionOptions, optional
    """
    import onnxruntime as ort

    options = ort.SessionOptions() if options is None else options
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
