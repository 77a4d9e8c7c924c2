"""Operators with a state of their own against TensorFlow Lite Micro, over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tg2hdl_ir import UnsupportedError
from tg2hdl_tflite import TfliteModel
from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

RUNS = 4
Case = tuple[bytes, np.ndarray]
Generator = np.random.Generator


def lstm(r: Generator, kind: str, steps: int = 3, time_major: bool = False) -> Case:
    inputs, cells, rows = (int(v) for v in r.integers((3, 2, 1), (12, 9, 3)))
    rows = rows if kind == "FLOAT32" else 1
    net = Network()
    top = 128 if kind == "INT8" else 32768
    if kind != "FLOAT32":
        s_in, power = np.float32(r.uniform(0.01, 0.03) * 128 / top), int(r.integers(-13, -9))
        s_out = np.float32(r.choice([1.0, 1.1]) / top)
        zero, zero_out = (int(v) for v in r.integers((-60, -20), (60, 20))) if kind == "INT8" else (0, 0)
        bias_kind = np.int32 if kind == "INT8" else np.int64
        s_w, s_u = (np.float32(r.uniform(0.002, 0.008, 4)) for _ in range(2))
        weights = [
            [net.constant(r.integers(-127, 128, (cells, n)).astype(np.int8), scale=v) for v in s]
            for n, s in ((inputs, s_w), (cells, s_u))
        ]
        bias = [
            net.constant(
                r.integers(-40 * top, 40 * top, cells).astype(bias_kind), scale=float(s_in) * float(v)
            )
            for v in s_w
        ]
        coded: dict[str, Any] = {"scale": s_out, "zero_point": zero_out}
        given: dict[str, Any] = {"scale": s_in, "zero_point": zero}
        inner: dict[str, Any] = {"scale": 2.0**power}
        clip = float(r.choice([0.0, 2.0]))
    else:
        weights = [
            [net.constant(r.normal(size=(cells, n)).astype(np.float32)) for _ in range(4)]
            for n in (inputs, cells)
        ]
        bias = [net.constant(r.normal(size=cells).astype(np.float32)) for _ in range(4)]
        coded, given, inner, clip = {}, {}, {}, float(r.choice([0.0, 0.5]))
    lead = (steps, rows) if time_major else (rows, steps)
    x = net.tensor((*lead, inputs), kind, **given)
    hidden = net.tensor((rows, cells), kind, variable=True, name="hidden", **coded)
    cell = net.tensor(
        (rows, cells), "FLOAT32" if kind == "FLOAT32" else "INT16", variable=True, name="cell", **inner
    )
    y = net.tensor((*lead, cells), kind, **coded)
    between = [net.tensor((0,), "INT16", scale=2.0**-12) for _ in range(4)]
    between.append(net.tensor((0,), "FLOAT32" if kind == "FLOAT32" else kind, **coded))
    net.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *weights[0], *weights[1], -1, -1, -1, *bias, -1, -1, hidden, cell, -1, -1, -1, -1],
        [y],
        "UnidirectionalSequenceLSTMOptions",
        version=2,
        intermediates=between if coded else (),
        FusedActivationFunction=4,
        CellClip=clip,
        TimeMajor=time_major,
    )
    shape = (RUNS, *lead, inputs)
    if coded:
        return net.finish([x], [y]), r.integers(-top, top, shape).astype(kind.lower())
    return net.finish([x], [y]), r.normal(size=shape).astype(np.float32)


def svdf(r: Generator, state_kind: str) -> Case:
    inputs, units, memory, rank = (int(v) for v in r.integers((4, 2, 2, 1), (20, 6, 6, 3)))
    net = Network()
    filters = units * rank
    if state_kind == "FLOAT32":
        f, t = (net.constant(r.normal(size=(filters, n)).astype(np.float32)) for n in (inputs, memory))
        b = net.constant(r.normal(size=units).astype(np.float32))
        x = net.tensor((1, inputs), "FLOAT32")
        state = net.tensor((1, filters * memory), "FLOAT32", variable=True)
        y = net.tensor((1, units), "FLOAT32")
        values = r.normal(size=(RUNS, 1, inputs)).astype(np.float32)
    else:
        top = 127 if state_kind == "INT8" else 32767
        s_in, s_f = np.float32(r.uniform(0.01, 0.1)), np.float32(r.uniform(0.001, 0.01))
        s_t = np.float32(r.uniform(1e-5, 3e-5) * 32767 / top)
        s_state = np.float32(float(s_in) * float(s_f) * 74 * 74 * np.sqrt(inputs) * 4 / (top + 1))
        spread = np.sqrt(memory * rank) * 3 / 128
        s_out = np.float32(float(s_state) * float(s_t) * 0.25 * 0.6 * top * top * spread)
        x = net.tensor((1, inputs), "INT8", scale=s_in, zero_point=int(r.integers(-60, 60)))
        f = net.constant(r.integers(-127, 128, (filters, inputs)).astype(np.int8), scale=s_f)
        t = net.constant(r.integers(-top, top + 1, (filters, memory)).astype(state_kind.lower()), scale=s_t)
        b = net.constant(r.integers(-999, 999, units).astype(np.int32), scale=float(s_state) * float(s_t))
        state = net.tensor((1, filters * memory), state_kind, scale=s_state, variable=True)
        y = net.tensor((1, units), "INT8", scale=s_out, zero_point=int(r.integers(-60, 60)))
        values = r.integers(-128, 128, (RUNS, 1, inputs)).astype(np.int8)
    net.operator(
        "SVDF", [x, f, t, b, state], [y], "SVDFOptions", version=3, Rank=rank, FusedActivationFunction=1
    )
    return net.finish([x], [y]), values


def compare(data: bytes, values: np.ndarray) -> None:
    wanted, found = run_micro(data, values), run_golden(data, values)
    for want, have in zip(wanted, found, strict=True):
        assert have[0].dtype == want[0].dtype
        if have[0].dtype == np.float32:
            np.testing.assert_allclose(have[0], want[0], rtol=2e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(have[0], want[0])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["INT8", "INT16", "FLOAT32"])
def test_lstm(kind: str, seed: int) -> None:
    compare(*lstm(np.random.default_rng(seed), kind, time_major=seed == 1))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["INT16", "INT8", "FLOAT32"])
def test_svdf(kind: str, seed: int) -> None:
    compare(*svdf(np.random.default_rng(seed), kind))


def test_a_long_sequence(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(lstm(np.random.default_rng(0), "FLOAT32", steps=1000)[0])
    with pytest.raises(UnsupportedError) as caught:
        TfliteModel(tmp_path / "net.tflite")
    assert str(caught.value).splitlines()[1:] == [
        "  note: operator 0, UNIDIRECTIONAL_SEQUENCE_LSTM version 2, tensor 't15': a sequence of 1000 steps, "
        "which are hardware of their own each (at most 256)",
        "  hint: export it for fewer steps: the state stays from one run to the next",
    ]
