"""From PyTorch's ONNX file to hardware: ``net.onnx`` is what ``export.py`` wrote.

Run it: ``python to_hardware.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tg2hdl

__all__ = ["PYTORCH", "run"]

PYTORCH = np.array([[-0.039958834648132324, -0.320433109998703, 0.02113419398665428]], np.float32)
"""What PyTorch 2.13 computed for the example input; printed by ``export.py``."""


def run() -> tg2hdl.Accelerator:
    """Compile it and compare with PyTorch's own result."""
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    accelerator = tg2hdl.compile(Path(__file__).parent / "net.onnx", x, multipliers=4)
    output = accelerator.golden(x)
    np.testing.assert_allclose(output, PYTORCH, atol=2e-6)
    for kernel in accelerator.kernels:
        print(f"{kernel.cycles:6} cycles  {kernel.layer or kernel.name}")
    print(f"{accelerator.predicted_cycles} cycles, {output.tolist()}")
    return accelerator


if __name__ == "__main__":
    run()
