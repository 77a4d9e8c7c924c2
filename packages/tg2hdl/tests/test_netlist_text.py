"""Contents of memories, which go around Amaranth's and Yosys' writers: the text must be what these would write."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from amaranth import Module, unsigned
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl.hdl_files import design_text, verilog_text
from tg2hdl_ir import registry
from tg2hdl_lower.ops.unit_component import build_unit
from tg2hdl_sim.yosys import run_yosys

WIDTHS = (1, 7, 8, 24, 31, 32, 33, 64, 130)


class _Bank(wiring.Component):
    """A ROM whose memory has the same name in every instance."""

    def __init__(self, width: int, seed: int) -> None:
        self.width, self.seed = width, seed
        super().__init__({"addr": In(3), "data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rng = np.random.default_rng(self.seed)
        init = [
            int.from_bytes(rng.bytes(20), "little") & ((1 << self.width) - 1) for _ in range(5 + self.seed)
        ]
        init[1] = 0
        m.submodules["bank$0"] = memory = Memory(shape=unsigned(self.width), depth=len(init), init=init)
        port = memory.read_port()
        m.d.comb += [port.addr.eq(self.addr), self.data.eq(port.data)]
        return m


class _Banks(wiring.Component):
    def __init__(self) -> None:
        super().__init__({"addr": In(3), **{f"data{n}": Out(width) for n, width in enumerate(WIDTHS)}})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for n, width in enumerate(WIDTHS):
            bank = _Bank(width, n % 3)
            m.submodules[f"rom{n}"] = bank
            m.d.comb += [bank.addr.eq(self.addr), getattr(self, f"data{n}").eq(bank.data)]
        return m


@pytest.fixture(scope="module")
def by_tools(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """RTLIL by Amaranth and Verilog by Yosys alone."""
    folder = tmp_path_factory.mktemp("tools")
    text = rtlil.convert(_Banks(), name="banks", emit_src=False)
    (folder / "design.il").write_text(text)
    run_yosys(
        "read_rtlil design.il\nproc\nmemory_collect\nopt_clean -purge\nwrite_verilog -noattr -norename design.v\n",
        folder,
    )
    return text, (folder / "design.v").read_text()


def test_rtlil_is_that_of_amaranth(by_tools: tuple[str, str]):
    assert design_text(_Banks(), "banks").rtlil() == by_tools[0]


def test_verilog_is_that_of_yosys(by_tools: tuple[str, str]):
    verilog = verilog_text(design_text(_Banks(), "banks"))
    assert verilog.count("initial begin") == len(WIDTHS)
    lines = [line for line in verilog.splitlines() if "verilator lint_" not in line]
    with_simple_names = re.sub(r"\\(\S+) ", lambda found: re.sub(r"\W", "_", found[1]), by_tools[1])
    assert lines[1:] == with_simple_names.splitlines()[1:]


def test_each_memory_has_a_file(tmp_path: Path):
    """Memories of one name in several modules have files of their own."""
    design = design_text(_Banks(), "banks")
    verilog = verilog_text(design, tmp_path)
    files = re.findall(r'\$readmemh\("(.*?)"', verilog)
    assert len(set(files)) == len(WIDTHS)
    for file, memory in zip(sorted(files), sorted(design.contents, key=lambda c: c.module), strict=True):
        assert [int(word, 16) for word in (tmp_path / file).read_text().split()] == list(memory.words)


def test_a_memory_that_yosys_does_not_declare_is_an_error(monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    design = design_text(_Banks(), "banks")
    renamed = replace(design.contents[0], name="elsewhere")
    with pytest.raises(AssertionError, match="elsewhere"):
        verilog_text(replace(design, contents=(renamed, *design.contents[1:])))


@pytest.mark.parametrize("op", ["neg", "trunc", "mul", "exp2"])
def test_the_module_of_a_unit_fits_its_instances(op: str, tmp_path: Path):
    """With and without registers: Yosys finds every port of the instances."""
    units = {"neg": "fp32.neg.balanced", "trunc": "fp32.trunc.small"}
    (unit,) = [u for u in registry().units() if u.name == units.get(op, f"fp32.{op}.balanced")]

    class Twice(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"a": In(32), "result": Out(32)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.submodules.first, m.submodules.second = first, second = build_unit(unit), build_unit(unit)
            for component in (first, second):
                m.d.comb += [component.en.eq(1), component.a.eq(self.a)]
                m.d.comb += [getattr(component, name).eq(self.a) for name in "b"[: len(unit.operands) - 1]]
            m.d.comb += self.result.eq(first.result ^ second.result)
            return m

    text = design_text(Twice(), "twice", shared_modules=True).rtlil()
    assert len(re.findall(r"cell \\twice\.unit_\w+ \\(?:first|second)$", text, re.MULTILINE)) == 2
    (tmp_path / "design.il").write_text(text)
    run_yosys("read_rtlil design.il\nhierarchy -check -top twice\nproc\ncheck -assert\n", tmp_path)
