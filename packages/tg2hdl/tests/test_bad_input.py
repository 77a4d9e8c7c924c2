"""Wrong arguments of the Python interface and the command are errors of ours, which say what to give."""

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_backend import OnnxModel, capture
from tg2hdl_ir import DType, InputError, Tg2hdlError
from tg2hdl_sim import open_simulation
from tg2hdl_synth import estimate_design, synthesis_stats, synthesize
from tg2hdl_top import Design, TopModule, compile_program

X = np.zeros(8, np.int8)


def model(x):
    return x + 1


OPTIONS = [{"units": 5}, {"units": {"add": 5}}, {"ports": 5}, {"ports": "native"}, {"multipliers": 10**20}]
CALLS = {
    "a model that is none": lambda: tg2hdl.compile(5, X),
    "an object as an input": lambda: tg2hdl.compile(model, object()),
    "a file that cannot be written": lambda: tg2hdl.compile(model, X).rtlil("/proc/none/model.il"),
    "a result of text": lambda: tg2hdl.compile(model, X).check("x", X),
    "an unknown part": lambda: estimate_design(tg2hdl.compile(model, X).top, "ecp5"),
    "no design": lambda: synthesize(None),
    "a text that is not a design": lambda: synthesize("junk"),
    "a design that is not a file": lambda: Design.load("/nowhere/design.json"),
    "no program": lambda: compile_program(5),
    "no kernels": lambda: TopModule(5),
    "a number as a dtype": lambda: DType.from_name(5),
    "a model that is a number": lambda: capture(5, X),
    "no design to simulate": lambda: open_simulation(5),
    "a number as a file": lambda: OnnxModel(5),
    "no kernel": lambda: synthesis_stats(None),
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    with pytest.raises(InputError) as caught:
        tg2hdl.CompileOptions(**options)
    assert caught.value.hint


@pytest.mark.parametrize("case", CALLS)
def test_calls(case):
    with pytest.raises(Tg2hdlError) as caught:
        CALLS[case]()
    assert caught.value.message


def test_an_estimate_takes_the_name_of_a_part():
    estimate = estimate_design(tg2hdl.compile(model, X).top, "ecp5-45k")
    assert estimate.comb > 0
    assert estimate.fmax > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit(3)", "bad input: model.py failed: SystemExit: 3"),
        ("def model(x: return", "bad input: model.py failed: SyntaxError"),
    ],
)
def test_files_that_do_not_run(tmp_path, text, message):
    (tmp_path / "model.py").write_text(text)
    result = CliRunner().invoke(cli, ["compile", str(tmp_path / "model.py")])
    assert str(result.exception).startswith(message)


@pytest.mark.parametrize(
    "arguments", [["--input", "int8:99999999999x9999999"], ["--multipliers", "99999999999999999999"]]
)
def test_sizes_beyond_all_hardware(tmp_path, arguments):
    (tmp_path / "model.py").write_text(
        "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.zeros(4, np.int8),)\n"
    )
    result = CliRunner().invoke(cli, ["compile", str(tmp_path / "model.py"), *arguments])
    assert isinstance(result.exception, InputError)
