"""Accuracy of quantized models on real data, beside float and ONNX Runtime's static quantization.

``python benchmarks/quant/run.py`` trains the models, quantizes and compiles them, and writes ``accuracy.json`` and
``accuracy.md``; with names of models only their rows are made anew, with ``--settings`` only these columns of them.
``--pnr`` also places and routes their designs (nextpnr, one seed; minutes each).  Trained weights are kept in
``weights``.
Training needs a device of tinygrad that computes, e.g. ``DEV=CPU`` with clang.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "CPU")

import numpy as np
from data import DATA
from models import MODELS, trained
from onnxruntime_reference import onnxruntime_accuracy

import tg2hdl
from tg2hdl_backend import tensor_graph
from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.tensors import evaluate_graph
from tg2hdl_top import CompileOptions

FOLDER = Path(__file__).parent
CALIBRATION = 512
SETTINGS: dict[str, dict[str, Any]] = {
    "int8": {},
    "int8, multiplier": {"requantization": "multiplier"},
    "int8, per tensor": {"per_channel": False},
    "int8, affine": {"activations": "affine"},
    "int8, equalized": {"equalization": "cross-layer"},
    "4-bit weights": {"weight_bits": 4},
    "4-bit, equalized": {"weight_bits": 4, "equalization": "cross-layer"},
    "4-bit, compensated": {"weight_bits": 4, "weight_rounding": "compensated"},
    "4-bit, powers of two": {"weight_bits": 4, "requantization": "shift"},
    "ternary weights": {"weight_bits": 2},
    "ternary, compensated": {"weight_bits": 2, "weight_rounding": "compensated"},
}
HARDWARE = {"float": None, "int8": "int8", "4-bit": "4-bit weights", "ternary": "ternary weights"}
"""Designs, by the settings of their models."""
MULTIPLIERS = 16
OPTIONS = CompileOptions(target="ecp5")
PART = "ecp5-45k"
WANTED = {
    "MLP, MNIST": (0.3, 1.0),
    "LeNet-5, MNIST": (0.3, 1.0),
    "MLP, digits": (0.3, 1.0),
    "CNN, digits": (0.3, 1.0),
    "MLP, wine": (1.0, None),
    "MLP, breast cancer": (1.0, None),
    "residual CNN, digits 32x32": (0.5, 1.5),
    "depthwise CNN, digits 32x32": (0.5, 1.5),
    "transformer, digits": (0.5, None),
    "LSTM, digits": (0.5, None),
}
"""Largest loss of int8 and of 4-bit weights (points)."""


def measure(
    name: str, place: bool, accuracy_only: bool, settings: list[str], known: dict[str, Any]
) -> dict[str, Any]:
    data, make, epochs = MODELS[name]
    x, test, y, labels = DATA[data]()
    model = trained(name, make, x, y, epochs, FOLDER / "weights")
    graph = tensor_graph(model, test[:1])
    scores = np.concatenate([evaluate_graph(graph, [part[:, None]])[0] for part in np.array_split(test, 8)])
    floats = scores.reshape(len(test), -1).argmax(1)
    accuracy = float((floats == labels).mean())
    if accuracy < 0.8:
        raise RuntimeError(f"{name}: training ended at {accuracy:.1%}, which says nothing about quantization")
    row: dict[str, Any] = {
        "model": name,
        "test samples": len(test),
        "float": accuracy,
        "settings": {},
    }
    if settings and known:
        if known["float"] != accuracy:
            raise RuntimeError(
                f"{name}: these weights have {accuracy:.2%} in float, the row {known['float']:.2%}"
            )
        row = known
    models = {}
    for setting, options in SETTINGS.items():
        if settings and setting not in settings:
            continue
        q = models[setting] = tg2hdl.quantize(model, x[:CALIBRATION], **options)
        parts = [q.evaluate(part) for part in np.array_split(test, 8)]
        found = np.concatenate(parts).reshape(len(test), -1).argmax(1)
        row["settings"][setting] = {
            "accuracy": float((found == labels).mean()),
            "agreement": float((found == floats).mean()),
            "warnings": list(q.report.warnings),
        }
    if "onnxruntime" not in row or not settings:
        row["onnxruntime"] = onnxruntime_accuracy(model, x[:CALIBRATION], test, labels, floats)
    if accuracy_only or settings:
        return row
    row["hardware"] = {
        kind: hardware(
            model if setting is None else models[setting], test[:1] if setting is None else test[0], place
        )
        for kind, setting in HARDWARE.items()
    }
    return row


def hardware(model: Any, example: np.ndarray, place: bool) -> dict[str, Any]:
    """Cycles and size of a design: estimated, or after place and route."""
    try:
        accelerator = tg2hdl.compile(model, example, multipliers=MULTIPLIERS, options=OPTIONS)
        needs = accelerator.fits(PART).needs
        found: dict[str, Any] = {
            "cycles": accelerator.predicted_cycles,
            "multipliers": max(k.multipliers for k in accelerator.kernels),
            "block RAMs": needs["bram"],
            "DSP": needs.get("dsp"),
            "COMB": needs.get("lut"),
        }
        if place:
            result = accelerator.synthesize(PART, seeds=1)
            used = {"block RAMs": "bram", "DSP": "dsp", "COMB": "comb"}
            found |= {
                "placed": {k: result.used(v) for k, v in used.items()} | {"Fmax": round(result.fmax, 1)}
            }
    except Tg2hdlError as error:
        return {"refused": str(error).splitlines()[0]}
    return found


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Accuracy of quantized models",
        "",
        "Accuracy on test data (%), and in brackets the change in points against float. Post-training quantization "
        f"with {CALIBRATION} training samples or fewer, 8-bit activations, a scale for each output channel. Scales of "
        "int8 are powers of two unless it says multiplier; those of fewer bits are any, unless it says otherwise. "
        "*Wanted* is the largest loss of int8 / 4-bit weights. The last column is ONNX Runtime's static quantization "
        "(int8, per channel) of the same weights, and how many of its answers are those of float. Made by "
        "`python benchmarks/quant/run.py`. Only the affine and equalized columns, the row of wine and the 4-bit design "
        "for MNIST are of the present version; other columns are of the one before it, rows with * still older, "
        "the depthwise one from what that run printed.",
        "",
        "| model | test samples | float | wanted | " + " | ".join(SETTINGS) + " | ONNX Runtime | agrees |",
        "|---|" + "---|" * (len(SETTINGS) + 5),
    ]
    for row in rows:
        limits = " / ".join("-" if w is None else f"{w:.1f}" for w in WANTED[row["model"]])
        star = " *" if row.get("earlier") else ""
        cells = [row["model"] + star, str(row["test samples"]), f"{row['float']:.2%}", limits]
        for found in (*(row["settings"].get(setting) for setting in SETTINGS), row["onnxruntime"]):
            cells.append("-" if found is None else _cell(found["accuracy"], row["float"]))
        other = row["onnxruntime"]
        cells.append("-" if other is None else f"{other['agreement']:.2%}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_hardware_table(rows)]) + "\n"


def _hardware_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## The hardware",
        "",
        f"Compiled for `multipliers={MULTIPLIERS}`: cycles from start to done (exact), multipliers that the widest "
        f"kernel uses, block RAMs, DSP blocks and COMB of an {PART}, estimated; after a slash as placed and routed, "
        "with Fmax.",
        "",
        "| model | weights | cycles | multipliers | block RAMs | DSP | COMB | Fmax (MHz) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for kind, found in row.get("hardware", {}).items():
            if "refused" in found:
                lines.append(f"| {row['model']} | {kind} | {found['refused']} | | | | | |")
                continue
            placed = found.get("placed", {})
            cells = [f"{found['cycles']:,}", str(found["multipliers"])]
            for name in ("block RAMs", "DSP", "COMB"):
                estimate = "-" if found[name] is None else f"{found[name]:,}"
                cells.append(f"{estimate} / {placed[name]:,}" if placed else estimate)
            cells.append(f"{placed['Fmax']}" if placed else "-")
            lines.append(f"| {row['model']} | {kind} | " + " | ".join(cells) + " |")
    return lines


def _cell(accuracy: float, reference: float) -> str:
    return f"{accuracy * 100:.2f} ({(accuracy - reference) * 100:+.2f})"


def versions() -> dict[str, str]:
    names = ("tg2hdl", "tinygrad", "numpy", "scikit-learn", "mlxtend", "onnx", "onnxruntime")
    return {"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="names of models; all without")
    parser.add_argument("--settings", nargs="*", default=[], choices=SETTINGS, help="only these columns")
    parser.add_argument("--pnr", action="store_true", help="place and route the designs too")
    parser.add_argument("--accuracy", action="store_true", help="leave out the hardware")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    arguments.output.mkdir(exist_ok=True, parents=True)
    path, made_by = arguments.output / "accuracy.json", versions()
    known = {row["model"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for name in arguments.models or MODELS:
        known[name] = row = measure(
            name, arguments.pnr, arguments.accuracy, arguments.settings, known.get(name, {})
        )
        print(name, f"float {row['float']:.4f}", f"ONNX Runtime {row.get('onnxruntime')}", flush=True)
        print("   ", {k: round(v["accuracy"], 4) for k, v in row["settings"].items()}, flush=True)
        rows = [known[n] for n in MODELS if n in known]
        path.write_text(json.dumps({"versions": made_by, "rows": rows}, indent=1) + "\n")
        (arguments.output / "accuracy.md").write_text(table(rows))


if __name__ == "__main__":
    main()
