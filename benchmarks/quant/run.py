"""Accuracy of quantized models on real data, beside float and ONNX Runtime's static quantization.

``python benchmarks/quant/run.py`` trains the models, quantizes them, and writes ``accuracy.json`` and ``accuracy.md``;
with names of models only their rows are made anew.
Training needs a device of tinygrad that computes, e.g. ``DEV=CPU`` with clang.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "CPU")

import numpy as np
from data import DATA
from models import MODELS, train
from onnxruntime_reference import onnxruntime_accuracy

import tg2hdl
from tg2hdl_backend import tensor_graph
from tg2hdl_ir.tensors import evaluate_graph

FOLDER = Path(__file__).parent
CALIBRATION = 512
SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int8, multiplier": {"requantization": "multiplier"},
    "int8, per tensor": {"per_channel": False},
    "4-bit weights": {"weight_bits": 4},
    "4-bit weights, multiplier": {"weight_bits": 4, "requantization": "multiplier"},
    "ternary weights": {"weight_bits": 2},
}


def measure(name: str) -> dict[str, Any]:
    data, make, epochs = MODELS[name]
    x, test, y, labels = DATA[data]()
    started = time.time()
    model = train(name, make, x, y, epochs)
    seconds = time.time() - started
    graph = tensor_graph(model, test[:1])
    scores = np.concatenate([evaluate_graph(graph, [part[:, None]])[0] for part in np.array_split(test, 8)])
    floats = scores.reshape(len(test), -1).argmax(1)
    accuracy = float((floats == labels).mean())
    if accuracy < 0.8:
        raise RuntimeError(f"{name}: training ended at {accuracy:.1%}, which says nothing about quantization")
    row: dict[str, Any] = {
        "model": name,
        "test samples": len(test),
        "training seconds": round(seconds, 1),
        "float": accuracy,
        "settings": {},
    }
    for setting, options in SETTINGS.items():
        q = tg2hdl.quantize(model, x[:CALIBRATION], **options)
        parts = [q.evaluate(part) for part in np.array_split(test, 8)]
        found = np.concatenate(parts).reshape(len(test), -1).argmax(1)
        row["settings"][setting] = {
            "accuracy": float((found == labels).mean()),
            "agreement": float((found == floats).mean()),
            "warnings": list(q.report.warnings),
        }
    row["onnxruntime"] = onnxruntime_accuracy(model, x[:CALIBRATION], test, labels, floats)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Accuracy of quantized models",
        "",
        "Accuracy on test data (%), and in brackets the change in points against float. Post-training quantization "
        f"with {CALIBRATION} training samples or fewer, 8-bit activations, a scale for each output channel, "
        "power-of-two scales unless it says multiplier. Made by `python benchmarks/quant/run.py`.",
        "",
        "| model | test samples | float | "
        + " | ".join(SETTINGS)
        + " | ONNX Runtime, static int8 per channel |",
        "|---|" + "---|" * (len(SETTINGS) + 3),
    ]
    for row in rows:
        cells = [row["model"], str(row["test samples"]), f"{row['float']:.2%}"]
        for setting in SETTINGS:
            cells.append(_cell(row["settings"][setting]["accuracy"], row["float"]))
        other = row["onnxruntime"]
        cells.append("-" if other is None else _cell(other["accuracy"], row["float"]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(accuracy: float, reference: float) -> str:
    return f"{accuracy * 100:.2f} ({(accuracy - reference) * 100:+.2f})"


def versions() -> dict[str, str]:
    names = ("tg2hdl", "tinygrad", "numpy", "scikit-learn", "mlxtend", "onnx", "onnxruntime")
    return {"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="names of models; all without")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    arguments.output.mkdir(exist_ok=True, parents=True)
    path = arguments.output / "accuracy.json"
    known = {row["model"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for name in arguments.models or MODELS:
        known[name] = row = measure(name)
        print(name, f"float {row['float']:.4f}", f"ONNX Runtime {row['onnxruntime']}", flush=True)
        print("   ", {k: round(v["accuracy"], 4) for k, v in row["settings"].items()}, flush=True)
        rows = [known[n] for n in MODELS if n in known]
        path.write_text(json.dumps({"versions": versions(), "rows": rows}, indent=1) + "\n")
        (arguments.output / "accuracy.md").write_text(table(rows))


if __name__ == "__main__":
    main()
