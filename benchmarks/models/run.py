"""Models as users bring them: cycles, multipliers and equality with tinygrad's own result.

    python benchmarks/models/run.py                    all models, golden result compared with tinygrad's
    python benchmarks/models/run.py --only "MLP"       some of them
    python benchmarks/models/run.py --simulate 20000   and simulated, where the plan says at most so many cycles

The golden result must equal the simulated one bit for bit. It is compared with what tinygrad itself computes on its
CPU device where clang is there, on its PYTHON device otherwise: integers exactly, floats within the tolerance that the
table names, as elementary functions and fused additions differ. Results go to models.json and models.md beside this
file; rows of models that do not run stay as they were.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.bench import json_text

HERE = Path(__file__).parent
RESULTS = HERE / "models.json"
LIMITS = """
## Where multipliers wait

- **erf-GELU.** The sums take 2,048 cycles of all multipliers. The epilogue has 9 products for each of 1,024 outputs,
  576 cycles more, so that 2,624 is the least with 16 multipliers, whatever the schedule (tanh-GELU: 3 products, 2,240).
  With `share_multipliers=False` the epilogue has 16 multipliers of its own and works through the results while the next
  ones are summed.
- **depthwise-separable block.** 12,800 products of the layers and 3,072 of BatchNorm by 16 multipliers are 992 cycles.
  Before the first product an address and a read take 4 cycles; after the last one it, the addition of the bias and the
  store take 11: 1,007 would be the least (1.26), if no multiplier ever waited in between. The kernels overlap: of 1,022
  cycles 5 are before the first product, 5 between the first two kernels, 4 and 5 between the first and the second
  product of a BatchNorm, in which half of the multipliers have nothing to do, and 11 after the last product.
  `schedule="overlap"` takes another order of steps and saves the second 5. Folded into the weights the products are
  800.
- **Cholesky, 16 multipliers.** A step has 148 products: 10 turns on 15 multipliers and on 16 alike.
"""
TOLERANCE = 1e-4
"""Largest difference of a float result, relative to the largest element."""


def measure(model: Any, case: Any, simulate: int) -> dict[str, Any]:
    """Compile, compare and perhaps simulate."""
    import tg2hdl
    from tg2hdl.bench import versions

    inputs = model.inputs(np.random.default_rng(0))
    function = model.make()
    started = time.perf_counter()
    options = tg2hdl.CompileOptions(**case.options)
    accelerator = tg2hdl.compile(
        function, *inputs, multipliers=case.multipliers, options=options, name="model"
    )
    seconds = time.perf_counter() - started
    golden = accelerator.golden(*inputs)
    difference = _difference(golden, _by_tinygrad(function, inputs))
    cycles = accelerator.predicted_cycles
    simulated = None
    if cycles <= simulate:
        result = accelerator.simulate(*inputs)
        simulated = result.cycles.compute
        if not np.array_equal(result.output, golden, equal_nan=True):
            sys.exit(f"{model.name}: simulated and golden results differ")
    return {
        "model": model.name,
        "multipliers": case.multipliers,
        "options": case.options,
        "used": max((k.multipliers for k in accelerator.kernels), default=0),
        "kernels": len(accelerator.kernels),
        "macs": model.macs,
        "predicted": cycles,
        "simulated": simulated,
        "ratio": round(cycles * case.multipliers / model.macs, 2),
        "reference": os.environ["DEV"],
        "difference": difference,
        "agrees": difference <= (TOLERANCE if golden.dtype.kind == "f" else 0),
        "compile_seconds": round(seconds, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def _by_tinygrad(function: Any, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
    from tinygrad import Tensor

    return np.asarray(function(*(Tensor(x) for x in inputs)).numpy())


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of two arrays, relative to the largest element of floats; 0 for equal ones."""
    if a.shape != b.shape or a.dtype != b.dtype:
        sys.exit(f"results of {a.shape} {a.dtype} and {b.shape} {b.dtype}")
    worst = float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64))))
    return worst / float(np.max(np.abs(b))) if a.dtype.kind == "f" else worst


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown of all rows."""
    lines = [
        "# Models",
        "",
        "Written by `python benchmarks/models/run.py`. `ratio` is cycles x multipliers / MACs of the layers, without",
        "the products of activations and normalizations. `simulated` is empty where only the golden model ran. Every",
        "row's golden result is compared with tinygrad's own: `difference` is the largest one, of floats relative to",
        f"the largest element (at most {TOLERANCE:g}, else `!`). `used` are the multipliers of the largest kernel.",
        "",
        "| model | mult | options | used | kernels | predicted | simulated | ratio | tinygrad | difference "
        "| compile s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        options = ", ".join(f"{k}={v}" for k, v in row["options"].items())
        simulated = f"{row['simulated']:,}" if row["simulated"] else ""
        mark = "" if row["agrees"] else " !"
        lines.append(
            f"| {row['model']} | {row['multipliers']} | {options} | {row['used']} | {row['kernels']} | "
            f"{row['predicted']:,} | {simulated} | {row['ratio']} | "
            f"{row['reference']} | {row['difference']:.1e}{mark} | {row['compile_seconds']} |"
        )
    versions = rows[0]["versions"] if rows else {}
    lines += ["", ", ".join(f"{name} {version}" for name, version in versions.items()), ""]
    return "\n".join(lines) + LIMITS


def main() -> None:
    """Measure the chosen models and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--simulate", type=int, default=0, help="simulate up to so many cycles")
    arguments = parser.parse_args()
    os.environ.setdefault("DEV", "CPU" if shutil.which("clang") else "PYTHON")
    sys.path.insert(0, str(HERE))
    from models import MODELS

    order = [(m.name, c.multipliers, c.options) for m in MODELS for c in m.cases]
    for model in MODELS:
        for case in model.cases if arguments.only in model.name else ():
            row = measure(model, case, arguments.simulate)
            rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
            key = (model.name, case.multipliers, case.options)
            rows = [r for r in rows if (r["model"], r["multipliers"], r["options"]) != key]
            rows = sorted(
                [*rows, row], key=lambda r: order.index((r["model"], r["multipliers"], r["options"]))
            )
            RESULTS.write_text(json_text(rows))
            (HERE / "models.md").write_text(table(rows))
            print(table([row]).removesuffix(LIMITS).splitlines()[-3], flush=True)


if __name__ == "__main__":
    main()
