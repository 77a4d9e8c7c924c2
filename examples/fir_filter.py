"""An audio filter: a 15-tap low pass over 16-bit samples, as a one-dimensional convolution.

Run it: ``python fir_filter.py``.
"""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["TAPS", "low_pass", "run"]

TAPS = np.round(np.hanning(17)[1:-1] / np.hanning(17).sum() * 2**15).astype(np.int16)


def low_pass(samples: Tensor) -> Tensor:
    """Filtered samples of shape (1, 1, n - 14); the taps are fixed-point numbers of 15 fractional bits."""
    taps = Tensor(TAPS.reshape(1, 1, -1)).cast("int32")
    return (samples.cast("int32").conv2d(taps) >> 15).cast("int16")


def run(length: int = 142) -> tg2hdl.Accelerator:
    """Filter a tone with noise and compare with numpy."""
    rng = np.random.default_rng(1)
    time = np.arange(length)
    tone = 8000 * np.sin(2 * np.pi * time / 64) + rng.normal(0, 2000, length)
    samples = tone.astype(np.int16).reshape(1, 1, -1)
    accelerator = tg2hdl.compile(low_pass, samples, multipliers=5)
    filtered = accelerator.simulate(samples).output[0, 0]
    expected = np.convolve(samples[0, 0].astype(np.int64), TAPS[::-1], mode="valid") >> 15
    np.testing.assert_array_equal(filtered, expected)
    print(f"{filtered.size} samples in {accelerator.predicted_cycles} cycles with 5 multipliers")
    return accelerator


if __name__ == "__main__":
    run()
