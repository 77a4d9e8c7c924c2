"""Options that show what the passes do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.cli.main import main
from tg2hdl_ir import DType, IRConst, IROp, PassDef, Registry, hookimpl, registry
from tg2hdl_ir.passes.rewrite import Rewriter


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    monkeypatch.delenv("TG2HDL_VERIFY_EACH", raising=False)
    (tmp_path / "model.py").write_text("def model(x): return (x * 3).sum(1)\n")

    def run(*options: str):
        arguments = [
            "compile",
            str(tmp_path / "model.py"),
            "--input",
            "int8:4x8",
            "-o",
            str(tmp_path / "out"),
        ]
        return CliRunner().invoke(cli, [*arguments, *options])

    return run


def test_the_passes_that_changed_a_kernel_are_named(compiled):
    (line,) = [line for line in compiled("--print-changes").stderr.splitlines() if "changed by" in line]
    names = line.partition(": changed by ")[2].split(", ")
    assert "flatten" in names
    assert "expand-mulacc" not in names


def test_a_kernel_is_printed_after_a_pass(compiled):
    error = compiled("--print-after", "flatten").stderr
    assert error.startswith("after flatten:\nkernel ")
    assert "RANGE" in error


def test_an_unknown_pass_is_refused_with_the_known_ones(compiled):
    result = compiled("--print-after", "flaten")
    assert result.exit_code == 2
    assert "'flaten' is not one of fold-scales, constant-channels," in result.output.replace("\n", " ")


def _wrong_type(kernel):
    """A pass that gives products a constant of the wrong type."""

    def replaced(op: IROp):
        return IROp("mul", op.dtype, (op.srcs[0], IRConst(1.5, DType.FP32))) if op.op == "mul" else None

    return replace(kernel, loop_tree=Rewriter(replace=replaced).loop(kernel.loop_tree))


def _raises(kernel):
    raise KeyError("axis")


FAULTS = {
    "raises": (_raises, "raised KeyError: 'axis'"),
    "none": (lambda kernel: None, "returned NoneType, not a KernelIR"),
    "types": (_wrong_type, "broke the rules of the IR"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_pass_of_a_plugin_is_named(compiled, fault):
    run, text = FAULTS[fault]

    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("mine", "", run)]

    known: Registry = registry()
    with known.extended(Plugin(), distribution="dist-bad"):
        result = compiled()
    assert str(result.exception).startswith(
        f"plugin: pass 'mine' of plugin 'dist-bad:Plugin.0' {text}\n  at: kernel "
    )
    assert str(result.exception).endswith(
        "hint: upgrade the plugin, or disable it with --no-plugin dist-bad:Plugin.0"
    )


def test_the_validation_is_told_and_can_be_left_out(compiled, tmp_path):
    assert "validated: 1 of 1 kernels as planned" in compiled("--validate", "full").output
    (file,) = (tmp_path / "out").glob("*.json")
    told = json.loads(file.read_text())["validation"]
    assert told["inputs"] == ["distinct", "negative", "corners", "specials"]
    assert told["is_complete"]
    assert "validated: no" in compiled("--validate", "off").output


def test_a_wrong_rewrite_has_a_status_of_its_own(compiled, tmp_path, monkeypatch, capsys):
    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("pw", "a wrong pass", _other_product)]

    arguments = ["compile", str(tmp_path / "model.py"), "--input", "int8:4x8", "-o", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["tg2hdl", *arguments, "--validate-keep", str(tmp_path / "kept")])
    with registry().extended(Plugin(), distribution="x-passwrong"), pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 3
    error = capsys.readouterr().err
    assert "compiler bug: a rewrite changed a result: output 'output': 4 of 4 elements differ" in error
    assert "first made wrong by pass pw of plugin x-passwrong:" in error
    assert {path.name for path in (tmp_path / "kept").iterdir()} >= {"before.ir", "after.ir", "inputs.npz"}
    assert not list((tmp_path / "out").glob("*.v"))


def _other_product(kernel):
    """A pass that takes 2 for 3."""

    def other(op: IROp):
        if op.op == "mul" and any(isinstance(s, IRConst) and s.value == 3 for s in op.srcs):
            return IROp("mul", op.dtype, (op.srcs[0], IRConst(2, op.dtype)))
        return None

    return replace(kernel, loop_tree=Rewriter(replace=other).loop(kernel.loop_tree))


def test_changes_of_programs_are_named_too(tmp_path):
    text = "from tinygrad import Tensor\nimport numpy as np\n"
    text += "w = Tensor(np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int8).reshape(1, 1, 3, 3))\n"
    text += "def model(x): return x.cast('int32').conv2d(w.cast('int32'), padding=1)\n"
    (tmp_path / "sobel.py").write_text(text)
    arguments = [str(tmp_path / "sobel.py"), "--input", "int8:1x1x8x8", "-o", str(tmp_path / "out")]
    error = CliRunner().invoke(cli, ["compile", *arguments, "--multipliers", "4", "--print-changes"]).stderr
    changed = error.partition("changed by ")[2]
    assert "constant-taps" in changed
    assert "choose-forms" in changed


def test_rewrites_run_alone_on_printed_ir(compiled, tmp_path):
    error = compiled("--print-after", "flatten").stderr
    text = error.partition("after flatten:\n")[2].partition("after ")[0]
    (tmp_path / "kernel.ir").write_text(text)
    arguments = ["ir-opt", "--pass", "split-axis", "--set", "axis=0", str(tmp_path / "kernel.ir")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert "< 2 " in result.output
    again = CliRunner().invoke(cli, ["ir-opt", "--pass", "flatten", "-"], input=text)
    assert again.output.split() == text.split()


def test_all_rewrites_are_listed_with_their_terms():
    output = CliRunner().invoke(cli, ["ir-opt", "--list"]).output
    assert (
        "cut-kernel: a kernel becomes two, with a buffer between them (loop fission)\n    place=N, else 0\n"
        in output
    )
    assert "choose-cuts: " in output
    assert "slice-axis: " in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--pass", "flatten"], "give --pass NAME and a FILE, or --list"),
        (["--pass", "flatten", "none.ir"], "cannot read none.ir: No such file or directory"),
        (["--pass", "flatten", "--set", "a=b", "-"], "--set 'a=b' is not of the form KEY=N[,N...]"),
    ],
)
def test_ir_opt_refuses(arguments, text):
    result = CliRunner().invoke(cli, ["ir-opt", *arguments], input="")
    assert result.exit_code != 0
    assert text in result.output + str(result.exception)


def test_rewrites_of_the_search_can_be_printed(tmp_path):
    (tmp_path / "model.py").write_text("def model(x): return x.gelu()\n")
    arguments = [str(tmp_path / "model.py"), "--input", "float32:256", "-o", str(tmp_path / "out")]
    options = ["--multipliers", "8", "--print-after", "choose-product-cuts", "--verify-each"]
    result = CliRunner().invoke(cli, ["compile", *arguments, *options])
    assert result.stderr.startswith("after choose-product-cuts:\nkernel E_256_products")


def test_a_plugin_proposes_a_form(tmp_path):
    """It is planned as ours are, and not taken without a gain."""

    def halved(kernel):
        return [kernel]

    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("halve", "an equal form", halved, proposes=True)]

    with registry().extended(Plugin(), distribution="dist-form"):
        accelerator = tg2hdl.compile(lambda x: x * 3, np.arange(8, dtype=np.int32))
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "halve")
    assert [a.name for a in decision.alternatives] == ["as it is", "halve: one kernel"]
    assert decision.taken == 0
    assert decision.alternatives[0].cost == decision.alternatives[1].cost
