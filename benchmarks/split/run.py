"""Models in parts: cycles from result to result, predicted and simulated, and bits from part to part.

    python benchmarks/split/run.py    writes split.json and split.md; a minute

All parts are simulated together, and every result is compared with the golden model of the whole. A whole model takes a
result in the cycles of its runs and packets, as one part behind AXI4-Stream.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

import tg2hdl
from tg2hdl.bench import json_text, markdown_table
from tg2hdl.model_file import load_model_file
from tg2hdl_ir import UnsupportedError
from tg2hdl_top.ports.axi_stream import AxiStreamPort

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from workloads import WORKLOADS  # noqa: E402

MULTIPLIERS = 4
RUNS = 4


def models():
    """Name, model and a function of seeds to inputs."""
    for workload in WORKLOADS:
        if workload.name in ("mlp int8", "cnn int8"):
            yield (
                workload.name,
                workload.model(),
                lambda s, w=workload: tuple(w.inputs(np.random.default_rng(s))),
            )
    file = load_model_file(str(HERE.parents[1] / "examples" / "digits" / "int8_mlp.py"))
    yield (
        "digits int8_mlp",
        file.model,
        lambda s: (np.random.default_rng(s).integers(-128, 128, (1, 64)).astype(np.int8),),
    )


def rows():
    options = tg2hdl.CompileOptions(ports=("axi-stream",), multipliers=MULTIPLIERS)
    for name, model, inputs in models():
        whole = tg2hdl.compile(model, *inputs(0), options=options)
        serves = whole.design.ports[0].serves
        one = AxiStreamPort.run_interval(serves, whole.predicted_cycles)
        yield {
            "model": name,
            "parts": 1,
            "bits between parts": "",
            "interval": one,
            "simulated": "",
            "faster": 1.0,
        }
        for parts in (2, 3):
            try:
                made = tg2hdl.split(model, *inputs(0), parts=parts, multipliers=MULTIPLIERS)
            except UnsupportedError:
                continue
            batch = [inputs(seed) for seed in range(RUNS)]
            found = made.simulate(batch)
            for x, (y,) in zip(batch, found.outputs, strict=True):
                np.testing.assert_array_equal(y, np.ravel(whole.golden(*x)))
            (interval,) = set(np.diff(found.ends).tolist())
            bits = ", ".join(f"{sum(b for _, b in link):,}" for link in made.links)
            yield {
                "model": name,
                "parts": parts,
                "bits between parts": bits,
                "interval": made.predicted_interval,
                "simulated": interval,
                "faster": round(one / interval, 2),
            }


def main() -> None:
    found = []
    for row in rows():
        found.append(row)
        print(row, flush=True)
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "tinygrad": version("tinygrad"),
        "amaranth": version("amaranth"),
    }
    (HERE / "split.json").write_text(json_text(facts | {"rows": found}))
    lines = [
        f"Cycles from result to result of models in parts, {MULTIPLIERS} multipliers in each "
        f"({facts['date']}, tinygrad {facts['tinygrad']}, Amaranth {facts['amaranth']}).",
        "",
        *markdown_table(list(found[0]), (row.values() for row in found)),
    ]
    (HERE / "split.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
