"""A loop on the chip against numpy: results, cycles, ports, links with faults, and what cannot be fed back."""

import random
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest
from tinygrad import Tensor, Variable

import tg2hdl
import token_chain
from tg2hdl.device_folder import write_device_folder
from tg2hdl.generation import check_same_codes
from tg2hdl.serve import open_line
from tg2hdl_host import Device
from tg2hdl_host.arrays import read_arrays
from tg2hdl_host.description import read_files
from tg2hdl_ir import InputError
from tg2hdl_top import Design
from token_chain import POSITION, Chain

RNG = np.random.default_rng(48)
TABLE = RNG.integers(0, 8, (8, 6)).astype(np.int32)
chain_of = partial(token_chain.chain_of, TABLE)


def compiled(port, results=3):
    options = tg2hdl.CompileOptions(ports=(port,), loop=tg2hdl.Loop(results=results))
    return tg2hdl.compile(
        Chain(TABLE), np.zeros(1, np.int32), POSITION.bind(0), options=options, name="chain"
    )


def tokens(results):
    return [int(token[0]) for token in results]


WHOLE = chain_of([3])
CASES = (
    ({"first": 3}, WHOLE),
    ({"first": [3, 5]}, chain_of([3, 5])),
    ({"first": 3, "limit": 2}, WHOLE[:2]),
    ({"first": 3, "start": 2}, chain_of([3], range(2, 6))),
    ({"first": 3, "stop": WHOLE[2]}, WHOLE[: 1 + WHOLE.index(WHOLE[2])]),
    ({"first": 3, "stop": 9}, WHOLE),
    ({"first": 3, "stop": 0.5}, WHOLE),
)


@pytest.mark.parametrize("port", ["native", "axi-lite", "axi-stream"])
def test_the_chip_feeds_its_results_back(port):
    chain = compiled(port)
    assert chain.design.loop.counter == "pos"
    for arguments, expected in CASES:
        chain.reset()
        assert tokens(chain.generate(**arguments, engine="golden")) == expected
        with chain.session("amaranth") as session:
            assert tokens(session.generate(**arguments)) == expected
            assert session.state["total"] == chain.state["total"]
            given = arguments["first"] if isinstance(arguments["first"], list) else [3]
            first = arguments.get("start", 0) + len(given) - 1
            assert session.loop_cycles == chain.design.loop_cycles(len(expected), {"pos": first})
            assert session.runs == len(expected) + len(given) - 1
    single = chain.design.predicted_cycles({"pos": 0})
    assert chain.design.loop_cycles(2, {"pos": 0}) == 2 * (single + chain.design.loop.gap)
    assert chain.simulate(np.array([3], np.int32), pos=0).output == WHOLE[0]


def test_a_design_with_a_loop_is_another_one_and_is_read_again():
    with_loop, without = (
        compiled("axi-lite"),
        tg2hdl.compile(Chain(TABLE), np.zeros(1, np.int32), POSITION.bind(0)),
    )
    assert with_loop.design.identity != without.design.identity
    assert "loop (output to token in 6 cycles, pos counts, at most 3 results)" in with_loop.plan()
    assert Design.from_json(with_loop.design.to_json()).loop == with_loop.design.loop
    assert '"loop"' not in without.design.to_json()
    with pytest.raises(InputError) as error:
        without.design.loop_cycles(2)
    assert error.value.message == "the design Chain has no loop"
    assert error.value.hint == "compile with options=tg2hdl.CompileOptions(loop=True)"


WEIGHT = RNG.integers(-9, 9, (6, 6)).astype(np.int32)


class Wave:
    """A recurrent net whose output of six elements is its next input."""

    def __init__(self):
        self.weight = Tensor(WEIGHT)
        self.h = Tensor.zeros(1, 6, dtype="int32").contiguous().realize()

    def __call__(self, x):
        h = ((self.h + x.cast("int32") @ self.weight) >> 2).clip(-100, 100).contiguous()
        self.h.assign(h).realize()
        return (h + x.cast("int32")).clip(-128, 127).cast("int8")


def wave_of(x, count):
    h = np.zeros((1, 6), np.int32)
    for _ in range(count):
        h = np.clip((h + x.astype(np.int32) @ WEIGHT) >> 2, -100, 100)
        x = np.clip(h + x, -128, 127).astype(np.int8)
        yield x


@pytest.mark.parametrize("port", ["native", "wishbone"])
def test_an_input_of_several_elements_in_words(port):
    x = RNG.integers(-9, 9, (1, 6)).astype(np.int8)
    options = tg2hdl.CompileOptions(multipliers=3, ports=(port,), loop=True)
    wave = tg2hdl.compile(Wave(), np.zeros((1, 6), np.int8), options=options)
    assert next(m for m in wave.design.buffers if m.name == "x").layout.lanes > 1
    expected = list(wave_of(x, 9))
    with wave.session("amaranth") as session:
        np.testing.assert_array_equal(list(session.generate(x, limit=9)), expected)
        assert session.loop_cycles == wave.design.loop_cycles(9)
        session.reset()
        # A value for each element: the host starts each run.
        runs = session.loop_cycles
        np.testing.assert_array_equal(list(session.generate(x, limit=9, stop=expected[1])), expected[:2])
        assert session.loop_cycles == runs


def test_floats_stop_at_zeros_of_both_signs():
    options = tg2hdl.CompileOptions(loop=True)
    halved = tg2hdl.compile(lambda x: x * -0.5, np.zeros(1, np.float32), options=options)
    x = np.array([2**-147], np.float32)
    found = [float(y[0]) for y in halved.generate(x, stop=0.0, limit=9, engine="amaranth")]
    assert found == [-(2**-148), 2**-149, 0.0]
    assert np.signbit(found[-1])
    assert len(list(halved.generate(x, stop=np.nan, limit=4, engine="amaranth"))) == 4


class Disturbed:
    """A line that loses or changes bytes of some transfers."""

    def __init__(self, line):
        self.line, self.random, self.name, self.active, self.faults = (
            line,
            random.Random(7),
            "disturbed",
            False,
            0,
        )

    def disturbed(self, data):
        if not self.active or not data or self.random.random() > 0.03:
            return data
        self.faults += 1
        at = self.random.randrange(len(data))
        return data[:at] + self.random.choice((b"", bytes([data[at] ^ 16]))) + data[at + 1 :]

    def write(self, data):
        self.line.write(self.disturbed(data))

    def read(self, timeout):
        return self.disturbed(self.line.read())

    def close(self):
        self.line.close()


def test_a_device_loops_and_faults_of_its_link_advance_no_state(tmp_path):
    chain = compiled("uart")
    write_device_folder(chain, tmp_path, vectors=0)
    assert "TG2HDL_GENERATE" in (tmp_path / "registers.h").read_text()
    line, state = Disturbed(open_line(chain.design)), read_arrays(tmp_path / "state.npz")
    with Device(line, files=read_files(tmp_path), state=state, timeout=30, attempts=40) as device:
        device.reset()
        assert tokens(device.generate([3, 5], limit=4)) == chain_of([3, 5])[:4]
        assert device.counters["runs"] == 1 + 3  # starts of 1, 2 and 1 results
        assert device.counters["cycles"] == chain.design.loop_cycles(1, {"pos": 4})
        line.active = True
        for _ in range(4):
            device.reset()
            assert tokens(device.generate(3)) == WHOLE
        assert line.faults > 5


def test_a_testbench_starts_no_loop(tmp_path):
    chain = compiled("native")
    chain.testbench(tmp_path, runs=2)
    assert ".loop__limit(0)" in (tmp_path / "chain_tb.v").read_text()
    if shutil.which("iverilog") is None:
        pytest.skip("needs Icarus Verilog")
    subprocess.run(["iverilog", "-g2012", "-o", "tb", "chain.v", "chain_tb.v"], cwd=tmp_path, check=True)
    found = subprocess.run(["vvp", "tb"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert found.startswith("PASSED: 2 values of 2 runs")


def failed(model, *examples, loop=True, **options):
    with pytest.raises(InputError) as error:
        tg2hdl.compile(model, *examples, options=tg2hdl.CompileOptions(loop=loop, **options), name="net")
    return str(error.value)


X = np.zeros(3, np.int32)
SQUARE = Tensor(np.eye(9, dtype=np.int32))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            lambda: failed(lambda x, y: x + y, X, X),
            "bad input: a loop has one input and one output; inputs are x, y, and outputs output\n"
            "  at: loop of net\n"
            "  hint: keep the others as state: tensor.assign(...), or state= of an ONNX file",
        ),
        (
            lambda: failed(lambda x: x.sum(keepdim=True), X),
            "bad input: output 'output' has shape (1,) and type int32, and input 'x' has shape (3,) and type int32\n"
            "  at: loop of net\n"
            "  hint: let the model return its next input, of the same shape and type",
        ),
        (
            lambda: failed(lambda x: (x + 1).cast("int16"), X),
            "bad input: output 'output' has shape (3,) and type int16, and input 'x' has shape (3,) and type int32\n"
            "  at: loop of net\n"
            "  hint: let the model return its next input, of the same shape and type",
        ),
        (
            lambda: failed(lambda x: x + 1, X, loop=tg2hdl.Loop(counter="n")),
            "bad input: the design has no variable 'n' to count with\n"
            "  at: loop of net\n"
            "  hint: leave counter= out: it has none",
        ),
        (
            lambda: failed(
                lambda x, n, k: x + n * k, X, Variable("n", 0, 3).bind(0), Variable("k", 0, 3).bind(0)
            ),
            "bad input: several variables may count: k, n\n"
            "  at: loop of net\n"
            '  hint: name one: loop=tg2hdl.Loop(counter="k")',
        ),
        (
            lambda: failed(
                lambda x: (x @ SQUARE).relu() @ SQUARE, np.zeros((1, 9), np.int32), schedule="dataflow"
            ),
            "bad input: a loop waits for each result, and with schedule='dataflow' runs overlap\n"
            "  at: loop of net\n"
            '  hint: choose schedule="overlap"',
        ),
        (
            lambda: failed(lambda x: x + 1, X, loop=3),
            "bad input: loop=3 is unknown\n  hint: choose True, False or tg2hdl.Loop(...)",
        ),
        (
            lambda: failed(lambda x: x + 1, X, loop=tg2hdl.Loop(results=2)) if tg2hdl.Loop(results=0) else "",
            "bad input: Loop(results=0)\n  hint: give 1 to 65,536 results",
        ),
    ],
)
def test_what_cannot_loop(error, message):
    try:
        found = error()
    except InputError as raised:
        found = str(raised)
    assert found == message


def test_codes_of_another_scale_are_not_fed_back():
    weight = Tensor(RNG.normal(size=(3, 3)).astype(np.float32) * 4)
    samples = RNG.normal(size=(20, 3)).astype(np.float32)
    model = tg2hdl.quantize(lambda x: x @ weight, samples)
    codes = "input codes have the scale .* and zero point 0, output codes .* and 0: a loop on the chip feeds codes back"
    with pytest.raises(InputError, match=codes) as error:
        check_same_codes(model)
    assert error.value.hint == "leave loop= out: `generate` then converts each result on the host"


def test_first_inputs_and_stops_that_do_not_fit():
    wave = tg2hdl.compile(
        Wave(), np.zeros((1, 6), np.int8), options=tg2hdl.CompileOptions(loop=True), name="wave"
    )
    for arguments, message in (
        (
            {"first": np.zeros((1, 5), np.int8), "limit": 2},
            "first has shape (1, 5) and type int8; input 'x' takes (1, 6) and int8, or several of them",
        ),
        (
            {"first": np.full((1, 6), 200), "limit": 2},
            "first has shape (1, 6) and type int64; input 'x' takes (1, 6) and int8, or several of them",
        ),
        (
            {"first": np.zeros((1, 6), np.int8), "stop": np.zeros(4), "limit": 2},
            "stop has shape (4,), and a result (1, 6)",
        ),
        (
            {"first": np.zeros((1, 6), np.int8)},
            "limit is missing: there is no counter whose range ends the runs",
        ),
    ):
        with pytest.raises(InputError) as error:
            wave.generate(**arguments)
        assert error.value.message == message
