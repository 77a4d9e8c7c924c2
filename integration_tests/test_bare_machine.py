"""The machine of `bare_machine.py` has nothing that a user may lack, and its pages are checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bare_machine import BLOCK, PAGES, PROGRAMS, ROOT, Pages, _check_install, _needs, machine

TOOLS = ["cc", "gcc", "g++", "c++", "clang", "clang++", "yosys", "nextpnr-ecp5", "verilator", "iverilog"]
TOOLS += ["chromium", "zig", "git", "make"]


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], env=machine(folder), capture_output=True, text=True)


def test_the_machine_has_python_and_no_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("DEV", "HDL")
    assert run(tmp_path, "; ".join(f"command -v {tool}" for tool in TOOLS)).stdout == ""
    assert run(tmp_path, "python3 -c 'import venv'; echo $? $DEV; ls -A $HOME").stdout == "0\n"
    program = "import ctypes; ctypes.CDLL('libLLVM.so')"
    assert "libLLVM.so: hidden" in run(tmp_path, f'python3 -c "{program}"').stderr
    assert not set(PROGRAMS) & set(TOOLS)


def test_a_command_runs_on_it(tmp_path):
    command = [sys.executable, str(ROOT / "integration_tests" / "bare_machine.py"), "--run", str(tmp_path)]
    done = subprocess.run([*command, "sh", "-c", "echo $HOME"], capture_output=True, text=True)
    assert done.stdout == f"{tmp_path / 'home'}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_what_their_blocks_need(page):
    for kind in {kind for kind, _ in BLOCK.findall(page.read_text())} & {"python", "console"}:
        assert _needs(page, kind)


def test_what_does_not_run_is_found(tmp_path, monkeypatch):
    pages = Pages.__new__(Pages)
    monkeypatch.setattr(pages, "environment", lambda needs: machine(tmp_path), raising=False)
    line = "python3 -c 'raise SystemExit(3)'  # wrong"
    assert pages._run(tmp_path, frozenset(), line)[:2] == (line, False)
    assert pages._run(tmp_path, frozenset(), "true")[:2] == ("true", True)
    assert _check_install("pip install ./packages/tg2hdl-lower", "tg2hdl-lower")[0] is False
