import json
from itertools import pairwise

import pytest
from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import DesignTooLargeError, synthesize
from tg2hdl_synth.families.ice40.tools import join_ports
from tg2hdl_synth.naming import describe
from tg2hdl_synth.netlist_simulation import open_netlist
from tg2hdl_synth.port_chain import chained_bits

CONTENTS = [(29 * n * n + 5 * n) % 256 for n in range(300)]


class Product(wiring.Component):
    """A memory word times an input; with as many ports as a large part has pins."""

    def __init__(self):
        super().__init__({"addr": In(9), "x": In(8), "y": Out(16), "sums": Out(64)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory_w = memory = Memory(shape=8, depth=len(CONTENTS), init=CONTENTS)
        read = memory.read_port()
        word, total = Signal(8), Signal(64)
        m.d.comb += [read.addr.eq(self.addr), self.sums.eq(total)]
        m.d.sync += [word.eq(read.data), self.y.eq(word * self.x), total.eq(total + word + 1)]
        return m


@pytest.mark.parametrize(("target", "dsp"), [("ice40-up5k", 1), ("ice40-hx8k", 0)])
def test_design_with_more_ports_than_pins_is_placed(target, dsp):
    result = synthesize(Product(), target, seeds=1)
    assert result.fmax > 20
    assert result.utilization["SB_IO"][0] == 3
    assert (result.used("dsp"), result.used("bram"), result.by_memory) == (dsp, 1, {"w": 1})
    joined = 9 + 8 + 16 + 64 + 1
    assert result.notes == (
        f"{joined} logic cells of the total join the ports to two pins by a chain of registers",
    )
    assert result.used("comb") >= joined
    assert result.format().startswith(f"top on {target}\n")
    assert result.to_dict()["speed"] is None


@pytest.mark.parametrize("target", ["ice40-up5k", "ice40-hx8k"])
def test_netlist_computes_what_the_design_says(target):
    with open_netlist(synthesize(Product(), target, place=False)) as simulation:
        for address, x in ((0, 255), (299, 200), (17, 3), (255, 128)):
            simulation.set("addr", address)
            simulation.set("x", x)
            simulation.step(4)
            assert simulation.get("y") == CONTENTS[address] * x


def test_every_port_bit_is_in_the_chain():
    netlist = json.loads(
        (synthesize(Product(), "ice40-hx8k", place=False).folder / "netlist.json").read_text()
    )
    (module,) = [m for m in netlist["modules"].values() if int(m["attributes"].get("top", "0"), 2)]
    ports = {name: list(port["bits"]) for name, port in module["ports"].items()}
    count = chained_bits(netlist)
    join_ports(netlist)
    cells = module["cells"]
    registers = [
        c["connections"] for name, c in cells.items() if name.startswith("ports.") and "Q" in c["connections"]
    ]
    assert len(registers) == count
    assert module["ports"].keys() == {"clk", "chain_in", "chain_out"}
    inputs = [bit for name in ("rst", "addr", "x") for bit in ports[name]]
    assert {c["Q"][0] for c in registers} >= set(inputs)
    mixed = {c["connections"]["I1"][0] for name, c in cells.items() if name.endswith(".mix")}
    assert mixed == {bit for name in ("y", "sums") for bit in ports[name]}
    # From the first pin to the last: each register, or the gate before it, reads the register before.
    gates = {
        c["connections"]["O"][0]: c["connections"]["I0"][0] for n, c in cells.items() if n.endswith(".mix")
    }
    chain = [module["ports"]["chain_out"]["bits"][0]]
    data = {c["Q"][0]: c["D"][0] for c in registers}
    while chain[-1] in data:
        chain.append(gates.get(data[chain[-1]], data[chain[-1]]))
    assert chain[-1] == module["ports"]["chain_in"]["bits"][0]
    assert len(set(pairwise(chain))) == count


def test_chained_ports_are_named():
    assert describe("ports.x.3", None) == "register at port x"


class Rows(wiring.Component):
    """Registers in rows: with those of the ports more than a part has."""

    def __init__(self):
        super().__init__({"a": In(80), "y": Out(80)})

    def elaborate(self, platform):
        m = Module()
        rows = Signal(5200, reset_less=True)
        m.d.sync += rows.eq(Cat(self.a, rows))
        m.d.comb += self.y.eq(rows[-80:])
        return m


@pytest.mark.slow
def test_a_design_that_only_the_placer_finds_too_large():
    with pytest.raises(DesignTooLargeError) as caught:
        synthesize(Rows(), "ice40-up5k", seeds=1)
    assert str(caught.value).startswith(
        "capacity: the design does not fit the part\n  at: nextpnr-ice40\n  note: ERROR: "
    )
    assert str(caught.value).endswith("\n  hint: take a larger part, or compile with fewer multipliers")
    assert caught.value.partial.cells["ff"] == 5200
