"""Commands on a full disk: one error, and no half of a file."""

import errno
import os

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir import InputError

MODEL = """
import numpy as np
from tinygrad import Tensor
W = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3) / 12).realize()
def model(x): return (x @ W).relu()
example_inputs = (np.ones((1, 4), np.float32),)
"""
COMMANDS = {
    "build": ("build", "m.py", "-o", "out"),
    "compile": ("compile", "m.py", "-o", "out"),
    "json": ("compile", "m.py", "-o", "elsewhere", "--json", "out.json"),
    "report": ("report", "m.py", "-o", "out.html"),
    "simulate": ("simulate", "m.py", "--engine", "amaranth", "-o", "out.npz"),
    "quantize": ("quantize", "m.py", "--samples", "samples.npy", "-o", "out.npz"),
    "plugin": ("plugins", "new", "gelu", "-o", "out"),
    "new folders": ("compile", "m.py", "-o", "out/deep/er"),
    "trace": ("report", "m.py", "-o", "report.html", "--trace", "out/trace.json"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODEL)
    np.save(tmp_path / "samples.npy", np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    return tmp_path


def outputs(folder):
    return {p for p in folder.rglob("*") if "out" in str(p.relative_to(folder))}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_error(folder, monkeypatch, name):
    replace = os.replace

    def full(source, target, *given, **options):
        if f"{os.sep}out" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(source, target, *given, **options)

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: full(self, target))
    result = CliRunner().invoke(cli, COMMANDS[name])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("bad input: cannot write ")
    assert "No space left on device\n  hint: free some space" in str(result.exception)
    assert outputs(folder) == set()


def test_a_folder_of_before_stays(folder, monkeypatch):
    (folder / "out").mkdir()
    monkeypatch.setattr("pathlib.Path.replace", _full)
    result = CliRunner().invoke(cli, ("compile", "m.py", "-o", "out/deep"))
    assert "No space left on device" in str(result.exception)
    assert outputs(folder) == {folder / "out"}


def test_a_model_that_is_refused_leaves_no_folder(folder):
    (folder / "m.py").write_text("model = 3\n")
    result = CliRunner().invoke(cli, ("compile", "m.py", "-o", "out"))
    assert isinstance(result.exception, InputError)
    assert outputs(folder) == set()


def _full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("engine", ["amaranth", "levelized"])
def test_a_waveform_without_room_is_removed(folder, monkeypatch, engine):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = CliRunner().invoke(cli, ["simulate", "m.py", "--engine", engine, "--vcd", "out/out.vcd"])
    assert str(result.exception) == (
        "bad input: cannot write the waveform out/out.vcd: No space left on device\n"
        "  hint: free some space, or give another path"
    )
    assert outputs(folder) == set()
