"""``tg2hdl program`` and ``selftest`` without a board: each failure is a message."""

import json
import os

import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli

FACTS = {"id": "0" * 16, "design": "m", "buffers": [], "board": "ulx3s-12f", "bitstream": "ulx3s-12f.bit"}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "built"
    made.mkdir()
    (made / "device.json").write_text(json.dumps(FACTS))
    (made / "ulx3s-12f.bit").write_bytes(b"\xff\x00")
    return made


def loader(tmp_path, monkeypatch, text=None):
    """A folder as the only one on PATH, with a loader of this text."""
    tools = tmp_path / "tools"
    tools.mkdir()
    if text is not None:
        path = tools / "openFPGALoader"
        path.write_text(f"#!{os.path.realpath('/bin/sh')}\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))


def run(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)


def test_a_bitstream_is_loaded(folder, tmp_path, monkeypatch):
    loader(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/called')
    result = run("program", folder)
    assert result.exception is None
    assert "ulx3s-12f holds m until its power goes off" in result.output
    assert (tmp_path / "called").read_text().split() == ["-b", "ulx3s", f"{folder}/ulx3s-12f.bit"]


def test_what_the_loader_says_is_shown(folder, tmp_path, monkeypatch):
    loader(tmp_path, monkeypatch, "echo unable to open ftdi device >&2; exit 3")
    error = run("program", folder).exception
    assert "openFPGALoader failed with exit status 3" in str(error)
    assert error.notes == ("unable to open ftdi device",)


def test_without_a_loader(folder, tmp_path, monkeypatch):
    loader(tmp_path, monkeypatch)
    assert "openFPGALoader is not installed" in str(run("program", folder).exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no"),
        ("{", "is not a description of a design"),
        ("[]", "is not a description of a design"),
        (json.dumps({**FACTS, "bitstream": "gone.bit"}), "has no bitstream"),
        (json.dumps({k: v for k, v in FACTS.items() if k != "bitstream"}), "has no bitstream"),
        (json.dumps({**FACTS, "board": "gone"}), "no board is named 'gone'"),
    ],
)
def test_a_folder_without_a_bitstream(folder, tmp_path, monkeypatch, text, message):
    loader(tmp_path, monkeypatch, "exit 9")
    (folder / "device.json").unlink()
    if text is not None:
        (folder / "device.json").write_text(text)
    error = run("program", folder).exception
    assert message in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("/dev/no_such_port", "cannot open /dev/no_such_port"),
        ("spi:99.9", "spi"),
        ("socket://127.0.0.1:1", "cannot open socket://127.0.0.1:1"),
        ("nonsense://x", "cannot open nonsense://x"),
    ],
)
def test_selftest_without_a_device(folder, device, message):
    error = run("selftest", device, folder).exception
    assert message in str(error)
    assert error.hint


@pytest.mark.parametrize("device", ["/dev/no_such_port", "simulate:"])
def test_selftest_of_a_damaged_folder(folder, device):
    (folder / "device.json").write_text("{")
    arguments = ["simulate:" + str(folder)] if device == "simulate:" else [device, folder]
    assert "is not a description of a design" in str(run("selftest", *arguments).exception)


def test_a_board_is_checked_before_the_model_is_compiled(tmp_path):
    model = tmp_path / "model.py"
    model.write_text("raise AssertionError('compiled')")
    error = run("build", model, "--board", "arty").exception
    assert "no board is named 'arty'" in str(error)
    assert "ulx3s-85f" in error.hint
