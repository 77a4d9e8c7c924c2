"""``tg2hdl program`` and ``selftest`` without a board: each failure is a message."""

import json
import os
import sys
import tty
from contextlib import suppress
from threading import Thread
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl_ir import BoardDef

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


def board(folder, name):
    (folder / "device.json").write_text(json.dumps(FACTS | {"board": name}))


def test_the_flash_memory_is_written(folder, tmp_path, monkeypatch):
    loader(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/called')
    board(folder, "icebreaker-up5k")
    result = run("program", "--flash", folder)
    assert result.exception is None
    assert "icebreaker-up5k holds m in its flash memory, from which it starts" in result.output
    expected = ["-b", "ice40_generic", "--write-flash", f"{folder}/ulx3s-12f.bit"]
    assert (tmp_path / "called").read_text().split() == expected


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        (
            "icebreaker-up5k",
            [],
            "icebreaker-up5k is loaded by its flash memory only",
            "tg2hdl program --flash ~",
        ),
        (
            "orangecrab-25f",
            [],
            "orangecrab-25f is loaded by its flash memory only",
            "tg2hdl program --flash ~; hold the button while you connect the cable, which starts the boot loader (DFU)",
        ),
        (
            "icesugar",
            ["--flash"],
            "openFPGALoader has no name for icesugar",
            "copy the bitstream to the drive that the board shows, or use icesprog",
        ),
        (
            "boards:Mine",
            [],
            "openFPGALoader has no name for boards:Mine",
            "give one of `openFPGALoader --list-boards` with --loader",
        ),
        (
            "orangecrab-25f",
            ["--flash"],
            "openFPGALoader failed with exit status 9",
            "hold the button while you connect the cable, which starts the boot loader (DFU)",
        ),
    ],
)
def test_no_success_that_cannot_be(folder, tmp_path, monkeypatch, name, options, message, hint):
    loader(tmp_path, monkeypatch, "exit 9")
    board(folder, name)
    error = run("program", *options, folder).exception
    assert error.message == message
    assert error.hint == hint.replace("~", str(folder))


def test_a_board_without_flash(folder, monkeypatch):
    monkeypatch.setattr(
        "tg2hdl.cli.program._board", lambda *_: BoardDef("b", "", "", "", "x", memories=("sram",))
    )
    error = run("program", "--flash", folder).exception
    assert error.message == "b has no flash memory that the loader writes"
    assert error.hint == f"tg2hdl program {folder} loads it until the power goes off"


def test_the_class_of_a_folder_is_not_imported(folder, tmp_path, monkeypatch):
    """Folders may come from anybody."""
    loader(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/called')
    board(folder, "antigravity:Board")
    assert run("program", "--loader", "ulx3s", folder).exception is None
    assert (tmp_path / "called").read_text().split()[:2] == ["-b", "ulx3s"]
    assert "antigravity" not in sys.modules


def test_the_line_of_a_board_is_tested(monkeypatch):
    master, slave = os.openpty()
    tty.setraw(slave)

    def echo():
        with suppress(OSError):
            while data := os.read(master, 4096):
                os.write(master, data)

    Thread(target=echo, daemon=True).start()
    result = run("loopback", os.ttyname(slave), "--baud", "115200")
    assert result.exception is None, result.exception
    assert "4,096 bytes came back unchanged at 115,200 baud: cable, bridge and pins work" in " ".join(
        result.output.split()
    )
    os.close(slave)
    os.close(master)
    error = run("loopback", "/dev/no_such_port").exception
    assert "cannot open /dev/no_such_port" in str(error)


def test_a_port_or_a_board():
    for arguments in ([], ["port", "--board", "ulx3s-85f"]):
        assert "give a PORT to test, or --board to build the bitstream" in str(
            run("loopback", *arguments).exception
        )


def test_the_bitstream_of_the_loopback(tmp_path, monkeypatch):
    def build(component, board, folder, **options):
        folder.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(path=folder / f"{board}.bit", baud=1_000_000)

    monkeypatch.setattr("tg2hdl_synth.boards.loopback.build_bitstream", build)
    result = run("loopback", "--board", "ulx3s-85f", "-o", tmp_path / "made")
    assert result.exception is None
    assert "next: tg2hdl program" in result.output
    facts = json.loads((tmp_path / "made" / "device.json").read_text())
    assert (facts["bitstream"], facts["board"], facts["baud"]) == ("ulx3s-85f.bit", "ulx3s-85f", 1_000_000)


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
