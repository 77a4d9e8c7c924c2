"""RNN, GRU and LSTM in all their forms, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.hardware import compare_with_hardware  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

F = np.float32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, SIZE, HIDDEN = 3, 2, 3, 4
RNG = np.random.default_rng(2)


def layer(path, kind, *, lengths=False, states=False, peepholes=False, steps=STEPS, **attributes):
    both = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    weights = {
        "w": RNG.normal(size=(both, rows, SIZE)).astype(F) * F(0.5),
        "r": RNG.normal(size=(both, rows, HIDDEN)).astype(F) * F(0.5),
        "b": RNG.normal(size=(both, 2 * rows)).astype(F) * F(0.5),
        "h": RNG.normal(size=(both, BATCH, HIDDEN)).astype(F),
        "c": RNG.normal(size=(both, BATCH, HIDDEN)).astype(F),
        "p": RNG.normal(size=(both, 3 * HIDDEN)).astype(F),
    }
    names = ["x", "w", "r", "b", "n" if lengths else "", "h" if states else ""]
    if kind == "LSTM":
        names += ["c" if states else "", "p" if peepholes else ""]
    while not names[-1]:
        names.pop()
    outputs = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    inputs = [("x", F, (steps, BATCH, SIZE))] + ([("n", np.int32, (BATCH,))] if lengths else [])
    return write(
        path,
        [onnx.helper.make_node(kind, names, outputs, hidden_size=HIDDEN, **attributes)],
        inputs,
        [(o, F, None) for o in outputs],
        {n: a for n, a in weights.items() if n in names},
    )


CASES = [
    *((kind, {"direction": d}) for kind in GATES for d in ("forward", "reverse", "bidirectional")),
    *((kind, {"states": True, "lengths": True}) for kind in GATES),
    ("RNN", {"activations": ["Relu"], "clip": 0.7}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"activations": ["HardSigmoid", "Softsign"]}),
    ("LSTM", {"peepholes": True, "states": True}),
    ("LSTM", {"clip": 0.4}),
]


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_layers(tmp_path, kind, options):
    path = layer(tmp_path / "m.onnx", kind, **options)
    given = {"x": RNG.normal(size=(STEPS, BATCH, SIZE)).astype(F)}
    if options.get("lengths"):
        given["n"] = np.array([STEPS, 1], np.int32)
    results = golden(OnnxModel(path), *given.values())
    for got, expected in zip(results, runtime(path, **given), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_rnn_in_hardware(tmp_path):
    path = layer(tmp_path / "m.onnx", "RNN", activations=["Relu"], steps=2)
    x = RNG.normal(size=(2, BATCH, SIZE)).astype(F)
    assert compare_with_hardware(OnnxModel(path), x).mismatches == ()
