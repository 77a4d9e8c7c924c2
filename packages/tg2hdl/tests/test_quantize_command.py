"""``tg2hdl quantize`` and what ``tg2hdl compile`` makes of its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.quantized_file import load_quantized, save_quantized
from tg2hdl_ir import InputError

MODEL = """
import numpy as np
from tinygrad import Tensor
rng = np.random.default_rng(0)
w1, w2 = (Tensor(rng.normal(size=s).astype(np.float32)) for s in ((6, 8), (8, 3)))
def model(x):
    return (x @ w1).sigmoid() @ w2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.normal(size=(50, 6)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 3, 50))
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_quantize_then_compile(folder: Path) -> None:
    output = run("quantize", "net.py", "--samples", "x.npy", "--labels", "y.npy")
    for part in ("w1", "w2", "SQNR", "accuracy:", "left in float: nothing", "wrote net.q.npz"):
        assert part in output
    report = json.loads((folder / "net.q.json").read_text())
    assert report["samples"] == 50
    assert 0 <= report["accuracy"] <= 1
    assert "cycles from start to done" in run("compile", "net.q.npz", "--multipliers", "4")


def test_a_file_gives_the_same_integers(folder: Path) -> None:
    weights = Tensor(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
    samples = np.load(folder / "x.npy")
    q = tg2hdl.quantize(lambda x: {"a": (x @ weights).relu(), "b": x.sum(1)}, samples)
    save_quantized(q, folder / "two.q.npz")
    again = load_quantized(folder / "two.q.npz")
    assert str(again.report) == str(q.report)
    for first, second in zip(q(samples[0]), again(samples[0]), strict=True):
        np.testing.assert_array_equal(first, second)
    accelerator = tg2hdl.compile(again, samples[0])
    found = accelerator.golden(samples[3])
    for value, expected in zip(found, again.reference(*again.quantize_input(samples[3])), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_widths_and_float_by_layer(folder: Path) -> None:
    output = run("quantize", "net.py", "--samples", "x.npy", "--layer-bits", "w2=4", "--float", "sigmoid")
    assert "left in float: sigmoid" in output
    again = load_quantized(folder / "net.q.npz")
    assert {r.name: r.bits for r in again.report.layers if r.kind == "weights"} == {"w1": 8, "w2": 4}
    sample = np.load(folder / "x.npy")[0]
    np.testing.assert_array_equal(
        tg2hdl.compile(again, sample).golden(sample), again.reference(*again.quantize_input(sample))
    )
    with pytest.raises(InputError, match="--layer-bits w2 is not a width of a layer"):
        run("quantize", "net.py", "--samples", "x.npy", "--layer-bits", "w2")


def test_refusals(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no file 'none\.npy'"):
        run("quantize", "net.py", "--samples", "none.npy")
    with pytest.raises(
        InputError, match=r"net\.q\.onnx can only be written from ONNX files, not from net\.py"
    ):
        run("quantize", "net.py", "--samples", "x.npy", "-o", "net.q.onnx")
    with pytest.raises(InputError, match=r"net\.q\.txt does not end in \.npz or \.onnx"):
        run("quantize", "net.py", "--samples", "x.npy", "-o", "net.q.txt")
    np.savez(folder / "other.npz", a=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz is not a quantized model"):
        run("compile", "other.npz")
