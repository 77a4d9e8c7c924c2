"""Run-time variables and state by the public names, against numpy."""

import json
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor, Variable

import tg2hdl
import token_chain
from tg2hdl.cli import cli
from tg2hdl.device_folder import write_device_folder
from tg2hdl.serve import open_line
from tg2hdl.testbench.accesses import register_accesses
from tg2hdl_host import Device, RefusedError, UnfitInputError, protocol, selftest
from tg2hdl_host.arrays import read_arrays
from tg2hdl_host.description import read_files
from tg2hdl_ir import InputError
from token_chain import POSITION, Chain

PORTS = ("uart", "axi-lite", "axi-stream")
RNG = np.random.default_rng(43)
TABLE = RNG.integers(-50, 50, (6, 4)).astype(np.int32)


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


class Rows:
    """Stores a row in a state that is large enough for several pieces, and returns the sum of two rows."""

    def __init__(self):
        self.rows = Tensor.zeros(10000, 4, dtype="int8").contiguous().realize()

    def __call__(self, x, pos):
        self.rows[pos : pos + 1].assign(x.reshape(1, 4)).realize()
        return self.rows[pos].cast("int32") + self.rows[0].cast("int32")


def test_a_state_in_pieces_is_kept_read_and_written():
    row = np.arange(-2, 2, dtype=np.int8)
    compiled = tg2hdl.compile(Rows(), row, Variable("pos", 0, 9999).bind(3))
    (memory,) = (m for m in compiled.design.built_memories if m.name == "rows")
    assert [piece.word for piece in memory.pieces] == [0, 1 << 15]
    np.testing.assert_array_equal(compiled.simulate(row, pos=0).output, 2 * row)
    np.testing.assert_array_equal(compiled.simulate(row * 3, pos=9999).output, 4 * row)
    expected = np.zeros((10000, 4), np.int8)
    expected[[0, 9999]] = row, 3 * row
    np.testing.assert_array_equal(compiled.state["rows"], expected)
    compiled.state["rows"] = expected = RNG.integers(-128, 128, (10000, 4), dtype=np.int8)
    np.testing.assert_array_equal(compiled.state["rows"], expected)
    np.testing.assert_array_equal(compiled.simulate(row, pos=8192).output, row + expected[0].astype(np.int32))


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
    state = read_arrays(folder / "state.npz")
    line = open_line(accelerator.design)
    with Device(line, files=read_files(folder), state=state, timeout=30) as opened:
        yield opened, folder


def test_a_device_takes_variables_and_selftest_does(device):
    opened, folder = device
    assert selftest(opened, folder) == 3
    assert opened.counters["runs"] == 6
    opened.reset()
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


class Clipped:
    """Keeps the last rows of its input in nine bits, and a count of runs."""

    def __init__(self):
        self.rows = Tensor(np.full((3, 4), 7, np.int16)).realize()
        self.count = Tensor(np.array([5], np.int32)).realize()

    def __call__(self, x):
        new = (x + self.rows[2]).clip(-200, 255).cast("int16").reshape(1, 4)
        self.rows.assign(self.rows[1:].cat(new).contiguous()).realize()
        self.count.assign(self.count + 1).realize()
        return self.rows.cast("int32").sum(axis=0) + self.count


def clipped_runs(xs, rows=None, count=5):
    rows = np.full((3, 4), 7, np.int16) if rows is None else rows
    for x in xs:
        rows = np.concatenate([rows[1:], np.clip(x + rows[2], -200, 255).astype(np.int16)[None]])
        count += 1
        yield rows, count, rows.astype(np.int32).sum(0) + count


XS = RNG.integers(-150, 150, (4, 4)).astype(np.int32)


@pytest.fixture(scope="module", params=["native", "uart"])
def clipped(request):
    options = tg2hdl.CompileOptions(ports=(request.param,))
    return tg2hdl.compile(Clipped(), XS[0], options=options, name="clipped")


def test_state_is_read_and_written_by_name(clipped):
    clipped.reset()
    assert list(clipped.state) == ["rows", "count"]
    np.testing.assert_array_equal(clipped.state["rows"], np.full((3, 4), 7))
    for run in (clipped.golden, lambda x: clipped.simulate(x).output):
        clipped.reset()
        for x, (rows, count, output) in zip(XS, clipped_runs(XS), strict=True):
            np.testing.assert_array_equal(run(x), output)
            np.testing.assert_array_equal(clipped.state["rows"], rows)
            assert clipped.state["rows"].dtype == np.int16
            assert clipped.state["count"].tolist() == [count]
    other = RNG.integers(-100, 100, (3, 4)).astype(np.int16)
    clipped.state["rows"] = other
    ((_, _, expected),) = clipped_runs(XS[:1], other)
    np.testing.assert_array_equal(clipped.golden(XS[0]), expected)
    ((_, _, expected),) = clipped_runs(XS[:1], other, 9)
    np.testing.assert_array_equal(clipped.simulate(XS[0]).output, expected)
    clipped.reset()
    clipped.state["count"] = np.array([-5], np.int32)
    ((_, _, expected),) = clipped_runs(XS[:1], None, -5)
    np.testing.assert_array_equal(clipped.simulate(XS[0]).output, expected)


def test_the_state_of_a_session_is_its_own(clipped):
    clipped.reset()
    with clipped.session("amaranth") as session:
        session.run(XS[0])
        assert session.state["count"].tolist() == [6]
        assert clipped.state["count"].tolist() == [5]
        session.reset()
        ((rows, _, expected),) = clipped_runs(XS[1:2])
        np.testing.assert_array_equal(session.run(XS[1]).output, expected)
        np.testing.assert_array_equal(session.state["rows"], rows)


class Narrow:
    """A cache of integers in nine bits, whose last row is a copy, and a count of runs."""

    def __init__(self):
        self.rows = Tensor(np.full((3, 4), 7, np.int32)).realize()
        self.count = Tensor(np.array([5], np.int32)).realize()

    def __call__(self, x):
        self.rows[2:3].assign(self.rows[1:2]).realize()
        self.rows[1:2].assign((x + self.rows[2]).clip(-200, 255).reshape(1, 4)).realize()
        self.count.assign(self.count + 1).realize()
        return self.rows.sum(axis=0) + self.count


@pytest.mark.parametrize("port", ["native", "uart"])
def test_state_takes_the_bits_of_what_is_stored(port):
    options = tg2hdl.CompileOptions(ports=(port,))
    narrow = tg2hdl.compile(Narrow(), XS[0], options=options)
    rows = np.full((3, 4), 7)
    for number, x in enumerate(10 * XS):
        rows[2] = rows[1]
        rows[1] = np.clip(x + rows[2], -200, 255)
        np.testing.assert_array_equal(narrow.simulate(x).output, rows.sum(0) + 6 + number)
        np.testing.assert_array_equal(narrow.state["rows"], rows)
    assert {-200, 255} <= set(rows.reshape(-1).tolist())
    assert repr(narrow.state).splitlines() == [
        "state  shape  dtype  stored  bits",
        "rows   3x4    int32  int9    108",
        "count  1      int32  int32   32",
    ]
    assert narrow.memory.bits["state"] == 140
    with pytest.raises(InputError) as error:
        narrow.state["rows"] = np.full((3, 4), 256, np.int32)
    assert str(error.value) == (
        "bad input: state 'rows' is given values from 256 to 256\n  at: state 'rows'\n"
        "  hint: runs store -256 to 255, and it has 9 bits"
    )


def test_state_of_another_shape_or_name_is_refused(clipped):
    with pytest.raises(InputError, match=r"state 'count' is given shape \(2,\) and dtype int32"):
        clipped.state["count"] = np.zeros(2, np.int32)
    with pytest.raises(InputError, match="the model has no state 'cache'") as error:
        clipped.state["cache"]
    assert error.value.hint == "its state is rows, count"


def test_the_state_of_a_device_is_read_and_written_by_name(device):
    opened, _ = device
    opened.reset()
    assert list(opened.state) == ["cache"]
    assert not opened.state["cache"].any()
    run = steps(4, 1)
    opened.run([{"x": x, "pos": pos} for x, pos in run])
    expected = np.zeros((6, 4), np.int32)
    for x, pos in run:
        expected[pos] = x + TABLE[pos]
    np.testing.assert_array_equal(opened.state["cache"], expected)
    other = RNG.integers(-9, 9, (6, 4)).astype(np.int32)
    opened.state["cache"] = other
    other[2] = TABLE[2]
    np.testing.assert_array_equal(opened(np.zeros(4, np.int32), pos=2), other.sum(axis=0))
    np.testing.assert_array_equal(opened.state["cache"], other)
    for wrong in (np.zeros((6, 4), np.int16), np.zeros((3, 4), np.int32)):
        with pytest.raises(UnfitInputError, match="'cache' has shape"):
            opened.state["cache"] = wrong
    with pytest.raises(UnfitInputError, match="the design has no state 'rows' within reach"):
        opened.state["rows"]


class Total:
    """A state in 13 bits, which is the output too."""

    def __init__(self):
        self.total = Tensor(np.zeros(4, np.int32)).realize()

    def __call__(self, x):
        self.total.assign((self.total + x).clip(-3000, 3000)).realize()
        return self.total


def test_hosts_read_negative_integers_that_are_stored_in_fewer_bits(tmp_path):
    x = np.array([-900, 900, -1, 3], np.int32)
    totals = {
        port: tg2hdl.compile(Total(), x, options=tg2hdl.CompileOptions(ports=(port,))) for port in PORTS
    }
    for total in totals.values():
        assert [total.simulate(x).output.tolist() for _ in range(2)] == [x.tolist(), (2 * x).tolist()]
    with tg2hdl.connect(f"simulate:{totals['uart'].build(tmp_path, vectors=1)}") as device:
        assert device(x).tolist() == x.tolist()
        ((name, state),) = device.state.items()
        assert (state.tolist(), state.dtype, device.output_forms[0][1]) == (x.tolist(), np.int32, np.int32)
        device.state[name] = x
        assert device(x).tolist() == (2 * x).tolist()
        device.reset()
        assert device(x).tolist() == x.tolist()
    results = [a.data for a in register_accesses(totals["axi-lite"], 4) if a.about == "output"]
    assert any(word >> 31 for word in results), "testbenches expect the sign"


CHAIN = RNG.integers(0, 8, (8, 6)).astype(np.int32)
chain_of = partial(token_chain.chain_of, CHAIN)


@pytest.fixture(scope="module")
def chain():
    options = tg2hdl.CompileOptions(ports=("uart",))
    return tg2hdl.compile(
        Chain(CHAIN), np.zeros(1, np.int32), POSITION.bind(0), options=options, name="chain"
    )


@pytest.mark.parametrize("engine", ["golden", "amaranth"])
def test_results_are_fed_back(chain, engine):
    cases = (
        ({"first": 3}, chain_of([3])),
        ({"first": [[3], [5], [1]]}, chain_of([3, 5, 1])),
        ({"first": [3, 5]}, chain_of([3, 5])),
        ({"first": np.array([3], np.int32), "limit": 2}, chain_of([3])[:2]),
        ({"first": 3, "start": 2}, chain_of([3], range(2, 6))),
        ({"first": 3, "stop": chain_of([3])[2]}, chain_of([3])[: 1 + chain_of([3]).index(chain_of([3])[2])]),
    )
    for arguments, expected in cases if engine == "golden" else cases[3:4]:
        chain.reset()
        assert [int(t[0]) for t in chain.generate(**arguments, engine=engine)] == expected


def test_a_device_feeds_results_back(chain, tmp_path):
    write_device_folder(chain, tmp_path, vectors=0)
    with Device(open_line(chain.design), files=read_files(tmp_path), timeout=30) as opened:
        assert [int(t[0]) for t in opened.generate([3, 5], limit=3)] == chain_of([3, 5])[:3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"first": [0.5]},
            "first has shape (1,) and type float64; input 'token' takes (1,) and int32, or several of them",
        ),
        ({"first": 3, "counter": "n"}, "the design has no variable 'n' to count with"),
        ({"first": 3, "start": 6}, "start is 6, and pos goes from 0 to 5"),
        ({"first": [1] * 7}, "7 first inputs do not fit: pos ends at 5"),
        ({"first": 3, "limit": 0}, "limit is 0, not a positive number of results"),
        (
            {"first": 3, "feedback": "y"},
            "no such output has the shape (1,) and type int32 of 'token'; outputs are output (1,) int32",
        ),
    ],
)
def test_what_cannot_be_fed_back(chain, arguments, message):
    with pytest.raises(InputError) as error:
        chain.generate(**arguments)
    assert error.value.message == message


class Layer:
    def __init__(self):
        self.weight = Tensor(RNG.integers(-8, 8, (6, 6)).astype(np.int32)).realize()
        self.h = Tensor.zeros(1, 6, dtype="int32").contiguous().realize()

    def __call__(self, x):
        h = ((self.h + x @ self.weight) >> 2).clip(-100, 100)
        self.h.assign(h)
        return h


class Stack:
    def __init__(self):
        self.first, self.second, self.third = Layer(), Layer(), Layer()

    def __call__(self, x):
        return self.third(self.second(self.first(x)))


@pytest.mark.parametrize("host_state", [True, False])
def test_state_of_equal_layers_that_share_a_core(host_state):
    stack, x = Stack(), RNG.integers(-9, 9, (1, 6)).astype(np.int32)
    options = tg2hdl.CompileOptions(ports=("uart",), host_state=host_state)
    accelerator = tg2hdl.compile(stack, x, options=options)
    layers = [layer.weight.numpy().astype(int) for layer in (stack.first, stack.second, stack.third)]
    states = [np.zeros((1, 6), int) for _ in layers]
    with accelerator.session("amaranth") as session:
        for _ in range(2):
            value = x
            for n, weight in enumerate(layers):
                value = states[n] = np.clip((states[n] + value @ weight) >> 2, -100, 100)
            np.testing.assert_array_equal(session.run(x).output, value)
            for name, state in zip(("first.h", "second.h", "third.h"), states, strict=True):
                np.testing.assert_array_equal(session.state[name], state)
            states[1] = np.arange(6)[None]
            session.state["second.h"] = states[1].astype(np.int32)
    reached = [b.title for b in accelerator.design.ports[0].serves.buffers if b.is_state]
    assert len(reached) == (3 if host_state else 0)
    assert accelerator.design.repeats_cores
    cores = len(accelerator.design.core_plans)
    assert cores < len(accelerator.kernels) - 2 if not host_state else cores > 2


TOKENS, SIZE = 16, 8
EMBEDDING = RNG.integers(-20, 20, (TOKENS, SIZE)).astype(np.int32)
QUERY, KEY, VALUE = (RNG.integers(-8, 8, (SIZE, SIZE)).astype(np.int32) for _ in range(3))
LOGITS = RNG.integers(-8, 8, (SIZE, TOKENS)).astype(np.int32)


class Decoder:
    """One layer of attention with caches of keys and values, in integers, and the next token."""

    def __init__(self):
        self.embedding, self.logits = Tensor(EMBEDDING), Tensor(LOGITS)
        self.query, self.key, self.value = Tensor(QUERY), Tensor(KEY), Tensor(VALUE)
        self.keys = Tensor.zeros(6, SIZE, dtype="int32").contiguous().realize()
        self.values = Tensor.zeros(6, SIZE, dtype="int32").contiguous().realize()

    def __call__(self, token, pos):
        x = self.embedding[token[0]].reshape(1, SIZE)
        self.keys[pos : pos + 1].assign(((x @ self.key) >> 2).clip(-256, 255)).realize()
        self.values[pos : pos + 1].assign(((x @ self.value) >> 2).clip(-256, 255)).realize()
        query = ((x @ self.query) >> 2).reshape(SIZE, 1)
        scores = ((self.keys @ query).reshape(1, 6) >> 6).clip(0, 1000)
        return ((x + ((scores @ self.values) >> 6)) @ self.logits).argmax(axis=1).cast("int32")


def decoded(token):
    keys, values = np.zeros((6, SIZE), int), np.zeros((6, SIZE), int)
    for pos in range(6):
        x = EMBEDDING[token][None].astype(int)
        keys[pos], values[pos] = np.clip((x @ KEY) >> 2, -256, 255), np.clip((x @ VALUE) >> 2, -256, 255)
        scores = np.clip((keys @ ((x @ QUERY) >> 2)[0])[None] >> 6, 0, 1000)
        token = int(((x + ((scores @ values) >> 6)) @ LOGITS).argmax())
        yield token


def test_a_decoder_with_caches_writes_the_tokens_of_numpy():
    decoder = tg2hdl.compile(Decoder(), np.zeros(1, np.int32), POSITION.bind(0), multipliers=4)
    assert {t.stored.bit_width for t in decoder.state.tensors.values()} == {9}
    for token in (3, 7):
        decoder.reset()
        assert [int(t[0]) for t in decoder.generate(token, engine="golden")] == list(decoded(token))
    decoder.reset()
    assert [int(t[0]) for t in decoder.generate(7, limit=4)] == list(decoded(7))[:4]
