"""The README's code runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code(number, capsys):
    exec(BLOCKS[number], {})
    if number == 0:
        assert capsys.readouterr().out == "{0: array([ 5, 14], dtype=int32)}\n"


def test_every_op_is_in_the_table():
    from tg2hdl_ir.ops import BUILTIN_OPS

    assert len(BLOCKS) == 2
    table = TEXT[TEXT.index("| op |") : TEXT.index("Integers are two's")]
    assert {op.name for op in BUILTIN_OPS} == set(re.findall(r"`([a-z0-9]+)`", table.split("meaning")[1])) & {
        op.name for op in BUILTIN_OPS
    }
