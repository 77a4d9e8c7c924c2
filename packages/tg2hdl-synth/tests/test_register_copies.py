import json
from dataclasses import replace

import pytest
from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import part_named, place, synthesize
from tg2hdl_synth.families.ecp5 import tools as ecp5
from tg2hdl_synth.families.ecp5.register_copies import copy_registers

LANES = 50


class Wide(wiring.Component):
    """One flag, delayed and gated, that enables many registers and many LUT RAMs, which share an address."""

    def __init__(self):
        super().__init__({"flag": In(1), "gate": In(1), "addr": In(4), "data": In(4), "y": Out(4)})

    def elaborate(self, platform):
        m = Module()
        width = 4 * LANES
        memory = Memory(shape=unsigned(width), depth=16, init=[], attrs={"ram_style": "distributed"})
        m.submodules.memory = memory
        write, read = memory.write_port(), memory.read_port(domain="comb")
        flags = [Signal(name=f"flag_{n}") for n in range(3)]
        address, old, word = Signal(4), Signal(4), Signal(width)
        m.d.sync += [flags[0].eq(self.flag), flags[1].eq(flags[0]), flags[2].eq(flags[1] & self.gate)]
        m.d.sync += [address.eq(self.addr), old.eq(address), word.eq(read.data)]
        sums = [Signal(4, name=f"sum{n}") for n in range(LANES)]
        with m.If(flags[-1]):
            m.d.sync += [s.eq(s + (self.data ^ (n % 16))) for n, s in enumerate(sums)]
        m.d.comb += [write.addr.eq(old), write.data.eq(Cat(sums)), write.en.eq(flags[-1])]
        m.d.comb += read.addr.eq(address)
        m.d.sync += self.y.eq(sum(word.word_select(n, 4) * (n % 3 + 1) for n in range(LANES)))
        return m


@pytest.fixture(scope="module")
def folder():
    return synthesize(Wide(), place=False).folder


def readers(netlist):
    """Types of the cells that read each register."""
    cells = netlist["modules"]["top"]["cells"].values()
    found = {c["connections"]["Q"][0]: [] for c in cells if c["type"] == "TRELLIS_FF"}
    for cell in cells:
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input":
                for bit in bits:
                    if bit in found:
                        found[bit].append(cell["type"])
    return found.values()


def merged(netlist):
    """Cells by what they read, with registers and LUTs of equal inputs taken as one."""
    cells = netlist["modules"]["top"]["cells"]
    renamed = {}
    while True:
        same = {}
        for cell in (c for c in cells.values() if c["type"] in ("TRELLIS_FF", "LUT4")):
            pins = dict(cell["connections"])
            (output,) = pins.pop("Q" if cell["type"] == "TRELLIS_FF" else "Z")
            inputs = {p: [renamed.get(b, b) for b in bits] for p, bits in pins.items()}
            same.setdefault(json.dumps([cell["parameters"], inputs], sort_keys=True), []).append(output)
        found = {q: min(group) for group in same.values() for q in group}
        if found == renamed:
            break
        renamed = found
    return {
        json.dumps(
            [c["type"], c["parameters"], {p: [renamed.get(b, b) for b in bits] for p, bits in pins.items()}]
        )
        for c in cells.values()
        for pins in [c["connections"]]
    }


def test_copies_are_what_they_were_made_of(folder):
    netlist = json.loads((folder / "netlist.json").read_text())
    original = merged(netlist)
    assert max(map(len, readers(netlist))) == 4 * LANES + LANES
    gates = sum(cell["type"] == "LUT4" for cell in netlist["modules"]["top"]["cells"].values())
    before = len(netlist["modules"]["top"]["cells"])
    count = copy_registers(netlist)
    cells = netlist["modules"]["top"]["cells"]
    assert count == len(cells) - before > 40
    assert sum(cell["type"] == "LUT4" for cell in cells.values()) == gates + 7, "the gate goes with the flag"
    assert max(map(len, readers(netlist))) <= 48
    assert max(len(kinds) for kinds in readers(netlist) if set(kinds) == {"LUT4"}) <= 12
    assert merged(netlist) == original


def test_a_lane_has_one_copy_for_all_of_its_bits(folder):
    netlist = json.loads((folder / "netlist.json").read_text())
    copy_registers(netlist)
    module = netlist["modules"]["top"]
    wide = [net["bits"] for net in module["netnames"].values() if len(net["bits"]) == 4 * LANES]
    lanes = {bit: place // 4 for bits in wide for place, bit in enumerate(bits)}
    enables = {}
    for cell in module["cells"].values():
        pins = cell["connections"]
        if cell["type"] == "TRELLIS_FF" and "CE" in pins:
            enables.setdefault(lanes[pins["Q"][0]], set()).add(pins["CE"][0])
    groups = [enables[lane] for lane in sorted(enables)]
    assert len(groups) == LANES
    # The eighth one enables LUT RAMs.
    assert len({copy for group in groups for copy in group}) == 7
    assert sum(len(group) > 1 for group in groups) <= 6, "at most one lane between two copies"


class Choice(wiring.Component):
    """A flag that chooses between two words, straight from an input or delayed once more."""

    def __init__(self, *, delayed):
        self.delayed = delayed
        super().__init__({"flag": In(1), "a": In(960), "b": In(960), "y": Out(960)})

    def elaborate(self, platform):
        m = Module()
        flag = Signal()
        m.d.sync += flag.eq(self.flag)
        if self.delayed:
            early, flag = flag, Signal()
            m.d.sync += flag.eq(early)
        m.d.sync += self.y.eq(Mux(flag, self.a, self.b))
        return m


@pytest.mark.parametrize(("delayed", "copies"), [(False, 8), (True, 20)])
def test_a_delayed_choice_has_a_copy_for_every_few_readers(delayed, copies):
    netlist = json.loads(
        (synthesize(Choice(delayed=delayed), place=False).folder / "netlist.json").read_text()
    )
    original = merged(netlist)
    copy_registers(netlist)
    groups = [kinds for kinds in readers(netlist) if "LUT4" in kinds]
    assert (len(groups), max(map(len, groups))) == (copies, 960 // copies)
    assert merged(netlist) == original


class Blocks(wiring.Component):
    """An enable and an address, delayed once more, of blocks of memory."""

    def __init__(self, blocks):
        self.blocks = blocks
        super().__init__({"enable": In(1), "a": In(36), "addr": In(8), "y": Out(36 * blocks)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=unsigned(36 * self.blocks), depth=256, init=[])
        write, read = memory.write_port(), memory.read_port()
        enable, addr = Signal(), Signal(8)
        m.d.sync += [enable.eq(self.enable), write.en.eq(enable), addr.eq(self.addr), read.addr.eq(addr)]
        m.d.comb += [
            write.addr.eq(self.addr),
            write.data.eq(self.a.replicate(self.blocks)),
            self.y.eq(read.data),
        ]
        return m


@pytest.mark.parametrize(("blocks", "copies"), [(50, 1 + 8), (51, 1)])
def test_a_delayed_enable_has_a_copy_for_each_block_of_memory_and_an_address_if_there_is_room(blocks, copies):
    netlist = json.loads((synthesize(Blocks(blocks), place=False).folder / "netlist.json").read_text())
    original = merged(netlist)
    assert sum(c["type"] == "DP16KD" for c in netlist["modules"]["top"]["cells"].values()) == blocks
    assert len([kinds for kinds in readers(netlist) if "DP16KD" in kinds]) == 1 + 8
    copy_registers(netlist)
    few = [kinds for kinds in readers(netlist) if kinds.count("DP16KD") > 8]
    many = [kinds for kinds in readers(netlist) if 0 < kinds.count("DP16KD") <= 8]
    assert len(many) == copies * blocks
    assert (len(few) > 0) == (copies == 1)
    assert merged(netlist) == original


@pytest.mark.parametrize("large", [False, True])
def test_only_large_designs_get_copies(large, monkeypatch):
    class Placed(Exception):
        pass

    def look(placer, arguments, text, *others):
        raise Placed(placer, text.count("$copy"))

    monkeypatch.setattr(place, "_place_and_route", look)
    part = part_named("ecp5-45k")
    with pytest.raises(Placed) as seen:
        synthesize(Wide(), replace(part, lut=1000) if large else part, seeds=1)
    placer, copies = seen.value.args
    assert (placer, copies > 0) == (("static", True) if large else ("heap", False))


@pytest.mark.parametrize("many", [False, True])
def test_a_design_of_very_many_cells_is_routed_by_the_second_router(many, monkeypatch):
    class Placed(Exception):
        pass

    def look(placer, arguments, text, *others):
        raise Placed(arguments)

    monkeypatch.setattr(place, "_place_and_route", look)
    if many:
        monkeypatch.setattr(ecp5, "_MANY_CELLS", 100)
    with pytest.raises(Placed) as seen:
        synthesize(Wide(), seeds=1)
    assert ("router2" in seen.value.args[0]) == many
