"""Run-time variables and state by the public names, against numpy."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor, Variable

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.device_folder import write_device_folder
from tg2hdl.serve import open_line
from tg2hdl_host import Device, RefusedError, UnfitInputError, protocol, selftest
from tg2hdl_host.description import read_files
from tg2hdl_ir.errors import InputError

RNG = np.random.default_rng(43)
TABLE = RNG.integers(-50, 50, (6, 4)).astype(np.int32)
POSITION = Variable("pos", 0, 5)


class Cached:
    """Adds a row of a table, stores the sum in a row of a cache, and returns the sum of the rows so far."""

    def __init__(self):
        self.cache = Tensor.zeros(6, 4, dtype="int32").contiguous().realize()
        self.table = Tensor(TABLE)

    def __call__(self, x, pos):
        self.cache[pos : pos + 1].assign((x + self.table[pos]).reshape(1, 4)).realize()
        return self.cache.sum(axis=0)


def expected_of(steps):
    cache = np.zeros((6, 4), np.int32)
    for x, pos in steps:
        cache[pos] = x + TABLE[pos]
        yield cache.sum(axis=0)


def steps(*positions):
    return [(RNG.integers(-9, 9, 4).astype(np.int32), pos) for pos in positions]


@pytest.fixture(scope="module")
def cached():
    return tg2hdl.compile(Cached(), np.zeros(4, np.int32), POSITION.bind(3), name="cached")


@pytest.fixture
def fresh(cached):
    cached.reset()
    return cached


def test_a_variable_takes_its_value_by_name(fresh):
    run = steps(2, 0, 5, 2)
    for (x, pos), expected in zip(run, expected_of(run), strict=True):
        np.testing.assert_array_equal(fresh.golden(x, pos=pos), expected)
        np.testing.assert_array_equal(fresh.simulate(x, pos=pos).output, expected)


def test_a_variable_may_be_among_the_inputs(fresh):
    run = steps(1, 4, 3)
    (first, second, third), inputs = list(expected_of(run)), [x for x, _ in run]
    np.testing.assert_array_equal(fresh.golden(inputs[0], POSITION.bind(1)), first)
    np.testing.assert_array_equal(fresh.golden({"x": inputs[1], "pos": np.int64(4)}), second)
    np.testing.assert_array_equal(fresh.golden(inputs[2]), third)


def test_the_reference_takes_the_value_too(fresh):
    ((x, _),) = steps(5)
    np.testing.assert_array_equal(fresh.reference(x, pos=5), x + TABLE[5])
    (found,) = fresh.check(fresh.golden(x, pos=5), x, pos=5)
    assert found.agrees


def test_a_session_takes_variables_in_each_run_of_a_batch(fresh):
    run = steps(2, 0, 5)
    with fresh.session("amaranth") as session:
        found = [session.run(run[0][0], pos=run[0][1])]
        found += session.run_batch([(run[1][0], POSITION.bind(0)), {"x": run[2][0], "pos": 5}])
    for result, expected in zip(found, expected_of(run), strict=True):
        np.testing.assert_array_equal(result.output, expected)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"pos": 6},
            "bad input: variable 'pos' is 6, out of its range\n  at: model cached\n"
            "  hint: give 0 to 5, or compile with a Variable of another range",
        ),
        (
            {"pos": 1.5},
            "bad input: variable 'pos' is given 1.5\n  at: model cached\n  hint: give an integer, such as pos=1",
        ),
        (
            {"position": 1},
            "bad input: the model has no variable 'position'\n  at: model cached\n  hint: its variables are pos",
        ),
    ],
)
def test_values_that_a_variable_cannot_have(cached, variables, message):
    for run in (cached.golden, cached.simulate):
        with pytest.raises(InputError) as error:
            run(np.zeros(4, np.int32), **variables)
        assert str(error.value) == message


def test_a_variable_that_the_model_binds_itself_has_no_other_value_in_the_reference():
    bound = Variable("n", 1, 4).bind(2)
    accelerator = tg2hdl.compile(lambda x: x[:bound].sum(), np.arange(4, dtype=np.int32), name="total")
    x = np.arange(1, 5, dtype=np.int32)
    assert [accelerator.golden(x, n=n) for n in (1, 4)] == [1, 10]
    assert (accelerator.golden(x), accelerator.reference(x)) == (3, 3)
    with pytest.raises(InputError) as error:
        accelerator.reference(x, n=3)
    assert str(error.value) == (
        "bad input: the model binds 'n' to 2 itself\n  at: model total\n"
        "  hint: make the bound Variable an argument of the model"
    )


def test_a_variable_that_no_kernel_uses_is_accepted():
    accelerator = tg2hdl.compile(
        lambda x, n: x + 1, np.arange(3, dtype=np.int32), Variable("n", 1, 4).bind(2)
    )
    x = np.arange(3, dtype=np.int32)
    assert accelerator.golden(x, n=3).tolist() == accelerator.simulate(x, n=3).output.tolist() == [1, 2, 3]


MODEL = """
import numpy as np
from tinygrad import Tensor, Variable

class Model:
    def __init__(self):
        self.kept = Tensor.zeros(6, 2, dtype="int32").contiguous().realize()

    def __call__(self, x, pos):
        self.kept[pos : pos + 1].assign(x.reshape(1, 2)).realize()
        return self.kept[: pos + 1].sum(axis=0)

model = Model()
example_inputs = (np.array([3, 4], np.int32), Variable("pos", 0, 5).bind(0))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "model.py"
    path.write_text(MODEL)
    return path


def command(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    return result.exit_code, result.output


def test_the_command_line_takes_values_of_variables(model, tmp_path):
    code, output = command("simulate", model, "--variable", "pos=4")
    assert code == 0, output
    assert output.endswith("[3 4]\n")
    np.savez(tmp_path / "one.npz", x=np.array([5, 6], np.int32), pos=np.int64(2))
    code, output = command("simulate", model, "--data", tmp_path / "one.npz", "--check")
    assert code == 0, output
    assert output.endswith("[5 6]\n")
    xs = np.arange(6, dtype=np.int32).reshape(3, 2)
    np.savez(tmp_path / "many.npz", x=xs, pos=np.array([3, 0, 5]))
    code, output = command("simulate", model, "--set", tmp_path / "many.npz", "-o", tmp_path / "out.npz")
    assert code == 0, output
    with np.load(tmp_path / "out.npz") as found:
        assert found["output"].tolist() == [xs[0].tolist(), xs[1].tolist(), xs.sum(0).tolist()]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("pos=9", "variable 'pos' is 9, out of its range"),
        ("p=1", "the model has no variable 'p'"),
        ("pos", "--variable 'pos' is not of the form NAME=VALUE"),
    ],
)
def test_wrong_values_on_the_command_line(model, option, message):
    result = CliRunner().invoke(cli, ["simulate", str(model), "--variable", option])
    assert isinstance(result.exception, InputError)
    assert result.exception.message == message


def test_the_testbench_sets_the_variables_of_each_run(model, tmp_path):
    code, output = command("compile", model, "--testbench", "-o", tmp_path)
    assert code == 0, output
    vectors = json.loads((tmp_path / "model_tb.json").read_text())
    assert len({tuple(v.values()) for v in vectors["variables"]}) > 1
    assert len(set(vectors["cycles"])) > 1
    if shutil.which("iverilog") is None:
        pytest.skip("needs Icarus Verilog")
    subprocess.run(["iverilog", "-g2012", "-o", "tb", "model.v", "model_tb.v"], cwd=tmp_path, check=True)
    found = subprocess.run(["vvp", "tb"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert found.startswith("PASSED: 8 values of 4 runs")


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    options = tg2hdl.CompileOptions(ports=("uart",))
    accelerator = tg2hdl.compile(Cached(), np.zeros(4, np.int32), POSITION.bind(3), options=options)
    folder = tmp_path_factory.mktemp("device")
    write_device_folder(accelerator, folder, vectors=3)
    with Device(open_line(accelerator.design), files=read_files(folder), timeout=30) as opened:
        yield opened, folder


def test_a_device_takes_variables_and_selftest_does(device):
    opened, folder = device
    assert selftest(opened, folder) == 3  # first, from the power-on state
    rows = [(np.zeros(4, np.int32) - TABLE[pos], pos) for pos in range(6)]
    for x, pos in rows:
        opened(x, pos=pos)
    run = steps(2, 0, 3)
    expected = list(expected_of(run))
    np.testing.assert_array_equal(opened(run[0][0], pos=2), expected[0])
    np.testing.assert_array_equal(opened({"x": run[1][0], "pos": 0}), expected[1])
    np.testing.assert_array_equal(opened(run[2][0]), expected[2])  # the folder's value
    opened.set_variable("pos", 0)
    x = run[1][0]
    np.testing.assert_array_equal(
        opened.run([x, {"x": -TABLE[2], "pos": 2}])[1], expected[2] - run[0][0] - TABLE[2]
    )


def test_values_that_a_variable_of_a_device_cannot_have(device):
    opened, _ = device
    for variables, message in (
        ({"pos": 6}, "variable 'pos' cannot be 6"),
        ({"n": 1}, "the design has no variable 'n'"),
    ):
        with pytest.raises(UnfitInputError, match=message):
            opened(np.zeros(4, np.int32), **variables)
    with pytest.raises(RefusedError, match="a variable is written with a value out of its range"):
        opened._perform(protocol.write(0x40, (6).to_bytes(4, "little"), "write pos"))
