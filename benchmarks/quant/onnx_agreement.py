"""Quantized ONNX files as integers, against ONNX Runtime on the same files.

``python benchmarks/quant/onnx_agreement.py`` quantizes small networks with ONNX Runtime in both forms, runs SAMPLES
inputs in ONNX Runtime and in the integers that `tg2hdl compile` makes hardware of, and writes ``onnx_agreement.md``.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from tg2hdl_backend.onnx_runtime import runtime_session

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "packages/tg2hdl/tests"))
from test_integer_model import NETS, Net, quantized, runtime  # noqa: E402

import tg2hdl  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402

SAMPLES = 20_000


def softmax() -> Net:
    net = Net((16,)).add("MatMul", "x", "m", (16, 16)).add("Softmax", "m", "s", axis=-1)
    return net.add("Gemm", "s", "y", (16, 5), (5,))


def wide() -> Net:
    net = Net((256,)).add("Gemm", "x", "g", (256, 64), (64,)).add("Relu", "g", "r")
    return net.add("Gemm", "r", "y", (64, 10), (10,))


def plain(path: Path, x: np.ndarray) -> np.ndarray:
    """ONNX Runtime without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime_session(path, options)
    return session.run(None, {"x": x[:, 0]})[0].reshape(len(x), -1)


def row(folder: Path, name: str, form: str, signed: bool) -> str:
    path, _ = quantized(folder, {**NETS, "wide": wide, "softmax": softmax}[name](), form, signed, not signed)
    q = tg2hdl.integer_model(OnnxModel(path, batch=1))
    shape = q.inputs[0].shape
    x = np.random.default_rng(7).normal(size=(SAMPLES, *shape)).astype(np.float32)
    found = q.evaluate(x).reshape(SAMPLES, -1)
    expected = runtime(path, x[:, 0]).reshape(SAMPLES, -1)
    widest = max((r.bits for r in q.report.layers if r.kind in ("multiplier", "sum", "float32")), default=0)
    kinds = ", ".join(dict.fromkeys(r.kind for r in q.report.layers))
    cells = [
        name,
        form,
        "int8, per tensor" if signed else "uint8, per channel",
        kinds,
        str(widest),
        ", ".join(q.report.in_float) or "nothing",
        f"{int((found != expected).sum()):,} of {found.size:,}",
        f"{int((found != plain(path, x)).sum()):,}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    logging.disable(logging.WARNING)
    version = importlib.metadata.version("onnxruntime")
    lines = [
        "# Quantized ONNX files as integers, against ONNX Runtime",
        "",
        f"Output values that differ from ONNX Runtime {version} on {SAMPLES:,} random inputs, with all of its "
        "optimizations and without any. Made by `python benchmarks/quant/onnx_agreement.py`. Optimized, ONNX "
        "Runtime has a softmax of codes, which rounds otherwise than the float softmax of the file; without "
        "them it adds two tensors in float.",
        "",
        "| network | form | activations, weights | codes by | widest multiplier (bits) | in float | differ | differ, "
        "no optimizations |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = [*NETS, "wide"]
    cases = [*itertools.product(names, ("QDQ", "QOperator"), (False, True)), ("softmax", "QDQ", False)]
    for name, form, signed in cases:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(Path(folder), name, form, signed))
        print(lines[-1], flush=True)
    (FOLDER / "onnx_agreement.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
