"""Paths of the serial line behind its block RAMs, whose outputs come late in a cycle."""

import re

from tg2hdl_ir.nodes import IRVariable
from tg2hdl_lower import HostShape, family_named
from tg2hdl_synth.estimate import convert
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_top.ports import PortPlan, build_port

SERVES = HostShape(True, 1, (IRVariable("n", -9, 9),), (), (0, 0), program="net", identity="1", cycles=700)
SLOW = {"$add", "$sub", "$neg", "$eq", "$ne", "$lt", "$le", "$gt", "$ge"}


def nets(signal):
    return set(re.findall(r"[\\$][^\s{}]+", signal))


def read_words(module):
    """Data of the synchronous reads of large memories."""
    lut_words = family_named("ecp5").memory.lut_words
    for cell in module.cells:
        if cell.kind == "$memrd_v2" and cell.parameters["CLK_ENABLE"] == 1:
            memory = module.memories[str(cell.parameters["MEMID"]).removeprefix("\\")]
            yield from nets(cell.pins["DATA"]) if memory.depth > lut_words else ()


def late_nets(modules):
    """Nets of each module on a path from a block RAM without a register, through multiplexers too."""
    late = {name: set(read_words(module)) for name, module in modules.items()}
    before = None
    while before != (before := sum(map(len, late.values()))):
        for name, module in modules.items():
            found = late[name]
            for target, source in module.connections:
                if nets(source) & found:
                    found |= nets(target)
            for cell in module.cells:
                if cell.kind == "$mux" and nets(cell.pins["A"] + " " + cell.pins["B"]) & found:
                    found |= nets(cell.pins["Y"])
                for pin, signal in cell.pins.items() if cell.kind in modules else ():
                    inner = f"\\{pin}"
                    if nets(signal) & found:
                        late[cell.kind].add(inner)
                    elif inner in late[cell.kind]:
                        found |= nets(signal)
    return late


def test_nothing_is_added_or_compared_right_behind_a_block_ram():
    """It reached 86 MHz on a ULX3S where a byte of a block RAM went through an adder or a comparison."""
    modules = read_rtlil(convert(build_port(PortPlan("uart", SERVES))))
    late = late_nets(modules)
    assert sum(map(len, late.values())) > 4
    for name, module in modules.items():
        for cell in module.cells:
            if cell.kind in SLOW:
                operands = nets(" ".join(signal for pin, signal in cell.pins.items() if pin in "AB"))
                assert not operands & late[name], (name, cell.kind, cell.name)
