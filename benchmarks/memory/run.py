"""Block RAMs of networks as hardware: what buffers take in memories of their own, and in memories that they share.

``python benchmarks/memory/run.py [FOLDER] [--networks NAME...] [--multipliers N...] [--simulate]`` writes
``memory.json`` and ``memory.md``; rows that were not measured stay.

FOLDER (or the variable MLPERF_TINY) holds the networks of MLPerf Tiny, see ``benchmarks/mlperf_tiny/run.py``; without
them only the repository's own network, ``lenet5``, is measured.  ``--simulate`` also runs one input of each design in
simulated hardware, and compares codes and cycles.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bench import tools, write_results
from tg2hdl.compiled_model import CompiledModel
from tg2hdl_synth import part_named
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_top.memory_blocks import memory_blocks

HERE = Path(__file__).parent
MULTIPLIERS = (16, 64, 144)
OWN = "lenet5"
NETWORKS = (
    "ad_autoencoder_int8",
    "kws_dscnn_int8",
    "sww_streaming_int8",
    "ic_resnet8_int8",
    "vww_mobilenet_int8",
)
PARTS = ("ecp5-25k", "ecp5-45k", "ecp5-85k")


class LeNet5:
    """LeNet-5 of int8 with random weights; sums are shifted to 8 bits."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        shapes = [(6, 1, 5, 5), (16, 6, 5, 5), (400, 120), (120, 84), (84, 10)]
        self.weights = [Tensor(rng.integers(-128, 128, s).astype(np.int8)) for s in shapes]

    def __call__(self, x: Tensor) -> Tensor:
        first, second, *dense = (w.cast("int32") for w in self.weights)
        for weights, padding in ((first, 2), (second, 0)):
            x = (
                ((x.cast("int32").conv2d(weights, padding=padding)) >> 9)
                .maximum(0)
                .minimum(127)
                .max_pool2d(2)
            )
        x = x.reshape(1, 400)
        for weights in dense[:-1]:
            x = ((x @ weights) >> 9).maximum(0).minimum(127)
        return x @ dense[-1]


def compiled(folder: Path | None, name: str, multipliers: int, share: bool) -> CompiledModel:
    """The network with this budget."""
    options = tg2hdl.CompileOptions(multipliers=multipliers, share_memories=share)
    if name == OWN:
        return tg2hdl.compile(LeNet5(), np.zeros((1, 1, 28, 28), np.int8), options=options)
    return tg2hdl.compile(str(folder / f"{name}.tflite"), options=options)


def measure(folder: Path | None, name: str, multipliers: int, simulates: bool) -> dict[str, Any]:
    """A row of the table."""
    started = time.process_time()
    accelerator = compiled(folder, name, multipliers, share=True)
    row: dict[str, Any] = {
        "measured": date.today().isoformat(),
        "cpu_seconds": round(time.process_time() - started, 1),
        "cycles": accelerator.predicted_cycles,
    }
    started = time.perf_counter()
    row["blocks"] = sum(memory_blocks(accelerator.design, ECP5).values())
    row["count_ms"] = round(1000 * (time.perf_counter() - started), 1)
    row["packed"] = sum(memory_blocks(accelerator.design, ECP5, packed=True).values())
    apart = compiled(folder, name, multipliers, share=False)
    row["apart"] = sum(memory_blocks(apart.design, ECP5).values())
    assert apart.predicted_cycles == accelerator.predicted_cycles, "sharing changes no cycle"
    if simulates:
        codes = np.random.default_rng(42).integers(-128, 128, accelerator.inputs[0].shape).astype(np.int8)
        run = accelerator.simulate(codes)
        row["simulated"] = {
            "cycles": run.cycles.compute,
            "differ": int((np.asarray(run.output) != accelerator.golden(codes)).sum()),
        }
    print(name, multipliers, json.dumps(row), flush=True)
    return row


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "# Block RAMs",
        "",
        f"{tools(record)}. Made by `python benchmarks/memory/run.py`. DP16KD of an ECP5, counted from the "
        "plan: with a memory for each buffer, and with memories that buffers share; with registers packed into block "
        "RAMs words are narrower. The smallest part has enough block RAMs; LUTs and multipliers are not counted.",
        "",
        "| network | multipliers | cycles | a memory for each buffer | shared | shared, registers packed | part by "
        "blocks | simulated |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in record["networks"].items():
        for multipliers, row in rows.items():
            part = next((p for p in PARTS if part_named(p).bram >= row["blocks"]), "-")
            simulated = row.get("simulated")
            ran = f"{simulated['cycles']:,} cycles, {simulated['differ']} differ" if simulated else "-"
            lines.append(
                f"| `{name}` | {multipliers} | {row['cycles']:,} | {row['apart']} | {row['blocks']} | "
                f"{row['packed']} | {part} | {ran} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the networks that are there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=os.environ.get("MLPERF_TINY"))
    parser.add_argument("--networks", nargs="*", default=[OWN, *NETWORKS])
    parser.add_argument("--multipliers", nargs="*", type=int, default=list(MULTIPLIERS))
    parser.add_argument("--simulate", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    folder = None if given.folder is None else Path(given.folder)
    target = HERE / "memory.json"
    before = json.loads(target.read_text())["networks"] if target.is_file() else {}
    for name in given.networks:
        if name != OWN and (folder is None or not (folder / f"{name}.tflite").is_file()):
            print(f"{name}: skipped, {folder or 'no folder'} has no {name}.tflite", flush=True)
            continue
        for multipliers in given.multipliers:
            rows = before.setdefault(name, {})
            rows[str(multipliers)] = measure(folder, name, multipliers, given.simulate)
            rows = dict(sorted(rows.items(), key=lambda item: int(item[0])))
            before[name] = rows
            networks = {n: before[n] for n in (OWN, *NETWORKS) if n in before}
            write_results(target, {"networks": networks}, table)


if __name__ == "__main__":
    main()
