"""Tables in narrow terminals are lists, which lose nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tg2hdl.cli.table import NARROW, Table


def printed(width: int) -> list[str]:
    table = Table("kernel", "", title="net: [b]9[/] cycles")
    table.add_column("cycles\nsimulated", justify="right")
    table.add_row("r_8_4", "[green]equal[/]", "15")
    table.add_row("E_4", "", "a text that is longer than a narrow terminal is")
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue().splitlines()


def test_a_narrow_table_is_a_list():
    assert printed(40) == [
        "net: 9 cycles",
        "r_8_4",
        "  equal",
        "  cycles simulated: 15",
        "E_4",
        "  cycles simulated: a text that is",
        "  longer than a narrow terminal is",
    ]


@pytest.mark.parametrize(("width", "is_table"), [(NARROW - 1, False), (NARROW, True)])
def test_a_wide_one_stays_a_table(width, is_table):
    assert ("━" in "".join(printed(width))) == is_table


@pytest.mark.parametrize("arguments", [("plugins", "list"), ("doctor",), ("cache",)])
def test_commands_fit_a_narrow_terminal(arguments, monkeypatch):
    from click.testing import CliRunner

    from tg2hdl.cli import cli

    monkeypatch.setenv("COLUMNS", "40")
    lines = CliRunner().invoke(cli, arguments, catch_exceptions=False).output.splitlines()
    # Commands to copy, and paths, stay in one line.
    long = [
        line for line in lines if len(line) > 40 and not any(mark in line for mark in (": ", "install", "/"))
    ]
    assert lines
    assert long == []
    assert not any(mark in "".join(lines) for mark in "│┃")
