"""Equal kernels on one core: cells after synthesis over time steps and repeated blocks.

    python benchmarks/repeats/run.py                 all rows: RNN and LSTM over 4 and 64 steps, ResNet-8 and ResNet-20
    python benchmarks/repeats/run.py --only RNN      some of them
    python benchmarks/repeats/run.py --only RNN --alone   the same with a core for each kernel call

Cells are those of Yosys for an ECP5 (`synth_ecp5`), without place and route. A row's golden result is compared with
tinygrad's own; what takes at most SIMULATED cycles is simulated too, and must give the golden bits in the predicted
cycles. Results go to repeats.json and repeats.md beside this file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl.bench import json_text

HERE = Path(__file__).parent
RESULTS = HERE / "repeats.json"
SIMULATED = 30_000
TOLERANCE = 1e-4
FEATURES, HIDDEN = 8, 16

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def rnn(steps: int) -> Case:
    """int8 cell over time: both products, shifted and clipped."""
    from tinygrad import Tensor

    rng = np.random.default_rng(0)
    into = Tensor(rng.integers(-8, 8, (FEATURES, HIDDEN)).astype(np.int8))
    back = Tensor(rng.integers(-8, 8, (HIDDEN, HIDDEN)).astype(np.int8))

    def model(x: Any) -> Any:
        h = Tensor.zeros(1, HIDDEN, dtype="int8")
        for t in range(steps):
            sums = x[t : t + 1].cast("int32").dot(into.cast("int32")) + h.cast("int32").dot(
                back.cast("int32")
            )
            h = (sums.clip(-2032, 2032) // 16).cast("int8").contiguous()
        return h

    return model, (rng.integers(-8, 8, (steps, FEATURES)).astype(np.int8),)


def lstm(steps: int) -> Case:
    """Float cell over time: four gates, sigmoid and tanh."""
    from tinygrad import Tensor

    rng = np.random.default_rng(1)
    weights = Tensor((rng.normal(size=(FEATURES + HIDDEN, 4 * HIDDEN)) / 4).astype(np.float32))

    def model(x: Any) -> Any:
        h, c = Tensor.zeros(1, HIDDEN), Tensor.zeros(1, HIDDEN)
        for t in range(steps):
            gates = x[t : t + 1].cat(h, dim=1).dot(weights).contiguous()
            i, f, g, o = gates.chunk(4, dim=1)
            c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()
            h = (o.sigmoid() * c.tanh()).contiguous()
        return h

    return model, (rng.normal(size=(steps, FEATURES)).astype(np.float32),)


def resnet(name: str) -> Case:
    """A model of benchmarks/models."""
    sys.path.insert(0, str(HERE.parent / "models"))
    from models import MODELS

    (model,) = (m for m in MODELS if m.name == name)
    return model.make(), model.inputs(np.random.default_rng(0))


CASES: dict[str, tuple[Callable[[], Case], int]] = {
    "RNN int8, 4 steps": (lambda: rnn(4), 4),
    "RNN int8, 64 steps": (lambda: rnn(64), 4),
    "LSTM fp32, 4 steps": (lambda: lstm(4), 1),
    "LSTM fp32, 64 steps": (lambda: lstm(64), 1),
    "ResNet-8 int8": (lambda: resnet("ResNet-8 int8"), 16),
    "ResNet-20 int8": (lambda: resnet("ResNet-20 int8"), 16),
}
COMPARED = (
    ("RNN int8, 64 steps", "RNN int8, 4 steps"),
    ("LSTM fp32, 64 steps", "LSTM fp32, 4 steps"),
    ("ResNet-20 int8", "ResNet-8 int8"),
)


def measure(name: str, alone: bool) -> dict[str, Any]:
    """One row, in this process."""
    import tg2hdl
    from tg2hdl.bench import versions
    from tg2hdl_synth import part_named
    from tg2hdl_synth.families.ecp5.tools import Ecp5

    make, multipliers = CASES[name]
    model, inputs = make()
    started = time.process_time()
    options = tg2hdl.CompileOptions(share_kernels=not alone)
    accelerator = tg2hdl.compile(model, *inputs, multipliers=multipliers, options=options, name="model")
    seconds = time.process_time() - started
    golden = accelerator.golden(*inputs)
    (agreement,) = accelerator.check(golden, *inputs)
    if agreement.first >= 0:
        sys.exit(f"{name}: golden and tinygrad's own results differ: {agreement}")
    simulated = None
    if accelerator.predicted_cycles <= SIMULATED:
        result = accelerator.simulate(*inputs)
        simulated = result.cycles.compute
        if not np.array_equal(result.output, golden) or simulated != accelerator.predicted_cycles:
            sys.exit(f"{name}: simulated and golden results or cycles differ")
    text = accelerator.rtlil()
    cells = Ecp5().synthesize(text, part_named("ecp5-85k"), progress=lambda message: None).total
    return {
        "model": name,
        "alone": alone,
        "kernels": len(accelerator.design.kernels),
        "cores": len(accelerator.design.core_plans),
        "predicted": accelerator.predicted_cycles,
        "simulated": simulated,
        "cells": {str(kind): int(count) for kind, count in cells.items()},
        "rtlil_bytes": len(text),
        "plan_seconds": round(seconds, 1),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def logic(row: dict[str, Any]) -> int:
    """LUTs and flip-flops."""
    return int(row["cells"]["comb"]) + int(row["cells"]["ff"])


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown of all rows."""
    kinds = ("comb", "ff", "bram", "dsp")
    lines = [
        "# Equal kernels on one core",
        "",
        "Written by `python benchmarks/repeats/run.py`: cells of Yosys for an ECP5, without place and route; golden",
        f"results equal tinygrad's own, rows with up to {SIMULATED:,} cycles are simulated. *alone*: a core for each",
        "kernel call (`share_kernels=False`).",
        "",
        "| model | kernels | cores | cycles | simulated | LUTs | FFs | block RAMs | multipliers | RTLIL kB | plan s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = row["model"] + (", alone" if row["alone"] else "")
        cells = " | ".join(f"{row['cells'].get(kind, 0):,}" for kind in kinds)
        simulated = f"{row['simulated']:,}" if row["simulated"] else ""
        lines.append(
            f"| {name} | {row['kernels']} | {row['cores']} | {row['predicted']:,} | {simulated} | {cells} | "
            f"{row['rtlil_bytes'] / 1000:,.0f} | {row['plan_seconds']} |"
        )
    found = {row["model"]: row for row in rows if not row["alone"]}
    lines += ["", "| LUTs and flip-flops | ratio |", "|---|---|"]
    for more, less in COMPARED:
        if more in found and less in found:
            ratio = logic(found[more]) / logic(found[less])
            lines.append(f"| {more} / {less} | {ratio:.2f} |")
    versions = rows[0]["versions"] if rows else {}
    return "\n".join([*lines, "", ", ".join(f"{n} {v}" for n, v in versions.items()), ""])


def main() -> None:
    """Measure the chosen rows, each in a process of its own, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--alone", action="store_true", help="with a core for each kernel call")
    arguments = parser.parse_args()
    os.environ.setdefault("DEV", "PYTHON")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    names = list(CASES)
    for name in names:
        if arguments.only not in name:
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(measure, (name, arguments.alone))
        rows = [r for r in rows if (r["model"], r["alone"]) != (name, arguments.alone)]
        rows = sorted([*rows, row], key=lambda r: (names.index(r["model"]), r["alone"]))
        RESULTS.write_text(json_text(rows))
        (HERE / "repeats.md").write_text(table(rows))
        print({k: v for k, v in row.items() if k != "versions"}, flush=True)


if __name__ == "__main__":
    main()
