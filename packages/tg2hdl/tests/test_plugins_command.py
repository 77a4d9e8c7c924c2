"""``tg2hdl plugins`` and the options that choose among plugins."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir import CommandDef, hookimpl, registry

BAD = """
from tg2hdl_ir import CommandDef, hookimpl

@hookimpl
def tg2hdl_ops():
    return ["sigmoid"]

@hookimpl
def tg2hdl_commands():
    return [
        CommandDef("compile", "Another compile.", "bad_plugin:number"),
        CommandDef("number", "No command.", lambda: 3),
    ]
"""


@pytest.fixture
def bad(tmp_path):
    """Run the command with a bad plugin installed."""
    (tmp_path / "bad_plugin.py").write_text(BAD)
    info = tmp_path / "dist_bad-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dist-bad\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[tg2hdl]\nbad = bad_plugin\n")

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "120", **variables}
        command = [sys.executable, "-m", "tg2hdl", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    return call


TWO = ("--input", "float32:4", "--input", "float32:4")
OP = "returned 'sigmoid' of type str where OpDef belongs; hint: return a list of OpDef"
COMMAND = "command 'compile' is taken by tg2hdl; this one is left out; hint: rename it, e.g. myext.compile"


def test_a_bad_plugin_leaves_help_and_the_list(bad):
    shown = bad("--help")
    assert (shown.returncode, "Another compile." in shown.stdout) == (0, False)
    listed = bad("plugins", "list")
    assert listed.returncode == 0
    assert f"problem: dist-bad:bad, tg2hdl_ops: {OP}\n" in listed.stdout
    assert f"problem: dist-bad:bad, tg2hdl_commands: {COMMAND}\n" in listed.stdout
    assert len(listed.stdout.splitlines()) < 40
    found = json.loads(bad("plugins", "list", "--json").stdout)
    assert {p["plugin"] for p in found["problems"]} == {"dist-bad:bad"}
    assert {p["name"]: p["status"] for p in found["plugins"]}["dist-bad:bad"] == "faulty"


def test_a_bad_plugin_does_not_keep_a_model_from_compiling(bad, tmp_path):
    (tmp_path / "model.py").write_text("def model(x): return x * 2\n")
    assert bad("compile", "model.py", "--input", "int8:1x4").returncode == 0


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_bad_plugin_can_be_left_out(bad, by):
    listed = (
        bad("--no-plugin", "bad", "plugins", "list")
        if by == "option"
        else bad("plugins", "list", TG2HDL_DISABLE_PLUGINS="dist-bad")
    )
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "problem" not in listed.stdout
    assert "disabled" in listed.stdout


def test_a_command_that_is_no_click_command(bad):
    result = bad("number")
    assert result.returncode == 1
    assert result.stderr.endswith(
        "plugin: command 'number' of plugin 'dist-bad:bad' is function, not a click command\n"
        "  hint: decorate it with @click.command(), or disable the plugin with --no-plugin dist-bad:bad\n"
    )


class One:
    @hookimpl
    def tg2hdl_commands(self):
        return [CommandDef("twice", "The first.", "os:getcwd")]


class Two:
    @hookimpl
    def tg2hdl_commands(self):
        return [CommandDef("twice", "The second.", "os:getcwd")]


def test_a_command_of_two_plugins_is_refused_by_name_alone(caplog):
    caplog.set_level(logging.CRITICAL)
    with registry().extended(One(), distribution="one"), registry().extended(Two(), distribution="two"):
        runner = CliRunner()
        assert "The first." not in runner.invoke(cli, ["--help"]).output
        assert runner.invoke(cli, ["plugins", "list"]).exit_code == 0
        result = runner.invoke(cli, ["twice"])
    assert "command 'twice' is registered twice: by one and by two" in str(result.exception)


def test_list_is_short_and_by_kind():
    runner = CliRunner(env={"COLUMNS": "200"})
    short = runner.invoke(cli, ["plugins", "list"]).output
    assert len(short.splitlines()) < 30
    assert "tg2hdl-ir:ir" in short
    quantizers = runner.invoke(cli, ["plugins", "list", "--kind", "quantizer"]).output
    assert "int8" in quantizers
    assert "tg2hdl-ir:ir" not in quantizers


def test_show_names_all_that_a_plugin_provides():
    output = CliRunner().invoke(cli, ["plugins", "show", "tg2hdl-ir"]).output
    assert "tg2hdl-ir:ir, version " in output
    assert "    add: a + b; or of bools\n" in output
    result = CliRunner().invoke(cli, ["plugins", "show", "nothing"])
    assert "no plugin is named 'nothing'" in str(result.exception)


@pytest.fixture
def model(tmp_path):
    path: Path = tmp_path / "model.py"
    path.write_text("def model(x, y): return x + y\n")
    return path


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("addd=fp32.add.fast", "a unit is chosen for op 'addd', which nothing registers"),
        ("add=nothing", "no unit for op 'add' is named 'nothing'"),
        ("add", "--unit 'add' is not of the form OP=UNIT"),
    ],
)
def test_a_unit_that_is_not_there_is_refused(model, choice, message):
    result = CliRunner().invoke(cli, ["compile", str(model), *TWO, "--unit", choice])
    assert message in str(result.exception)


def test_a_unit_is_chosen_by_name(model, tmp_path):
    plans = {}
    units = [u for u in registry().units("add") if u.operands[0].name == "fp32" and u.target == "generic"]
    assert len(units) > 1
    for unit in units[:2]:
        folder = tmp_path / unit.name
        arguments = [
            "compile",
            str(model),
            *TWO,
            "--unit",
            f"add={unit.name}",
            "-o",
            str(folder),
        ]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
        plans[unit.name] = (folder / "model.plan").read_text()
    for name, plan in plans.items():
        assert name in plan
