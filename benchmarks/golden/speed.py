"""Time the golden model against tinygrad's PYTHON device.

    python benchmarks/golden/speed.py [--json build/golden.json]

Prints CPU milliseconds of the kernels of each workload (without capture and compilation) and their ratio, and fails
when a result differs or the golden model is less than 100 times as fast.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WANTED = 100.0


def workloads() -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def bytes_(*shape: int) -> np.ndarray:
        return rng.integers(-128, 128, shape).astype(np.int8)

    def integer_matmul(a: Any, b: Any) -> Any:
        return a.cast("int32") @ b.cast("int32")

    return {
        "matmul 64x64x64 fp32": (lambda a, b: a @ b, (floats(64, 64), floats(64, 64))),
        "matmul 64x64x64 int8": (integer_matmul, (bytes_(64, 64), bytes_(64, 64))),
        "conv 3x3 fp32": (lambda x, w: x.conv2d(w, padding=1), (floats(1, 8, 16, 16), floats(8, 8, 3, 3))),
        "softmax 64x256 fp32": (lambda x: x.softmax(), (floats(64, 256),)),
    }


def golden(model: Callable[..., Any], inputs: tuple[np.ndarray, ...]) -> tuple[float, np.ndarray]:
    """Best CPU seconds of three runs, and the result."""
    from tg2hdl_backend import capture
    from tg2hdl_ir import evaluate_program

    captured = capture(model, *inputs)
    arguments = {spec.name: x for spec, x in zip(captured.inputs, inputs, strict=True)}
    seconds, result = [], np.zeros(0)
    for _ in range(3):
        started = time.process_time()
        outputs = evaluate_program(captured.program, arguments, captured.var_vals)
        seconds.append(time.process_time() - started)
        result = next(iter(outputs.values()))
    return min(seconds), result


def interpreter(model: Callable[..., Any], inputs: tuple[np.ndarray, ...]) -> tuple[float, np.ndarray]:
    """CPU seconds that tinygrad's PYTHON device spends in the kernels, and the result."""
    from tinygrad import Tensor
    from tinygrad.runtime.ops_python import PythonProgram

    spent = 0.0
    call = PythonProgram.__call__

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal spent
        started = time.process_time()
        try:
            return call(self, *args, **kwargs)
        finally:
            spent += time.process_time() - started

    tensors = [Tensor(x, device="PYTHON").realize() for x in inputs]
    PythonProgram.__call__ = timed
    try:
        result = model(*tensors).numpy()
    finally:
        PythonProgram.__call__ = call
    return spent, result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    rows, failed = [], False
    for name, (model, inputs) in workloads().items():
        fast, result = golden(model, inputs)
        slow, reference = interpreter(model, inputs)
        # The elementary functions and the order of the interpreter's own kernels differ in the last places.
        exact = not np.issubdtype(reference.dtype, np.floating)
        same = (
            np.array_equal(result, reference)
            if exact
            else np.allclose(result, reference, rtol=1e-5, atol=1e-5)
        )
        ratio = slow / fast
        failed |= not same or ratio < WANTED
        rows.append(
            {"workload": name, "golden_ms": fast * 1e3, "python_ms": slow * 1e3, "ratio": ratio, "same": same}
        )
        print(
            f"{name:24s} {fast * 1e3:9.2f} ms {slow * 1e3:11.1f} ms  {ratio:8.0f} x  {'' if same else 'DIFFERS'}"
        )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=1, default=float))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
