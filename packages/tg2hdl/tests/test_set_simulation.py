"""Many inputs on several workers: the same results and files as in one process."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl import set_simulation
from tg2hdl.cli import cli
from tg2hdl.set_simulation import simulate_set
from tg2hdl_ir import InputError, SimulationError
from tg2hdl_ir.workers import Workers

MODEL = """
import numpy as np
def model(x): return (x.cast("int32") * x).sum(-1).relu()
example_inputs = (np.zeros((4, 16), np.int8),)
"""
SETS = [(each,) for each in np.random.default_rng(0).integers(-9, 9, (5, 4, 16)).astype(np.int8)]


@pytest.fixture(scope="module")
def accelerator():
    return tg2hdl.compile(lambda x: (x.cast("int32") * x).sum(-1).relu(), SETS[0][0])


def test_results_are_those_of_one_session(accelerator):
    with accelerator.session("amaranth") as session:
        expected = session.run_batch(SETS)
    ended = []
    with Workers(2) as pool:
        found = simulate_set(accelerator, SETS, "amaranth", pool, ended.append)
    assert sum(ended) == 5
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.output, other.output)
        assert (one.cycles, one.engine) == (other.cycles, other.engine)


def test_a_run_that_differs_from_the_golden_model_is_named(accelerator, monkeypatch):
    same = iter([True, True, True, False, True])
    monkeypatch.setattr(set_simulation, "same_bits", lambda a, b: next(same))
    with pytest.raises(SimulationError, match="differ in run 3"):
        simulate_set(accelerator, SETS, "amaranth", Workers())


def test_runs_of_a_model_with_state_follow_one_another(accelerator, monkeypatch):
    monkeypatch.setattr(accelerator, "state", type("State", (), {"tensors": {"h": 1}})())
    with pytest.raises(InputError) as error:
        simulate_set(accelerator, SETS, "amaranth", Workers())
    assert str(error.value) == (
        f"bad input: runs of {accelerator.name} continue from each other: it has state\n"
        "  hint: leave out --workers and --cluster"
    )


def test_the_command(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    np.savez(tmp_path / "x.npz", x=np.stack([x for (x,) in SETS]))
    common = ["simulate", str(tmp_path / "model.py"), "--engine", "amaranth"]
    for name, more in (("one", []), ("two", ["--workers", "2"])):
        given = ["--set", str(tmp_path / "x.npz"), "-o", str(tmp_path / f"{name}.npz"), *more]
        done = CliRunner().invoke(cli, [*common, *given])
        assert done.exit_code == 0, done.output
        assert "every bit equals the golden model in every run" in done.output
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    refused = CliRunner().invoke(cli, [*common, "--workers", "2"])
    assert str(refused.exception) == (
        "bad input: --workers and --cluster need --set\n  hint: give the inputs of many runs: --set FILE.npz"
    )
