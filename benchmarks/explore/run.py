"""How near `--fit` comes to a sweep by hand, and how long it takes.

    python benchmarks/explore/run.py                    all models, written to fit.json and fit.md
    python benchmarks/explore/run.py --only softmax     some of them, printed only

The sweep compiles a model with eight budgets of multipliers, takes the fewest cycles that fit the part, and shares
nothing with the exploration.  The status is 1 when `--fit` takes over 1.02 times as many cycles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import tools, write_results
from tg2hdl_ir import Tg2hdlError

HERE = Path(__file__).parent
BOARD, PART = "ulx3s-85f", "ecp5-85k"
BUDGETS = (1, 2, 4, 8, 12, 16, 32, 64)
ORDERS = ("strict", "relaxed")
MOST = 1.02
"""Cycles of `--fit` in those of the sweep."""


@dataclass(frozen=True)
class Model:
    """A model with its example inputs."""

    name: str
    call: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]


def models() -> list[Model]:
    """Softmax, RMSNorm, a GRU cell, and a step of a decoder with its cache."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Tensor:
        return Tensor(rng.standard_normal(shape).astype(np.float32)).realize()

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    gain = weights(96)

    def rms_norm(x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gain

    def gru_cell(x: Tensor, h: Tensor) -> Tensor:
        sums = [x @ into[n] + bias[n] for n in range(3)]
        back = [h @ hidden[n] for n in range(3)]
        reset, update = (sums[0] + back[0]).sigmoid(), (sums[1] + back[1]).sigmoid()
        return (1 - update) * (sums[2] + reset * back[2]).tanh() + update * h

    into, hidden = [weights(20, 40) for _ in range(3)], [weights(40, 40) for _ in range(3)]
    bias = [weights(40) for _ in range(3)]
    width, heads, length = 32, 4, 24
    query, key, value, out = (weights(width, width) for _ in range(4))
    up, down = weights(width, 64), weights(64, width)

    def decode_step(x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        def split(t: Tensor) -> Tensor:
            return t.reshape(-1, heads, width // heads).transpose(0, 1)

        all_keys, all_values = keys.cat(x @ key), values.cat(x @ value)
        scores = split(x @ query) @ split(all_keys).transpose(-1, -2) * (width // heads) ** -0.5
        mixed = (scores.softmax(-1) @ split(all_values)).transpose(0, 1).reshape(1, width)
        x = x + mixed @ out
        return x + (x @ up).relu() @ down

    cache = zeros(length, width)
    return [
        Model("RMSNorm 8x96", rms_norm, (zeros(8, 96),)),
        Model("softmax 4x777", lambda x: x.softmax(-1), (zeros(4, 777),)),
        Model("GRU 20-40", gru_cell, (zeros(1, 20), zeros(1, 40))),
        Model("decode step", decode_step, (zeros(1, width), cache, cache)),
    ]


def measured(model: Model, order: str) -> dict[str, Any]:
    """A row of the table; of the sweep only designs that are faster than that of `--fit` are asked whether they fit."""
    options = tg2hdl.CompileOptions(float_order=order, validate="off")
    started = time.perf_counter()
    fitted = tg2hdl.compile(model.call, *model.inputs, options=options, fit=BOARD)
    seconds = round(time.perf_counter() - started, 1)
    least = fitted.predicted_cycles
    cycles: dict[int | None, int | None] = {}
    best, budget = least, None
    for wanted in (None, *BUDGETS):
        try:
            made = tg2hdl.compile(model.call, *model.inputs, multipliers=wanted, options=options)
        except Tg2hdlError:
            cycles[wanted] = None
            continue
        found = cycles[wanted] = made.predicted_cycles
        if found < best and made.fits(PART):
            best, budget = found, wanted
    return {
        "model": model.name,
        "float_order": order,
        "one_lane": cycles.pop(None),
        "sweep": cycles,
        "faster_budget_that_fits": budget,
        "best": best,
        "fit_multipliers": fitted.options.multipliers,
        "fit_schedule": fitted.options.schedule,
        "fit": least,
        "ratio": round(least / best, 3),
        "seconds": seconds,
    }


def main() -> int:
    """Measure, and write the results of all models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="models whose name contains this")
    options = parser.parse_args()
    rows = []
    for order in ORDERS:
        for model in models():
            if options.only is None or options.only in model.name:
                rows.append(measured(model, order))
                print(json.dumps(rows[-1]), flush=True)
                if options.only is None:
                    write_results(HERE / "fit.json", {"board": BOARD, "most": MOST, "rows": rows}, table)
    return int(not rows or any(row["ratio"] > MOST for row in rows))


def table(record: dict[str, Any]) -> str:
    """Markdown of the results."""
    rows = record["rows"]
    lines = [
        "# `--fit` against a sweep by hand",
        "",
        f"Written by `python benchmarks/explore/run.py` on {record['date']}, for {BOARD}. Cycles from start to",
        "done, exact.",
        f"The sweep takes {', '.join(map(str, BUDGETS))} multipliers, with all else as it is by default; `best` is the",
        "best of it that fits, or the design of `--fit` where none that fits is faster.",
        "",
        "| model | float order | one lane | best | `--fit` | fit / best | lane / fit | options of fit | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gain = row["one_lane"] / row["fit"]
        chosen = f"{row['fit_multipliers']} multipliers, {row['fit_schedule']}"
        lines.append(
            f"| {row['model']} | {row['float_order']} | {row['one_lane']:,} | {row['best']:,} | "
            f"{row['fit']:,} | {row['ratio']:.3f} | {gain:.1f} | {chosen} | {row['seconds']:.0f} |"
        )
    done = {(row["model"], row["float_order"]) for row in rows}
    wanted = [(model.name, order) for order in ORDERS for model in models()]
    if missing := [f"{name} ({order})" for name, order in wanted if (name, order) not in done]:
        lines += ["", f"Not measured in this run, which was stopped: {', '.join(missing)}."]
    return "\n".join([*lines, "", tools(record), ""])


if __name__ == "__main__":
    raise SystemExit(main())
