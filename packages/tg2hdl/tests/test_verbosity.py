"""``-v`` and ``-q``: messages on standard error, through `logging`."""

from __future__ import annotations

import logging
import os
import re

import click
import pytest
from click.testing import CliRunner

from tg2hdl.cli import cli
from tg2hdl.progress import VARIABLE, step


@pytest.fixture
def command(monkeypatch):
    """`tg2hdl doctor` that only gives messages."""
    found = cli.get_command(click.Context(cli), "doctor")

    def speak(**options):
        with step("compiling net.py"):
            logging.getLogger("tg2hdl_sim").debug("g++ -O2")
        logging.getLogger("other").info("of another library")
        logging.getLogger("tg2hdl").warning("a warning")
        print("result", os.environ.get(VARIABLE))

    monkeypatch.setattr(found, "callback", speak)
    monkeypatch.delenv(VARIABLE, raising=False)
    return lambda *options: CliRunner().invoke(cli, [*options, "doctor"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), []),
        (("-q",), []),
        (("-v",), ["compiling net.py: N s", "a warning"]),
        (("-vv",), ["g++ -O2", "compiling net.py: N s", "a warning"]),
        (("-v", "--verbose"), ["g++ -O2", "compiling net.py: N s", "a warning"]),
    ],
)
def test_messages(command, options, expected):
    result = command(*options)
    lines = [
        re.sub(r"\d+\.\d\d s", "N s", line).removeprefix("N s  ")
        for line in result.stderr.split("\n")
        if line
    ]
    assert [line.strip().removeprefix("N s  ") for line in lines] == expected
    assert result.stdout == f"result {'0' if options == ('-q',) else None}\n"


def test_nothing_is_left_behind(command):
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    command("-q")
    assert (root.level, root.handlers, os.environ.get(VARIABLE)) == (*before, None)


@pytest.mark.parametrize("option", ["-v", "-q", "--traceback", "--no-config"])
def test_after_the_command_the_error_says_where_they_go(option):
    result = CliRunner().invoke(cli, ["doctor", option])
    assert result.exit_code == 2
    assert f". It goes before the command: tg2hdl {option} doctor." in result.stderr
    assert "It goes" not in CliRunner().invoke(cli, ["doctor", "--engine"]).stderr


def test_both_do_not_go_together(command):
    result = command("-q", "-v")
    assert result.exit_code == 2
    assert "-v and -q do not go together." in result.stderr
