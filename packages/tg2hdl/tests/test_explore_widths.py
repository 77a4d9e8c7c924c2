"""Exploring widths of weights: which choices are judged and planned, and their accuracy on other samples."""

from __future__ import annotations

import itertools
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.exploration.variants import samples_key
from tg2hdl.exploration.widths import Judged, chosen_widths
from tg2hdl_ir import CapacityError, InputError

rng = np.random.default_rng(0)
W1 = rng.standard_normal((8, 6)).astype(np.float32)
W2 = rng.standard_normal((6, 3)).astype(np.float32)
X = rng.standard_normal((40, 8)).astype(np.float32)
Y = (np.maximum(X @ W1, 0) @ W2).argmax(1)
MODEL = f"""
import numpy as np
from tinygrad import Tensor
w1, w2 = Tensor(np.array({W1.tolist()}, np.float32)), Tensor(np.array({W2.tolist()}, np.float32))
def model(x): return (x @ w1).relu() @ w2
"""
SMALL = {"part": "ecp5-45k", "space": {"multipliers": [2], "schedule": ["auto"]}}


class Net:
    def __init__(self):
        self.w1, self.w2 = Tensor(W1), Tensor(W2)

    def __call__(self, x):
        return (x @ self.w1).relu() @ self.w2


def counting(loss):
    asked = []

    def judged(bits):
        asked.append(tuple(bits.values()))
        return Judged(1 - loss(bits) / 100, loss(bits), "accuracy")

    return asked, judged


def test_few_choices_are_all_judged_and_the_front_is_planned():
    asked, judged = counting(lambda bits: 8 * (8 - bits["a"]) + (8 - bits["b"]))
    found = chosen_widths({"a": 10, "b": 100}, (8, 4), judged)
    assert sorted(asked) == sorted(itertools.product((8, 4), repeat=2))
    # Narrow a costs more and saves less.
    assert [w.name for w in found] == ["8", "4", "a=8 b=4"]


@pytest.mark.parametrize("has_optuna", [True, False])
def test_many_choices_are_searched(monkeypatch, has_optuna):
    if has_optuna:
        pytest.importorskip("optuna")
    else:
        monkeypatch.setitem(sys.modules, "optuna", None)
    sizes = {f"w{n}": 10 for n in range(6)}
    cost = {f"w{n}": n for n in range(6)}
    asked, judged = counting(lambda bits: sum(cost[n] * (8 - b) for n, b in bits.items()))
    found = chosen_widths(sizes, (8, 6, 4), judged)
    assert len(set(asked)) == len(asked) < 3**6
    assert len(asked) > 60 if has_optuna else len(asked) < 60
    assert [w.name for w in found[:3]] == ["8", "6", "4"]
    losses = [(sum(w.bits.values()), w.judged.loss) for w in found[3:]]
    assert losses == sorted(losses, key=lambda pair: (-pair[0], pair[1]))
    assert len(losses) == 6


def test_points_have_the_accuracy_of_samples_that_chose_no_scale(tmp_path):
    study = tmp_path / "s.json"
    found = tg2hdl.explore(
        Net(), np.zeros((1, 8), np.float32), samples=X, labels=Y, bits=[8, 3], study=study, **SMALL
    )
    assert {"8", "3"} <= {p.bits for p in found.points}
    for point in found.points:
        given = point.bits.split()
        widths = [int(point.bits)] * 2 if len(given) == 1 else [int(each.partition("=")[2]) for each in given]
        names = [row.name for row in tg2hdl.quantize(Net(), X[::2]).report.layers if row.kind == "weights"]
        made = tg2hdl.quantize(
            Net(),
            X[::2],
            weight_bits=8,
            layers=dict(zip(names, widths, strict=True)),
            requantization="multiplier",
        )
        right = np.asarray(made.evaluate(X[1::2])).reshape(20, -1).argmax(1) == Y[1::2]
        assert point.accuracy == right.mean()
        assert point.loss == pytest.approx(100 * (1 - right.mean()))
        compiled, codes = point.compile(), made.reference(*made.quantize_input(X[1]))
        assert np.array_equal(compiled.golden(X[1]), codes)
    judged = json.loads(study.read_text())["widths"]
    assert all(judged[p.bits] == [p.accuracy, p.loss] for p in found.points)
    again = tg2hdl.explore(
        Net(),
        np.zeros((1, 8), np.float32),
        samples=X,
        labels=Y,
        bits=[8, 3],
        study=study,
        resume=True,
        **SMALL,
    )
    assert [p.figures for p in again.points] == [p.figures for p in found.points]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bits": [8]}, "widths of weights need samples\n  hint: give samples, and labels for the accuracy"),
        (
            {"limits": {"loss": 1}},
            "nothing changes the accuracy of the model as it is\n  hint: give samples, and widths of weights",
        ),
        (
            {"samples": X, "bits": [1]},
            "bits 1 are not widths of weights\n  hint: give widths from 2 to 16, e.g. 4,6,8",
        ),
        (
            {"samples": X[:3]},
            "3 samples are too few to choose scales and to judge them\n  hint: give some hundred, e.g. 512",
        ),
        (
            {"samples": X, "labels": Y[:9]},
            "labels of shape (9,) for 40 samples\n  hint: expected one label a sample: (40,)",
        ),
        (
            {"samples": X, "labels": Y[:, None]},
            "labels of shape (40, 1) for 40 samples\n  hint: expected one label a sample: (40,)",
        ),
        (
            {"limits": {"loss": -1}},
            "limit loss=-1 is not a number of points\n  hint: give 0 or more",
        ),
    ],
)
def test_bad_arguments(given, text):
    with pytest.raises(InputError) as error:
        tg2hdl.explore(Net(), np.zeros((1, 8), np.float32), **SMALL, **given)
    assert str(error.value) == f"bad input: {text}"


def test_samples_are_those_of_quantize():
    found = [samples_key(each, None, (8,)) for each in (X, X.astype(np.float64), Tensor(X))]
    assert len(set(found)) == 1


def test_samples_under_exchanged_names_are_others():
    keys = {samples_key({a: X, b: X + 1}, None, (8,)) for a, b in ("xy", "yx")}
    assert len(keys) == 2


def test_a_loss_that_no_widths_keep():
    with pytest.raises(CapacityError, match="no widths of 2 bits lose at most 0 points of accuracy") as error:
        tg2hdl.explore(
            Net(), np.zeros((1, 8), np.float32), samples=X, labels=Y, bits=[2], limits={"loss": 0}, **SMALL
        )
    assert error.value.hint == "allow a larger loss, or wider weights"


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        (lambda x: x.relu(), "the model has no weights whose widths could differ", "leave out --bits"),
        (
            lambda x: (x @ Tensor(W1)).sum(-1),
            "the model gives one number: no class is right or wrong",
            "search widths by signal to noise ratio: tg2hdl quantize --search",
        ),
    ],
)
def test_models_whose_widths_cannot_be_judged(model, message, hint):
    with pytest.raises(InputError) as error:
        tg2hdl.explore(model, np.zeros((1, 8), np.float32), samples=X, bits=[8, 4], **SMALL)
    assert (error.value.message, error.value.hint) == (message, hint)


def test_the_command_writes_the_models_of_its_command_lines(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    np.savez(tmp_path / "x.npz", x=X)
    np.save(tmp_path / "y.npy", Y)
    options = [
        "--part",
        "ecp5-45k",
        "--try",
        "multipliers=2",
        "--try",
        "schedule=auto",
        "--study",
        tmp_path / "s.json",
    ]
    options += ["--samples", tmp_path / "x.npz", "--labels", tmp_path / "y.npy", "--bits", "4,8"]
    options += ["--max-loss", "40", "-o", tmp_path / "p.html"]
    done = CliRunner().invoke(cli, ["explore", str(tmp_path / "net.py"), *map(str, options)])
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("tg2hdl compile"))
    words = line.split()
    assert words[2].endswith(".q.npz")
    again = CliRunner().invoke(cli, [*words[1:], "-o", str(tmp_path / "out")])
    assert again.exit_code == 0, again.output
    assert "right %" in done.stdout
    assert "below the float model, on samples that chose no scale" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (
            "4",
            "--bits, --labels and --max-loss need --samples\n  hint: give inputs of the model: --samples x.npz",
        ),
        ("4,x", "--bits 4,x is not a list of widths\n  hint: give e.g. --bits 4,6,8"),
    ],
)
def test_bad_options(bits, text):
    refused = CliRunner().invoke(cli, ["explore", "net.py", "--part", "ecp5-45k", "--bits", bits])
    assert str(refused.exception) == f"bad input: {text}"
