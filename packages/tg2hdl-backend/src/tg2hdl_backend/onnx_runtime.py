"""ONNX Runtime with the same integers on every processor."""

from __future__ import annotations

from os import PathLike
from typing import Any

__all__ = ["runtime_session"]


def runtime_session(model: str | PathLike[str] | bytes, options: Any = None) -> Any:
    """A session of ONNX Runtime on the CPU, with exact sums of 8-bit products.

    By default its kernels of uint8 activations add pairs of products in 16 bits, which saturate, on x86 processors
    without VNNI.

    Parameters
    ----------
    model : path or bytes
    options : onnxruntime.SessionOptions, optional
        Its entry ``session.x64quantprecision`` is changed.
    """
    import onnxruntime as ort
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Missing

    options = ort.SessionOptions() if options is None else options
    for is_precise in ("1", "0"):
        options.add_session_config_entry("session.x64quantprecision", is_precise)
        try:
            return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Missing:
            # Precise sums have no kernels for int8 activations, whose usual ones do not saturate.
            if is_precise == "0":
                raise
    raise AssertionError
