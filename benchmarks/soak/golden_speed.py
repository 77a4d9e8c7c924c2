"""Speed of the functional mode: kernels on the golden model and in tinygrad's interpreter.

python benchmarks/soak/golden_speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tg2hdl_backend import capture
from tg2hdl_backend.tinygrad_adapter.reference import interpret
from tg2hdl_ir.golden import evaluate

RNG = np.random.default_rng(1)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


WORKLOADS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "matmul 64x64x64": (lambda a, b: a @ b, (f32(64, 64), f32(64, 64))),
    "matmul int32 64x64x64": (
        lambda a, b: a @ b,
        (RNG.integers(-9, 9, (64, 64), np.int32), RNG.integers(-9, 9, (64, 64), np.int32)),
    ),
    "conv 3x3, 4 to 8 channels, 12x12": (
        lambda x, w: x.conv2d(w, padding=1),
        (f32(1, 4, 12, 12), f32(8, 4, 3, 3)),
    ),
    "softmax 32x64": (lambda x: x.softmax(), (f32(32, 64),)),
}


def main() -> None:
    for name, (model, inputs) in WORKLOADS.items():
        captured = capture(model, *inputs, fold=False)
        contents = {n: np.zeros(b.depth, b.dtype.numpy()) for n, b in enumerate(captured.program.buffers)}
        given = captured.bind(*inputs).values()
        contents |= zip((s.buffer for s in captured.inputs), given, strict=True)
        golden = interpreter = 0.0
        for call, uops in zip(captured.program.calls, captured.kernel_uops, strict=True):
            slots = {m.idx: n for m, n in zip(call.kernel.buffers, call.buffers, strict=True)}
            given = {s: contents[n] for s, n in slots.items()}
            evaluate(call.kernel, given)
            repeats = []
            for _ in range(5):
                started = time.process_time()
                results = evaluate(call.kernel, given)
                repeats.append(time.process_time() - started)
            golden += min(repeats)
            started = time.process_time()
            interpret(uops, [contents[n] for n in call.buffers])
            interpreter += time.process_time() - started
            contents.update({slots[s]: array for s, array in results.items()})
        print(
            f"{name:36s} golden {golden * 1e3:8.2f} ms, interpreter {interpreter * 1e3:9.1f} ms: "
            f"{interpreter / golden:7.0f} times"
        )


if __name__ == "__main__":
    main()
