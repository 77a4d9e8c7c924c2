import json
import re

import pytest
from amaranth import Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import InputError
from tg2hdl_synth import place, synthesize
from tg2hdl_synth.families.ecp5 import tools as ecp5
from tg2hdl_synth.flat_netlist import top_module
from tg2hdl_synth.floorplan import anchor, sites


class Lanes(wiring.Component):
    """Lanes that multiply words of their own memories, and a sum."""

    def __init__(self):
        super().__init__({"addr": In(9), "write": In(1), "data": In(signed(16)), "y": Out(signed(36))})

    def elaborate(self, platform):
        m = Module()
        products = []
        for n in range(4):
            memory = Memory(shape=unsigned(16), depth=512, init=[], attrs={"ram_style": "block"})
            m.submodules[f"lane{n}"] = memory
            write, read = memory.write_port(), memory.read_port()
            product = Signal(signed(32), name=f"product{n}")
            m.d.comb += [
                write.addr.eq(self.addr),
                write.data.eq(self.data + n),
                write.en.eq(self.write),
                read.addr.eq(self.addr + n),
            ]
            word = Signal(signed(16), name=f"word{n}")
            m.d.sync += [word.eq(read.data.as_signed()), product.eq(word * self.data)]
            products.append(product)
        m.d.sync += self.y.eq(sum(products))
        return m


FLOORPLAN = {f"lane{n}.*": (n / 3, 0.75 if n % 2 else 0.2) for n in range(4)}


def test_cells_get_the_sites_that_are_nearest_to_their_places():
    cells = {name: {"type": "DP16KD"} for name in ("lane1.m.0", "lane0.m.0", "lane0.m.1", "other")}
    netlist = {"modules": {"top": {"attributes": {"top": "1"}, "cells": cells}}}
    places = {"DP16KD": ["X4/Y10/EBR0", "X6/Y10/EBR1", "X84/Y10/EBR3", "X4/Y58/EBR0", "X84/Y58/EBR3"]}
    floorplan = {"lane0.*": (0.0, 0.2), "lane7.*": (0.5, 0.5), "lane*": (1.0, 1.0)}
    assert anchor(netlist, floorplan, places) == ["lane7.*"]
    found = {name: cell.get("attributes", {}).get("BEL") for name, cell in cells.items()}
    assert found == {
        "lane0.m.0": "X4/Y10/EBR0",
        "lane0.m.1": "X6/Y10/EBR1",
        "lane1.m.0": "X84/Y58/EBR3",
        "other": None,
    }


@pytest.mark.parametrize(
    "floorplan", [{"lane": (0.1, 1.5)}, {"lane": 0.5}, {3: (0.1, 0.1)}, {"lane": (True, 0.1)}]
)
def test_what_is_no_place_is_refused(floorplan):
    with pytest.raises(InputError, match="floorplan has"):
        synthesize(Lanes(), "ecp5-25k", floorplan=floorplan)


def test_a_family_that_takes_no_floorplan_says_so():
    with pytest.raises(InputError, match="takes no floorplan"):
        synthesize(Lanes(), "ice40-up5k", floorplan=FLOORPLAN)


def test_all_sites_of_a_part_are_found_and_cells_are_placed_there():
    found = sites("25k", "CABGA381", {"DP16KD": 56, "MULT18X18D": 28})
    assert [len(set(names)) for names in found.values()] == [56, 28]
    assert all(re.fullmatch(r"X\d+/Y\d+/EBR[0-3]", name) for name in found["DP16KD"])
    said = []
    floorplan = FLOORPLAN | {"line9.*": (0.5, 0.5)}
    result = synthesize(Lanes(), "ecp5-25k", seeds=1, floorplan=floorplan, progress=said.append)
    assert [line for line in said if "floorplan" in line] == [
        "floorplan: no block RAM or multiplier is named line9.*"
    ]
    assert result.cells["bram"] == 4
    assert result.fmax > 0
    log = (result.runs[0].folder / "nextpnr.log").read_text()
    assert "Placed 4 cells based on constraints" in log
    free = synthesize(Lanes(), "ecp5-25k", seeds=1)
    assert json.dumps(free.cells) == json.dumps(result.cells)


@pytest.mark.parametrize(
    ("large", "target"),
    [(False, {}), pytest.param(True, {}, marks=pytest.mark.slow), (True, {"frequency": 50.0})],
)
def test_a_large_design_with_a_floorplan_is_routed_by_router2_and_has_no_copies(monkeypatch, large, target):
    calls = []

    def fastest(tool, placers, arguments, netlist, *rest):
        calls.append((placers, arguments, top_module(json.loads(netlist))))
        return place.fastest(tool, placers, arguments, netlist, *rest)

    monkeypatch.setattr(ecp5, "is_full", lambda cells, part: large)
    if large:
        monkeypatch.setattr(ecp5, "_MANY_WITH_FLOORPLAN", 0)
    monkeypatch.setattr(ecp5, "copy_registers", lambda netlist: pytest.fail("registers are copied"))
    monkeypatch.setattr(ecp5, "fastest", fastest)
    result = synthesize(Lanes(), "ecp5-25k", seeds=1, floorplan=FLOORPLAN, **target)
    ((placers, arguments, module),) = calls
    assert placers == (("static",) if large else ("heap",))
    assert ("router2" in arguments) == large
    assert ("--tmg-ripup" in arguments) == bool(target)
    assert module.get("settings", {}).get("router2/currCongWeightMult") == ("0.5" if large else None)
    log = (result.runs[0].folder / "nextpnr.log").read_text()
    assert ("Running router2" in log) == large
