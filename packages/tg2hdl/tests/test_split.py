"""Models in parts: where they are cut, and both parts simulated together."""

import importlib
import json
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor, Variable

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.splitting import system
from tg2hdl.splitting.cut import ModelCut, choose_cuts, possible_cuts
from tg2hdl_backend import capture
from tg2hdl_ir import InputError, SimulationError, UnsupportedError, ValidationError

RNG = np.random.default_rng(0)


def layers(*sizes):
    weights = [Tensor(RNG.integers(-9, 9, pair).astype(np.int8)) for pair in pairwise(sizes)]

    def model(x):
        for w in weights[:-1]:
            x = ((x.cast("int32") @ w.cast("int32")).relu() >> 4).clip(0, 127).cast("int8").contiguous()
        return x.cast("int32") @ weights[-1].cast("int32")

    return model


def batch(size, count=4):
    return RNG.integers(-128, 128, (count, 1, size)).astype(np.int8)


@pytest.mark.parametrize(
    ("sizes", "parts", "multipliers"),
    [
        ((16, 12, 4), 2, 2),
        ((6, 30, 4), 2, 8),  # the packet between them takes the longest
        ((40, 5, 3), 2, 8),  # the packet of inputs does
        ((4, 5, 40), 2, 8),  # the packet of results does
        ((8, 8, 8, 8), 3, 4),
    ],
)
def test_the_parts_together_have_the_bits_and_the_interval_that_was_predicted(sizes, parts, multipliers):
    model, inputs = layers(*sizes), batch(sizes[0])
    whole = tg2hdl.compile(model, inputs[0], multipliers=multipliers)
    made = tg2hdl.split(model, inputs[0], parts=parts, multipliers=multipliers)
    assert len(made.parts) == parts
    found = made.simulate(inputs, engine="amaranth")
    for x, (y,) in zip(inputs, found.outputs, strict=True):
        assert np.array_equal(y.reshape(1, -1), whole.golden(x))
        assert np.array_equal(made.golden(x), whole.golden(x))
    assert set(np.diff(found.ends)) == {made.predicted_interval}
    assert made.predicted_interval == max(made.intervals)


def test_several_buffers_go_through_a_cut():
    a, b, c = (Tensor(RNG.integers(-9, 9, (8, n)).astype(np.int8)) for n in (6, 5, 4))

    def model(x):
        x = x.cast("int32")
        p, q = (x @ a.cast("int32")).contiguous(), (x @ b.cast("int32")).contiguous()
        return (p.sum() + q.sum()).contiguous() + c.cast("int32").sum(0)

    inputs = batch(8)
    made = tg2hdl.split(model, inputs[0], multipliers=2)
    assert len(made.links[0]) == 2
    found = made.simulate(inputs, engine="amaranth")
    for x, (y,) in zip(inputs, found.outputs, strict=True):
        assert np.array_equal(y, np.ravel(made.golden(x)))
    assert set(np.diff(found.ends)) == {made.predicted_interval}


def test_state_stays_in_its_part():
    class Model:
        def __init__(self):
            self.total = Tensor(np.zeros((1, 4), np.int32)).contiguous().realize()
            self.weight = Tensor(RNG.integers(-9, 9, (8, 4)).astype(np.int8))

        def __call__(self, x):
            y = (x.cast("int32") @ self.weight.cast("int32")).contiguous()
            self.total.assign(self.total + y)
            return (self.total * 3).contiguous()

    inputs = batch(8)
    whole, made = tg2hdl.compile(Model(), inputs[0]), tg2hdl.split(Model(), inputs[0])
    whole = tg2hdl.compile(made.captured.model, inputs[0])
    found = made.simulate(inputs, engine="amaranth")
    for x, (y,) in zip(inputs, found.outputs, strict=True):
        expected = whole.golden(x)
        assert np.array_equal(made.golden(x), expected)
        assert np.array_equal(y, np.ravel(expected))
    made.reset()
    whole.reset()
    assert np.array_equal(made.golden(inputs[0]), whole.golden(inputs[0]))


def program(sizes):
    return capture(layers(*sizes), batch(sizes[0])[0], name="m").program


def test_fewer_bits_are_taken_where_the_balance_is_about_the_same():
    whole = program((8, 16, 4, 16, 8))
    cuts, _ = possible_cuts(whole)
    sizes = {cut.before: cut.bits for cut in cuts}
    assert list(sizes) == [1, 2, 3]
    assert sizes[2] < sizes[1] == sizes[3]
    assert [cut.before for cut in choose_cuts(whole, [100, 90, 5, 105], 2)] == [2]
    assert [cut.before for cut in choose_cuts(whole, [150, 5, 5, 150], 2)] == [2]
    assert [cut.before for cut in choose_cuts(whole, [5, 5, 100, 100], 2)] == [3]  # balance first
    assert [cut.before for cut in choose_cuts(whole, [10, 10, 10, 10], 4)] == [1, 2, 3]
    assert isinstance(cuts[0], ModelCut)


def test_a_model_that_cannot_be_cut_is_refused_with_the_reason():
    weight = Tensor(RNG.integers(-9, 9, (8, 8)).astype(np.int8))

    def residual(x):
        return (x.cast("int32") @ weight.cast("int32")).contiguous().relu().contiguous() + x.cast("int32")

    with pytest.raises(UnsupportedError) as caught:
        tg2hdl.split(residual, batch(8)[0], parts=2)
    assert caught.value.message == "the model cannot be cut into 2 parts: there are 0 places for a cut"
    assert caught.value.notes[0].endswith("input 'x' is still read")
    assert caught.value.hint == (
        "ask for fewer parts, or move what later layers need through the layers before them"
    )
    with pytest.raises(UnsupportedError, match="into 3 parts: there are 1 places"):
        tg2hdl.split(layers(4, 4, 4), batch(4)[0], parts=3)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"parts": 1}, "a model is split into 1 parts", "give 2 or more"),
        (
            {"options": tg2hdl.CompileOptions(ports=("uart",))},
            "parts are joined by the port axi-stream, not uart",
            "leave the ports out",
        ),
        (
            {"options": tg2hdl.CompileOptions(weights="loadable")},
            'weights="loadable" is not for a model in parts',
            "ask for more parts instead",
        ),
        (
            {"options": tg2hdl.CompileOptions(schedule="dataflow")},
            "the parts of a model are its dataflow: runs of one part do not overlap",
            "leave the schedule out, or ask for more parts",
        ),
    ],
)
def test_other_options_are_refused(options, message, hint):
    with pytest.raises(InputError) as caught:
        tg2hdl.split(layers(4, 4, 4), batch(4)[0], **options)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_an_empty_batch_is_refused():
    with pytest.raises(InputError) as caught:
        tg2hdl.split(layers(4, 4, 4), batch(4)[0], parts=2).simulate([])
    assert (caught.value.message, caught.value.hint) == ("the batch is empty", "give at least one input")


def test_a_run_time_variable_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        tg2hdl.split(lambda x, i: x + i, np.zeros(4, np.int32), Variable("i", 0, 2).bind(1), parts=2)
    assert caught.value.message == "the model has the run-time variable 'i', which all parts would need"


def test_the_command_has_no_fit(tmp_path):
    (tmp_path / "m.py").write_text("def model(x): return x\nexample_inputs = ([1],)\n")
    result = CliRunner().invoke(cli, ["split", str(tmp_path / "m.py"), "--parts", "2", "--fit", "ecp5-25k"])
    assert result.exit_code == 2
    assert "--fit is for a whole model: give --multipliers, those of each part" in " ".join(
        result.output.split()
    )


def test_parts_that_compute_something_else_are_found(monkeypatch):
    from tg2hdl.splitting import model

    def wrong(captured, cuts, cut=model.cut_program):
        one, _ = cut(captured, cuts)
        return [one, cut(capture(layers(4, 4, 4), batch(4)[0], name="m"), cuts)[1]]

    monkeypatch.setattr(model, "cut_program", wrong)
    with pytest.raises(ValidationError, match="output 'output' of the parts differs from that of the model"):
        tg2hdl.split(layers(4, 4, 4), batch(4)[0])


MODEL = """
import numpy as np
from tinygrad import Tensor

weights = [Tensor(np.full((4, 4), n, np.int8)) for n in (1, 2)]


def model(x):
    for w in weights:
        x = (x.cast("int32") @ w.cast("int32")).contiguous()
    return x


example_inputs = (np.zeros((1, 4), np.int8),)
"""


def test_the_command(tmp_path):
    (tmp_path / "m.py").write_text(MODEL)
    folder = tmp_path / "halves"
    arguments = ["split", str(tmp_path / "m.py"), "--simulate", "3", "-o", str(folder)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.exception is None
    text = " ".join(result.output.split())
    assert "from part 1 to 2: 128 bits (temp0 128)" in text
    assert "3 runs of all parts together: bits and cycles as predicted" in text
    figures = json.loads((folder / "split.json").read_text())
    assert f"a result every {figures['predicted_interval']} cycles" in text
    assert [row["kernels"] for row in figures["parts"]] == [1, 1]
    for number in (1, 2):
        assert "module " in (folder / f"part{number}" / f"m_part{number}.v").read_text()
    error = CliRunner().invoke(cli, [*arguments, "--fit", "ulx3s-85f"], standalone_mode=False).exception
    assert "--fit is for a whole model" in str(error)


def test_parts_that_never_end(monkeypatch):
    simulation = MagicMock()
    simulation.get.return_value = 0
    opened = MagicMock()
    opened.__enter__.return_value = simulation
    for name, found in {
        "packets": lambda part: ([], []),
        "Chain": lambda parts: None,
        "SimulationModel": lambda chain: None,
        "open_simulation": lambda *given, **options: opened,
    }.items():
        monkeypatch.setattr(system, name, found)
    with pytest.raises(SimulationError) as error:
        system.simulate_chain([None, None], [{}, {}], limit=3)
    assert error.value.message == "0 of 2 runs have ended after 3 cycles"
    assert error.value.hint == "please report this with the model: a part of it waits forever"


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ([4, 9, 15], "results come every [5, 6] cycles, not every 5"),
        ([4, 9, 14], "run 0 of the parts has another result than the golden model"),
    ],
)
def test_a_simulation_of_parts_that_differs(ends, text):
    made = MagicMock(predicted_interval=5)
    made.captured.inputs = ()
    made.captured.flat = lambda found: [np.zeros(2)]
    made.simulate.return_value = SimpleNamespace(ends=ends, outputs=[[np.ones(2)]] * 3)
    with pytest.raises(SimulationError) as error:
        importlib.import_module("tg2hdl.cli.split")._simulate(made, 3)
    assert (error.value.message, error.value.hint) == (text, "please report this with the model")
