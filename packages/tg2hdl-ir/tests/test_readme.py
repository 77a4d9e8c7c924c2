"""The README's code runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code(number):
    names = {"weights": np.arange(6, dtype=np.int32), "x": np.array([1, 2, 3], np.int32)}
    exec(BLOCKS[number], names)
    if number == 0:
        assert names["result"][0].tolist() == [8, 26]


def test_every_op_is_in_the_table():
    from tg2hdl_ir.ops import BUILTIN_OPS

    assert len(BLOCKS) == 2
    table = TEXT[TEXT.index("| op |") : TEXT.index("Integers are two's")]
    assert {op.name for op in BUILTIN_OPS} == set(re.findall(r"`([a-z0-9]+)`", table.split("meaning")[1])) & {
        op.name for op in BUILTIN_OPS
    }
