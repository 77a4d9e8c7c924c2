"""A quantization method: ranges that leave out the largest value in a hundred."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir import QuantizerDef, hookimpl


def trimmed(values: np.ndarray, bits: int) -> tuple[float, float]:
    """Range of a tensor from values that it took on samples."""
    low, high = np.quantile(values, (0.01, 0.99))
    return min(float(low), 0.0), max(float(high), 0.0)


@hookimpl
def tg2hdl_quantizers() -> list[QuantizerDef]:
    """For ``tg2hdl.quantize(model, samples, calibration="trimmed")`` and ``tg2hdl quantize --calibration trimmed``."""
    return [QuantizerDef("trimmed", "range of 98 % of the values", calibrate=trimmed)]
