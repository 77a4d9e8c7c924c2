import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import click
import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli, main
from tg2hdl_ir import CommandDef, hookimpl, registry

MODEL = """
import numpy as np
def model(x): return (x.cast("int32") * x).sum()
example_inputs = (np.zeros((2, 5), np.int8),)
"""


def call(*arguments, cwd=None):
    """Run the command in this process; a new one would import the compiler each time."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["tg2hdl", *arguments])
        if cwd is not None:
            patch.chdir(cwd)
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_version():
    command = [sys.executable, "-W", "error", "-m", "tg2hdl", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"tg2hdl, version {tg2hdl.__version__}\n", "")


@pytest.mark.parametrize("arguments", ["--version", "--help", "plugins list"])
def test_the_command_answers_without_loading_the_compiler(arguments):
    program = (
        "import sys; from tg2hdl.cli import main; sys.argv = ['tg2hdl', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: print('LOADED', *sorted({'amaranth', 'numpy', 'tinygrad', 'tg2hdl_backend'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, *arguments.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    golden = (
        " numpy" if arguments == "plugins list" else ""
    )  # the ops that it counts bring their golden models
    assert result.stdout.endswith(f"LOADED{golden}\n")


def test_help_teaches():
    text = call("--help").stdout
    assert "Examples:\n    tg2hdl demo" in text
    assert "def model(x): return x.relu() * 2" in text
    for command in ("bench", "cache", "compile", "demo", "plugins", "simulate", "synth"):
        assert f"\n  {command} " in text


@pytest.mark.parametrize("command", ["bench", "compile", "demo", "report", "simulate", "synth"])
def test_each_command_shows_examples(command):
    result = CliRunner().invoke(cli, [command, "--help"])
    assert f"Examples:\n    tg2hdl {command}" in result.output


def test_plugins_list():
    found = json.loads(call("plugins", "list", "--json").stdout)
    assert found["problems"] == []
    provides = {p["distribution"]: p["provides"] for p in found["plugins"]}
    commands = provides["tg2hdl"]["tg2hdl_commands"]
    assert {"cache", "compile", "demo", "plugins", "quantize", "report", "simulate"} <= set(commands)
    assert "model" in provides["tg2hdl"]["tg2hdl_report_sections"]
    assert "int8" in provides["tg2hdl-quant"]["tg2hdl_quantizers"]
    assert "tg2hdl-quant" in call("plugins", "list").stdout


def test_compile_writes_files_that_belong_together(folder):
    result = call("compile", "model.py", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    build = folder / "build" / "model"
    data = json.loads((build / "model.json").read_text())
    assert f"{data['predicted_cycles']:,} cycles from start to done" in result.stdout
    assert data["inputs"] == [{"name": "x", "shape": [2, 5], "dtype": "int8"}]
    assert data["kernels"][0]["macs"] == 10
    assert data["kernels"][0]["notes"] == []
    assert "module model(" in (build / "model.v").read_text()
    assert "module \\model\n" in (build / "model.il").read_text()
    assert f"cycles={data['predicted_cycles']}" in (build / "model.plan").read_text()


def test_compile_without_yosys_writes_all_but_verilog(folder, monkeypatch):
    monkeypatch.setattr("tg2hdl_sim.yosys.PACKAGE", "yowasp_missing")
    done = call("compile", "model.py", "-o", "out", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "model.il",
        "model.json",
        "model.plan",
    ]
    assert done.stdout.splitlines()[-1] == 'no Verilog, which needs Yosys: pip install "tg2hdl[verilog]"'
    done = call("compile", "model.py", "-o", "bench", "--testbench", cwd=folder)
    assert done.returncode == 1
    assert done.stderr.endswith('hint: pip install "tg2hdl[verilog]"\n')
    assert (folder / "bench/model.il").exists()


def test_compile_says_which_lanes_it_chose_and_why(folder):
    result = call("compile", "model.py", "--multipliers", "4", cwd=folder)
    assert result.returncode == 0
    data = json.loads((folder / "build" / "model" / "model.json").read_text())
    (note,) = data["kernels"][0]["notes"]
    assert note.endswith("at once: 3 steps, the fewest with multipliers=4")
    assert note in result.stdout


def test_simulate_prints_the_result_and_its_cycles(folder):
    np.save(folder / "x.npy", np.arange(10, dtype=np.int8).reshape(2, 5))
    result = call("simulate", "model.py", "--data", "x.npy", "--engine", "amaranth", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "inputs: x.npy\n")
    assert "every bit equals the golden model\n285\n" in result.stdout


def test_simulate_compares_with_tinygrad(folder):
    np.save(folder / "x.npy", np.arange(10, dtype=np.int8).reshape(2, 5))
    result = call("simulate", "model.py", "--data", "x.npy", "--engine", "amaranth", "--check", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "inputs: x.npy\n")
    assert "output against tinygrad: all 1 elements are equal\n" in result.stdout


EXAMPLES = """
import numpy as np
from tinygrad import Tensor
def model(x, y): return (x.cast("int32") * y).sum()
"""


@pytest.mark.parametrize(
    ("examples", "options", "source", "result"),
    [
        ("np.int8([1, 2, 3]), np.int8([4, 5, 6])", (), "example_inputs of model.py", 32),
        ("Tensor([1, 2], dtype='int8'), Tensor.ones(2, dtype='int8')", (), "example_inputs of model.py", 3),
        ("np.int8([1, 2, 3]), np.zeros(3, np.int8)", (), "example_inputs of model.py", 0),
        (
            "Tensor.empty(3, dtype='int8'), np.ones(3, np.int8)",
            (),
            "example_inputs of model.py; random, seed 0 for tensors without contents",
            "drawn.sum()",
        ),
        (
            "Tensor.empty(3, dtype='int8'), np.zeros(3, np.int8)",
            (),
            "random, seed 0 (example_inputs of model.py has no values but zeros)",
            "(drawn * other).sum()",
        ),
        (
            "np.int8([1, 2, 3]), np.int8([4, 5, 6])",
            ("--seed", "0"),
            "random, seed 0",
            "(drawn * other).sum()",
        ),
    ],
)
def test_simulate_says_which_inputs_it_ran(tmp_path, examples, options, source, result):
    (tmp_path / "model.py").write_text(f"{EXAMPLES}example_inputs = ({examples})\n")
    arguments = ["simulate", str(tmp_path / "model.py"), "--engine", "amaranth", *options]
    done = CliRunner().invoke(cli, arguments)
    rng = np.random.default_rng(0)
    drawn, other = (rng.integers(-128, 127, 3, np.int8, endpoint=True).astype(int) for _ in range(2))
    if isinstance(result, str):
        result = eval(result, {"drawn": drawn, "other": other})
    assert done.stderr == f"inputs: {source}\n"
    assert done.stdout.endswith(f"every bit equals the golden model\n{result}\n")


def test_data_and_a_seed_contradict_each_other(folder):
    done = CliRunner().invoke(cli, ["simulate", str(folder / "model.py"), "--data", "x.npy", "--seed", "1"])
    assert str(done.exception) == (
        "bad input: --data cannot be combined with --seed, which is for random inputs\n  hint: leave one of them out"
    )


def test_simulate_runs_a_set_in_batches(folder):
    x = np.random.default_rng(2).integers(-128, 128, (40, 2, 5)).astype(np.int8)
    np.savez(folder / "set.npz", x=x)
    command = ("simulate", "model.py", "--set", "set.npz", "-o", "out.npz", "--json", "-")
    result = call(*command, "--engine", "levelized", cwd=folder)
    assert (result.returncode, json.loads(result.stdout)["runs"]) == (0, 40)
    assert "40 runs of " in result.stderr
    assert "every bit equals the golden model in every run" in result.stderr
    with np.load(folder / "out.npz") as outputs:
        (found,) = outputs.values()
    np.testing.assert_array_equal(found.ravel(), (x.astype(np.int32) ** 2).sum((1, 2)))


def test_a_set_has_an_array_for_each_input(folder):
    np.save(folder / "set.npy", np.zeros((4, 5), np.int8))
    result = call("simulate", "model.py", "--set", "set.npy", cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "bad input: set.npy has the shapes (4, 5)\n  at: model\n"
        "  hint: give an array per input, whose first axis counts the runs: x (runs, 2, 5)\n"
    )


def test_shapes_from_the_command_line(folder):
    result = call(
        "simulate", "model.py", "--input", "int8:1x3", "--engine", "amaranth", "--seed", "5", cwd=folder
    )
    assert result.returncode == 0
    x = np.random.default_rng(5).integers(-128, 127, (1, 3), np.int8, endpoint=True)
    assert result.stdout.endswith(f"\n{(x.astype(np.int32) ** 2).sum()}\n")


REFUSED = [
    (
        ("compile", "none.py"),
        "bad input: no file 'none.py'\n  hint: name a model, e.g. net.onnx or model.py:model\n",
    ),
    (
        ("simulate", "model.py", "--data", "none.npy"),
        "bad input: no file 'none.npy'\n  hint: give a file that numpy.save wrote\n",
    ),
    (
        ("simulate", "model.py", "--input", "int8:3", "--input", "int8:3"),
        "bad input: 2 example inputs for a model that takes 1\n  at: model(x)\n"
        "  hint: pass one example per parameter\n",
    ),
    (
        ("simulate", "model.py", "--set", "x.npz", "--vcd", "run.vcd"),
        "bad input: --set cannot be combined with --data, --variable, --vcd or --check\n"
        "  hint: simulate one of the inputs by --data FILE.npy; FILE.npz of --set may have variables by name\n",
    ),
    (("demo", "--images", "999"), "bad input: 999 images of digits are asked for\n  hint: give 1 to 360\n"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_errors_have_no_traceback_and_exit_1(folder, arguments, text):
    result = call(*arguments, cwd=folder)
    assert result.returncode == 1
    assert result.stderr == text


def test_no_example_input_says_how_to_give_one(folder):
    (folder / "model.py").write_text("def model(x): return x + 1\n")
    result = call("compile", "model.py", cwd=folder)
    assert result.returncode == 1
    assert result.stderr == (
        "bad input: no example input for 'model' of model.py\n  at: model.py\n"
        "  hint: give --input DTYPE:SHAPE once per parameter, or define `example_inputs` in the file\n"
    )


def test_a_data_file_that_is_not_numpy(folder):
    (folder / "x.npy").write_text("hello")
    result = call("simulate", "model.py", "--data", "x.npy", cwd=folder)
    assert result.returncode == 1
    assert result.stderr.startswith("bad input: x.npy is not a numpy file: ")
    assert result.stderr.endswith("\n  hint: write it again with numpy\n")


def test_wrong_usage_exits_2():
    result = call("compile")
    assert result.returncode == 2
    assert "Missing argument 'FILE[:NAME]'" in result.stderr
    result = call("nosuch")
    assert result.returncode == 2
    assert result.stderr.endswith("Error: No such command 'nosuch'.\n")
    assert call("compil", "model.py").stderr.endswith(
        "Error: No such command 'compil'. Did you mean 'compile'?\n"
    )


class Commands:
    @hookimpl
    def tg2hdl_commands(self):
        return [CommandDef("hello", "Say hello.", lambda: None), CommandDef("hi", "Say hi.", _hi)]


@click.command()
def _hi():
    click.echo("hi")


def test_a_plugin_adds_a_command():
    with registry().extended(Commands(), distribution="greeting"):
        runner = CliRunner()
        assert runner.invoke(cli, ["hi"]).output == "hi\n"
        assert "Say hello." in runner.invoke(cli, ["--help"]).output


def test_family_and_order_of_sums_change_the_plan(folder):
    (folder / "sums.py").write_text("def model(x): return x.sum(1)\n")
    plans = []
    for options in ((), ("--family", "ecp5"), ("--float-order", "relaxed", "--multipliers", "4")):
        result = call("compile", "sums.py", "--input", "float32:4x32", *options, cwd=folder)
        assert (result.returncode, result.stderr) == (0, "")
        plans.append((folder / "build" / "sums" / "sums.plan").read_text())
    assert len(set(plans)) == 3
    simulated = call(
        "simulate", "sums.py", "--input", "float32:4x32", *options, "--engine", "amaranth", cwd=folder
    )
    assert "every bit equals the golden model" in simulated.stdout


def test_schedule_overlap(folder):
    (folder / "two.py").write_text(
        "from tinygrad import Tensor\ndef model(x): return (x + 1).contiguous().maximum(0) * 3\n"
    )
    arguments = ("two.py", "--input", "int32:64", "--schedule", "overlap")
    result = call("compile", *arguments, cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    plan = (folder / "build" / "two" / "two.plan").read_text()
    assert "2 kernels, overlap, " in plan
    assert "  start of k1 " in plan
    simulated = call("simulate", *arguments, "--engine", "amaranth", cwd=folder)
    assert "kernels overlap: " in simulated.stdout
    assert "every bit equals the golden model" in simulated.stdout
