"""Progress on standard error: when it is shown, and what it says."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import tg2hdl
from tg2hdl import progress
from tg2hdl.progress import step


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(step.__wrapped__, "__defaults__", (None, 0))


def console(terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def test_lines_where_asked(monkeypatch):
    monkeypatch.setenv("TG2HDL_PROGRESS", "1")
    shown = console()
    with step("compiling net", shown, delay=0) as say:
        say("planning")
        with step("estimating"):
            pass
    assert shown.file.getvalue().splitlines() == [
        "tg2hdl: compiling net",
        "tg2hdl: compiling net: planning",
        "tg2hdl: compiling net: planning: estimating",
        "tg2hdl: compiling net: planning",
    ]


def test_a_quick_step_is_not_shown(monkeypatch):
    monkeypatch.setenv("TG2HDL_PROGRESS", "1")
    shown = console()
    with step("compiling net", shown, delay=3600) as say:
        say("planning")
    assert shown.file.getvalue() == ""


@pytest.mark.parametrize(("kind", "is_line"), [("xterm", False), ("dumb", True)])
def test_a_terminal_shows_a_spinner_that_goes_away(monkeypatch, kind, is_line):
    monkeypatch.delenv("TG2HDL_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", kind)
    shown = console(terminal=True)
    with step("compiling net", shown, delay=0):
        pass
    assert "compiling net" in shown.file.getvalue()
    # A terminal that cannot move its cursor gets a line.
    assert (shown.file.getvalue() == "tg2hdl: compiling net\n") == is_line


@pytest.mark.parametrize(("asked", "terminal"), [(None, False), ("0", True)])
def test_quiet(monkeypatch, asked, terminal):
    monkeypatch.delenv("TG2HDL_PROGRESS", raising=False)
    if asked is not None:
        monkeypatch.setenv("TG2HDL_PROGRESS", asked)
    shown = console(terminal)
    with step("compiling net", shown, delay=0):
        pass
    assert shown.file.getvalue() == ""


def test_compile_and_golden_say_what_they_do(monkeypatch, capsys, at_once):
    monkeypatch.setenv("TG2HDL_PROGRESS", "1")
    accelerator = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32), name="net")
    accelerator.golden(np.zeros(3, np.int32))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "tg2hdl: compiling net",
        "tg2hdl: compiling net: kernels of the model",
        "tg2hdl: compiling net: planning the hardware",
        "tg2hdl: computing the golden result of net",
    ]
