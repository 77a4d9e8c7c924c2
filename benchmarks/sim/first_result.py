"""CPU time to the first simulated result of small float models: ``python benchmarks/sim/first_result.py``.

Each model runs in a process of its own as a user runs it, ``tg2hdl.compile`` and ``Accelerator.simulate``, with an
empty cache.  Writes ``first_result.json`` beside this file.
"""

import multiprocessing
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.bench import json_text

JSON = Path(__file__).with_suffix(".json")


def cpu_seconds() -> float:
    """CPU time of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def models() -> dict[str, tuple[Any, tuple[int, ...], int]]:
    """Function, shape of its input and multipliers, by name."""
    from tinygrad import Tensor

    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Tensor:
        return Tensor(rng.standard_normal(shape).astype(np.float32))

    w1, w2, wide, kernels = weight(30, 16), weight(16, 1), weight(32, 64), weight(8, 8, 3, 3)
    return {
        "MLP 30-16-1": (lambda x: (x @ w1).relu() @ w2, (1, 30), 16),
        "MLP 30-16-1, sigmoid": (lambda x: ((x @ w1).relu() @ w2).sigmoid(), (1, 30), 16),
        "softmax 16x64": (lambda x: x.softmax(), (16, 64), 16),
        "conv 3x3 8->8 on 8x8": (lambda x: x.conv2d(kernels, padding=1).relu(), (1, 8, 8, 8), 16),
        "matmul 16x32x64, tanh-GELU": (lambda x: (x @ wide).gelu(), (16, 32), 16),
    }


def measure(name: str) -> dict[str, Any]:
    """Compile and simulate once, in this process."""
    import tg2hdl

    function, shape, multipliers = models()[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TG2HDL_CACHE_DIR"] = folder
        started = cpu_seconds()
        accelerator = tg2hdl.compile(function, x, multipliers=multipliers)
        compiled = cpu_seconds()
        run = accelerator.simulate(x)
        ended = cpu_seconds()
    assert np.asarray(run.output).tobytes() == np.asarray(accelerator.golden(x)).tobytes()
    return {
        "model": name,
        "engine": run.engine,
        "cycles": run.cycles.compute,
        "compile": round(compiled - started, 1),
        "simulate": round(ended - compiled, 1),
        "all": round(ended - started, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure, and write the results."""
    rows = []
    for name in models():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (name,)))
        print(rows[-1], flush=True)
        JSON.write_text(json_text(rows))


if __name__ == "__main__":
    main()
