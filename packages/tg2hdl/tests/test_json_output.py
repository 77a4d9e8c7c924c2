"""``--json``: standard output is one JSON document, whatever the model file prints and also for errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MODEL = """
import os
import numpy as np
print("loading")
os.system("echo from a program")
def model(x):
    print("called")
    return (x.cast("int32") * 3).sum()
example_inputs = (np.ones((2, 4), np.int8),)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "empty.py").write_text("print('loading')\n")
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, "-W", "error", "-m", "tg2hdl", *arguments]
    environment = {**os.environ, "TG2HDL_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("compile model.py --json", "predicted_cycles"),
        ("compile model.py --json -", "predicted_cycles"),
        ("simulate model.py --engine amaranth --json --check", "cycles"),
    ],
)
def test_model_files_may_print(folder, command, key):
    found = run(folder, *command.split())
    document = json.loads(found.stdout)
    assert "loading\nfrom a program\n" in found.stderr
    assert found.returncode == 0
    assert key in document
    assert "called" in found.stderr


def test_a_file_of_json_leaves_standard_output_as_it_is(folder):
    found = run(folder, "compile", "model.py", "--json", "figures.json")
    assert found.returncode == 0
    assert "wrote figures.json" in found.stdout
    assert json.loads((folder / "figures.json").read_text())["name"] == "model"


ERRORS = {
    "compile empty.py --json": (
        1,
        {
            "kind": "bad input",
            "message": "empty.py defines no 'model'",
            "at": "empty.py",
            "hint": "define a function `model(x)` in it",
        },
    ),
    "compile --json": (
        2,
        {
            "kind": "usage",
            "message": "Missing argument 'FILE[:NAME]'.",
            "at": None,
            "hint": "tg2hdl compile --help",
        },
    ),
    "simulate model.py --wrong --json": (
        2,
        {"kind": "usage", "at": None, "hint": "tg2hdl simulate --help"},
    ),
    "plugins show nothing --json": (1, {"kind": "bad input", "message": "no plugin is named 'nothing'"}),
    "tpu run missing.tasm --json": (2, {"kind": "usage"}),
}


@pytest.mark.parametrize("command", ERRORS)
def test_errors_are_json(folder, command):
    status, expected = ERRORS[command]
    if command.startswith("tpu"):
        pytest.importorskip("tg2hdl_tpu")
    found = run(folder, *command.split())
    error = json.loads(found.stdout)["error"]
    assert list(error) == ["kind", "message", "at", "hint"]
    assert {name: error[name] for name in expected} == expected
    assert found.returncode == status
    assert error["message"] in found.stderr


def test_an_error_of_ours_is_json_with_its_traceback_on_standard_error(folder):
    program = (
        "import sys; from tg2hdl.cli import main; import tg2hdl.doctor as d\n"
        "def examine(): raise ZeroDivisionError('ours')\n"
        "d.examine = examine; sys.argv = ['tg2hdl', 'doctor', '--json']; main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    error = json.loads(found.stdout)["error"]
    assert error == {
        "kind": "internal error",
        "message": "ZeroDivisionError: ours",
        "at": None,
        "hint": None,
    }
    assert found.returncode == 1
    assert found.stderr.endswith("ZeroDivisionError: ours\n")


def test_without_json_errors_are_text_alone(folder):
    found = run(folder, "compile", "empty.py")
    assert (found.returncode, found.stdout) == (1, "loading\n")
    assert found.stderr.startswith("bad input: empty.py defines no 'model'\n")
