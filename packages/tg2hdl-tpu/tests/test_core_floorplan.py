"""Places of a core's memories and multipliers name parts that the netlist has."""

import re

import pytest
from amaranth.back import rtlil

from tg2hdl_tpu import Config
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.floorplan import core_floorplan


@pytest.mark.parametrize(
    "sizes", [{"lanes": 8, "rows": 2, "columns": 2}, {"lanes": 8, "rows": 4, "columns": 8}]
)
def test_each_place_is_of_a_part_of_the_core(sizes):
    config = Config.ecp5(**sizes, vmem_rows=32)
    text = rtlil.convert(TensorCore(config), name="top", emit_src=False)
    modules = set(re.findall(r"^module \\top\.(\w+)$", text, re.M))
    products = set(re.findall(r"\\(p_\d+_\d+)$", text, re.M))
    places = core_floorplan(config)
    assert {name for name in places if name.startswith("lane")} == {
        f"lane{lane}.*" for lane in range(config.lanes)
    }
    assert {f"lane{lane}" for lane in range(config.lanes)} | {"vmem", "matrix"} <= modules
    assert {
        name.removeprefix("matrix.").removesuffix("_*") for name in places if "matrix" in name
    } == products
    assert {name for name in places if "vmem" in name} == {
        f"vmem.bank?.?.{lane}" for lane in range(config.lanes)
    }
    assert len(re.findall(r"^  memory .*\\bank[01]\b", text, re.M)) == 2
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places.values())
    # Words of a lane are next to each other, and lanes apart.
    assert len({places[f"lane{lane}.*"] for lane in range(config.lanes)}) == config.lanes
    assert all(places[f"lane{lane}.*"] == places[f"vmem.bank?.?.{lane}"] for lane in range(config.lanes))
