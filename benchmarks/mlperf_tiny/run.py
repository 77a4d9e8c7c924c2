"""The five networks of MLPerf Tiny as hardware: codes against TensorFlow Lite Micro, cycles by multipliers.

``python benchmarks/mlperf_tiny/run.py [FOLDER] [--inputs N] [--simulate]`` writes ``mlperf_tiny.json`` and ``.md``.

FOLDER (or the variable MLPERF_TINY) holds the networks of https://github.com/mlcommons/tiny (Apache-2.0, not part of
this repository) under the names of `NETWORKS`; ``--fetch`` prints the commands that copy them from a clone.  Inputs are
those of ``vectors.npz`` where it is there, and N random ones, which TFLM runs in the same process.  ``--simulate`` also
runs one input of each network in simulated hardware, cycle by cycle.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import os
import platform
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import tg2hdl
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import run_micro

HERE = Path(__file__).parent
MULTIPLIERS = (16, 64, 144)
NETWORKS = {
    "ad_autoencoder_int8": ("anomaly detection", "anomaly_detection/trained_models/ad01_int8.tflite"),
    "kws_dscnn_int8": ("keyword spotting", "keyword_spotting/trained_models/kws_ref_model.tflite"),
    "ic_resnet8_int8": (
        "image classification",
        "image_classification/trained_models/pretrainedResnet_quant.tflite",
    ),
    "sww_streaming_int8": (
        "streaming wake word",
        "streaming_wakeword/trained_models/str_ww_ref_model.tflite",
    ),
    "vww_mobilenet_int8": ("visual wake words", "visual_wake_words/trained_models/vww_96_int8.tflite"),
}
"""Task and path below ``benchmark/training`` of mlcommons/tiny, commit 1afd2c9."""


def inputs_of(folder: Path, name: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Inputs of `vectors.npz`, then random codes."""
    random = np.random.default_rng(42).integers(-128, 128, (count, *shape)).astype(np.int8)
    path = folder / "vectors.npz"
    if not path.is_file():
        return random
    return np.concatenate([np.load(path)[f"{name}/inputs"].reshape(-1, *shape), random])


def measure(folder: Path, name: str, count: int, simulates: bool) -> dict[str, Any]:
    path = folder / f"{name}.tflite"
    model = TfliteModel(path)
    x = inputs_of(folder, name, model.inputs[0].shape, count)
    expected = np.array([r[0] for r in run_micro(path.read_bytes(), x)])
    row: dict[str, Any] = {"task": NETWORKS[name][0], "inputs": len(x), "codes": int(expected.size)}
    row["cycles"] = {}
    row["measured"] = date.today().isoformat()
    for multipliers in MULTIPLIERS:
        accelerator = tg2hdl.compile(str(path), multipliers=multipliers)
        row["cycles"][str(multipliers)] = accelerator.predicted_cycles
        if multipliers == MULTIPLIERS[0]:
            found = np.array([accelerator.golden(v) for v in x])
            row["differ"] = int((found != expected).sum())
            row["in_float"] = list(accelerator.in_float)
        if multipliers == MULTIPLIERS[1] and simulates:
            run = accelerator.simulate(x[0])
            row["simulated"] = {
                "cycles": run.cycles.compute,
                "differ": int((np.asarray(run.output) != expected[0]).sum()),
            }
    print(name, json.dumps(row), flush=True)
    return row


def table(record: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    lines = [
        "# The networks of MLPerf Tiny",
        "",
        f"{record['date']}; {versions}. Made by `python benchmarks/mlperf_tiny/run.py`. The int8 files of "
        "mlcommons/tiny (commit 1afd2c9) as they are; each output code of the golden model is compared with "
        "that of TensorFlow Lite Micro. Cycles are those from start to done, with the input in its memory; the "
        "simulation takes exactly as many.",
        "",
        "| network | inputs | codes | differ from TFLM | "
        + " | ".join(f"cycles, {m} multipliers" for m in MULTIPLIERS)
        + " | simulated |",
        "|---|---|---|---|" + "---|" * (len(MULTIPLIERS) + 1),
    ]
    for name, row in record["networks"].items():
        simulated = row.get("simulated")
        cells = [
            f"{row['task']} (`{name}`)",
            f"{row['inputs']:,}",
            f"{row['codes']:,}",
            f"{row['differ']:,}",
            *(f"{row['cycles'][str(m)]:,}" for m in MULTIPLIERS),
            f"{simulated['cycles']:,} cycles, {simulated['differ']} differ" if simulated else "-",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=os.environ.get("MLPERF_TINY"))
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--fetch", action="store_true")
    given = parser.parse_args()
    if given.fetch or given.folder is None:
        print("git clone https://github.com/mlcommons/tiny && git -C tiny checkout 1afd2c9")
        for name, (_, path) in NETWORKS.items():
            print(f"cp tiny/benchmark/training/{path} FOLDER/{name}.tflite")
        return
    logging.disable(logging.WARNING)
    packages = ("tg2hdl", "tinygrad", "tflite-micro", "tflite", "numpy")
    target = HERE / "mlperf_tiny.json"
    before = json.loads(target.read_text())["networks"] if target.is_file() else {}
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "versions": {
            "Python": platform.python_version(),
            **{p: importlib.metadata.version(p) for p in packages},
        },
    }
    for name in given.networks:
        before[name] = measure(Path(given.folder), name, given.inputs, given.simulate)
        record["networks"] = {n: before[n] for n in NETWORKS if n in before}
        target.write_text(json.dumps(record, indent=1) + "\n")
        (HERE / "mlperf_tiny.md").write_text(table(record))


if __name__ == "__main__":
    main()
