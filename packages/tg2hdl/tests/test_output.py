"""Options that all commands share: JSON, checked outputs, completion, tracebacks; and the doctor."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl.cli.output import check_file, check_folder
from tg2hdl.doctor import examine
from tg2hdl_ir import InputError, SimulatorDef, registry, resolve

MODEL = "import numpy as np\ndef model(x): return x + 1\nexample_inputs = (np.zeros(4, np.int8),)\n"
# Interactive or plain text by nature.
NO_FIGURES = {"completion", "plugins"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_every_command_of_this_package_has_json():
    own = [c for c in registry().commands() if registry().distribution(c) == "tg2hdl"]
    assert own
    for definition in own:
        command = resolve(definition.command)
        if definition.name not in NO_FIGURES:
            assert "--json" in {flag for p in command.params for flag in p.opts}, definition.name


def test_standard_output_is_json_alone(folder):
    compiled = run("compile", "model.py", "--json", "-")
    summary = json.loads(compiled.stdout)
    assert summary["predicted_cycles"] > 0
    simulated = json.loads(run("simulate", "model.py", "--engine", "amaranth", "--check", "--json").stdout)
    assert simulated["cycles"]["compute"] == simulated["predicted_cycles"] == summary["predicted_cycles"]
    assert simulated["against_tinygrad"] == ["all 4 elements are equal"]


def test_json_goes_to_a_file_too(folder):
    result = run("plugins", "list", "--json", "deep/plugins.json")
    assert result.exit_code == 0
    assert json.loads((folder / "deep" / "plugins.json").read_text())["plugins"]


def test_progress_is_silent_without_a_terminal(folder):
    assert run("compile", "model.py").stderr == ""


@pytest.mark.skipif(shutil.which("sh") is None, reason="a shell closes the streams")
def test_a_command_runs_without_standard_output(tmp_path):
    command = f"{sys.executable} -m tg2hdl plugins list --kind memory-port --json - >&- 2>err.txt"
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "err.txt").read_text() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folders_without_permission_are_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be"):
        check_folder(str(tmp_path / "below"))


def test_outputs_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        check_folder(str(tmp_path / "file" / "below"))
    with pytest.raises(InputError, match="is a folder"):
        check_file(str(tmp_path))
    with pytest.raises(InputError, match=r"does not end in \.json"):
        check_file(str(tmp_path / "x.txt"), ".json")
    assert check_file(str(tmp_path / "a" / "x.json"), ".json") == tmp_path / "a" / "x.json"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("command", ["compile", "simulate", "synth"])
def test_a_bad_output_is_an_error_before_the_work(folder, command):
    (folder / "late.py").write_text("raise RuntimeError('the model was loaded first')")
    option = "--output" if command == "compile" else "--json"
    with pytest.raises(InputError, match=r"model\.py"):
        run(command, "late.py", option, "model.py/below")


def test_an_unknown_engine_is_named_with_those_that_are_there(folder):
    with pytest.raises(InputError, match=r"engine 'cxxtrl' is unknown") as caught:
        run("simulate", "model.py", "--engine", "cxxtrl")
    assert "amaranth" in str(caught.value)
    assert "levelized" in str(caught.value)


@pytest.mark.parametrize("option", [[], ["--traceback"]])
def test_a_traceback_is_shown_when_asked_for(folder, option):
    command = [sys.executable, "-m", "tg2hdl", *option, "compile", "missing.py"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert ("Traceback" in result.stderr) == bool(option)
    assert "missing.py" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    assert "_TG2HDL_COMPLETE" in run("completion", shell).stdout


def test_names_of_engines_complete():
    environment = os.environ | {
        "_TG2HDL_COMPLETE": "bash_complete",
        "COMP_WORDS": "tg2hdl simulate --engine am",
        "COMP_CWORD": "3",
    }
    result = subprocess.run([sys.executable, "-m", "tg2hdl"], env=environment, capture_output=True, text=True)
    assert result.stdout.split() == ["plain,amaranth"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs Bash")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("simulate --unit log2=fp32.log2.sm", ["fp32.log2.small"]),
        ("simulate --unit=log2=fp32.log2.sm", ["fp32.log2.small"]),
        ("simulate --engine=am", ["amaranth"]),
        ("simulate --unit log", ["log2=fp32.log2.", "log2=fp16.log2."]),
    ],
)
def test_values_with_an_equals_sign_complete_in_bash(line, found, tmp_path):
    """Bash takes `=` for a word of its own, and replaces only the word after it."""
    words = [part for part in re.split(r"[ ]|(=)", f"tg2hdl {line}") if part]
    command = tmp_path / "tg2hdl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tg2hdl "$@"\n')
    command.chmod(0o755)
    program = (
        f"{run('completion', 'bash').stdout}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        f'_tg2hdl_completion tg2hdl; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True)
    replies = done.stdout.split()
    assert [
        next((r for r in replies if r.startswith(text)), done.stderr[-300:])[: len(text)] for text in found
    ] == found


@pytest.mark.parametrize(
    ("command", "option", "incomplete", "found"),
    [
        ("simulate", "port", "axi-l", ["axi-lite"]),
        ("simulate", "schedule", "over", ["overlap"]),
        ("simulate", "memory_port", "sd", ["sdram"]),
        ("build", "board", "ulx3s-8", ["ulx3s-85f"]),
        ("report", "part", "ecp5-4", ["ecp5-45k"]),
        ("report", "model", "mo", [("mo", "file")]),
        ("report", "against", "mo", [("mo", "file")]),
        ("simulate", "data", "x", [("x", "file")]),
    ],
)
def test_names_and_files_complete(command, option, incomplete, found):
    made = cli.get_command(click.Context(cli), command)
    (parameter,) = (p for p in made.params if option in (p.name, p.name.rstrip("s")))
    items = parameter.shell_complete(click.Context(made), incomplete)
    assert [item.value if item.type == "plain" else (item.value, item.type) for item in items] == found


def test_doctor_finds_what_runs_here():
    found = {f.name: f for f in examine()}
    assert found["Python"].version == ".".join(map(str, sys.version_info[:3]))
    assert found["amaranth"].found
    assert found["engine amaranth"].found


@pytest.mark.parametrize(
    ("missing", "feature", "line"),
    [
        ("onnxruntime", "quantize", 'quantize  no: pip install "tg2hdl[quantize]"'),
        ("amaranth_boards", "boards", 'boards    no: pip install "tg2hdl[boards]"'),
        ("nothing", "report", "report    yes"),
        ("nothing", "compile", "compile   yes"),
    ],
)
def test_doctor_answers_by_feature(missing, feature, line, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("tg2hdl.doctor.find_spec", lambda name: None if name == missing else found(name))
    assert line in run("doctor").stdout.splitlines()
    (finding,) = (f for f in examine() if f.name == f"feature {feature}")
    assert finding.found == ("no:" not in line)
    assert finding.hint in line


def test_doctor_says_that_simulation_is_slow_without_a_compiled_engine(monkeypatch):
    (amaranth,) = (engine for engine in registry().simulators() if engine.name == "amaranth")
    monkeypatch.setattr(registry(), "simulators", lambda: (amaranth,))
    assert (
        'simulate  yes, slowly; quickly with pip install "tg2hdl[sim]"' in run("doctor").stdout.splitlines()
    )


def test_doctor_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = next(f for f in examine() if f.name == "verilator")
    assert not missing.found
    assert "Verilator" in missing.hint


def test_doctor_survives_a_broken_engine(monkeypatch):
    broken = SimulatorDef("broken", "", f"{__name__}:fails", "", "", "")
    monkeypatch.setattr(registry(), "simulators", lambda: (broken,))
    monkeypatch.setattr(registry(), "plugin", lambda descriptor: "acme:engine")
    finding = next(f for f in examine() if f.name == "engine broken")
    assert not finding.found
    assert finding.hint == "its plugin acme:engine fails: ZeroDivisionError: division by zero"


def fails():
    raise ZeroDivisionError("division by zero")


def test_doctor_prints_a_table_and_json():
    assert isinstance(resolve(registry().command("doctor").command), click.Command)
    assert "Python" in run("doctor").stdout
    assert {"name", "found", "version", "purpose", "hint"} == set(
        json.loads(run("doctor", "--json").stdout)[0]
    )
