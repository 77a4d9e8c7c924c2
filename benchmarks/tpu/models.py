"""Four int8 models in tinygrad on one processor, and as generated designs of as many multipliers.

    python benchmarks/tpu/models.py [--select mlp] [-o benchmarks/tpu/models.md]

The processor is the machine of the device TINYTPU (4x4 products, 16 lanes; simulator of instructions).  The generated
designs have 16 multipliers; their cycles are those of their plans, which simulation confirms elsewhere.  Both results
are compared with numpy.  Weights are random.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NOOPT"] = "1"

import numpy as np
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl_tpu.device import runtime

MULTIPLIERS = 16
RNG = np.random.default_rng(0)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def wide(x: Any) -> Any:
    return x.cast(dtypes.int32) if isinstance(x, Tensor) else x.astype(np.int32)


def narrow(x: Any, shift: int) -> Any:
    """Divide by a power of two, and keep what int8 holds: without `contiguous`, tinygrad would store int32."""
    x = (x >> shift).clip(-128, 127)
    return x.cast(dtypes.int8).contiguous() if isinstance(x, Tensor) else x.astype(np.int8)


def relu(x: Any) -> Any:
    return x.relu() if isinstance(x, Tensor) else np.maximum(x, 0)


def conv(x: Any, w: Any, stride: int) -> Any:
    if isinstance(x, Tensor):
        return wide(x).conv2d(wide(w), stride=stride, padding=1)
    padded = np.pad(wide(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("bcyxij,ocij->boyx", windows, wide(w))


def mlp(x: Any, w: list[Any]) -> Any:
    return wide(narrow(relu(wide(x) @ wide(w[0])), 9)) @ wide(w[1])


def cnn(x: Any, w: list[Any]) -> Any:
    x = narrow(relu(conv(x, w[0], 1)), 7)
    x = narrow(relu(conv(x, w[1], 2)), 9)
    return wide(x.reshape(1, -1)) @ wide(w[2])


def transformer(x: Any, w: list[Any]) -> Any:
    """A block with one head, whose weights of attention are clipped to 0 instead of a softmax."""
    query, key, value = (narrow(wide(x) @ wide(matrix), 9) for matrix in w[:3])
    weights = narrow(relu(wide(query) @ wide(key.transpose(1, 0) if isinstance(key, Tensor) else key.T)), 10)
    x = narrow(wide(x) + (wide(weights) @ wide(value) >> 9), 1)
    return narrow(wide(x) + (wide(narrow(relu(wide(x) @ wide(w[3])), 9)) @ wide(w[4]) >> 9), 1)


def rnn(x: Any, w: list[Any]) -> Any:
    state = None
    for step in range(x.shape[0]):
        sums = wide(x[step : step + 1]) @ wide(w[0])
        sums = sums if state is None else sums + wide(state) @ wide(w[1])
        state = narrow(relu(sums), 8)
    return wide(state) @ wide(w[2])


Model = Callable[[Any, list[Any]], Any]
MODELS: dict[str, tuple[str, Model, np.ndarray, list[np.ndarray]]] = {
    "mlp": ("MLP 64-32-10", mlp, int8(1, 64), [int8(64, 32), int8(32, 10)]),
    "cnn": (
        "CNN 8x8, 3x3 to 8 and to 16 channels, 10 classes",
        cnn,
        int8(1, 1, 8, 8),
        [int8(8, 1, 3, 3), int8(16, 8, 3, 3), int8(256, 10)],
    ),
    "transformer": (
        "transformer block, 16 tokens of 32, network of 64",
        transformer,
        int8(16, 32),
        [*(int8(32, 32) for _ in range(3)), int8(32, 64), int8(64, 32)],
    ),
    "rnn": ("RNN, 8 steps of 16, state of 32", rnn, int8(8, 16), [int8(16, 32), int8(32, 32), int8(32, 10)]),
}


def processor(
    model: Model, shape: tuple[int, ...], weights: list[np.ndarray]
) -> tuple[int, int, int, int, float]:
    """Cycles with new weights and with kept copies of them, kernels, words of their programs, and seconds to compile.

    Each call has inputs of its own.
    """
    found: list[tuple[int, int]] = []
    run = runtime.LoadedKernel._run

    def recorded(self: Any, words: Any, *arguments: Any) -> Any:
        result = run(self, words, *arguments)
        found.append((result.cycles, len(words.words)))
        return result

    held = [Tensor(a, device="TINYTPU").realize() for a in weights]
    runtime.LoadedKernel._run = recorded  # type: ignore[method-assign]
    begun = time.process_time()
    calls: list[int] = []
    try:
        while len(calls) < 3:
            x = int8(*shape)
            found.clear()
            result = model(Tensor(x, device="TINYTPU").realize(), held).numpy()
            np.testing.assert_array_equal(result, model(x, weights))
            calls.append(sum(c for c, _ in found))
    finally:
        runtime.LoadedKernel._run = run  # type: ignore[method-assign]
    seconds = time.process_time() - begun
    return max(calls), calls[-1], len(found), sum(n for _, n in found), seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--select", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.select:
        title, model, x, weights = MODELS[name]
        expected = model(x, weights)
        first, cycles, kernels, words, seconds = processor(model, x.shape, weights)
        begun = time.process_time()
        held = [Tensor(w) for w in weights]
        accelerator = tg2hdl.compile(lambda t, m=model, w=held: m(t, w), x, multipliers=MULTIPLIERS)
        compiled = time.process_time() - begun
        np.testing.assert_array_equal(accelerator.golden(x), expected)
        generated = accelerator.predicted_cycles
        bits = sum(w.size for w in weights) // 64
        rows.append(
            f"| {title} | {first:,} | {cycles:,} | {kernels} | {generated:,} | {cycles / generated:.1f} |"
            f" {words + bits:,} cycles, compiled in {seconds:.1f} s | {compiled:.1f} s, and a bitstream |"
        )
        print(rows[-1], flush=True)
    if options.output:
        options.output.write_text(PAGE + "\n".join(rows) + "\n")


PAGE = """# int8 models of tinygrad: one processor, and generated designs

`python benchmarks/tpu/models.py -o benchmarks/tpu/models.md`: random weights; every result of both is that of
numpy. The processor runs the kernels that tinygrad makes for the device TINYTPU (one machine of 4x4 products
and 16 lanes, no pipeline registers), the generated designs have 16 multipliers. *First* is the call that makes
copies of the weights as tiles of the matrix unit, which are kept; the later calls have other inputs.
*Another model* is what changes it: for the processor, program words and rows of weights at a host port that
takes one of each a cycle, and the CPU seconds in which tinygrad and the device compile the kernels; for a
generated design, the CPU seconds up to its plan, then place and route.

| | processor, first | cycles | kernels | generated, cycles | ratio | another model, processor | generated |
|---|---|---|---|---|---|---|---|
"""


if __name__ == "__main__":
    main()
