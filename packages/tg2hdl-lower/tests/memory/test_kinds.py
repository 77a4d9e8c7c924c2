"""Which kind of memory a buffer becomes, by its size and by who uses it."""

from __future__ import annotations

import pytest

from tg2hdl_lower import kind_named
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.memory.kind import ArrayStyle, choose_kind
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse

SHARED = MemoryRole()
INPUT = MemoryRole(written=False, in_place=False, host_reads=False)
ROM = MemoryRole(written=False, in_place=False, host_writes=False, host_reads=False)
READ = MemoryRole(written=False, in_place=False, host_reads=False)
DEEP = GENERIC.memory.block_words + 1


@pytest.mark.parametrize(
    ("words", "width", "role", "kind", "extra_latency"),
    [
        (1, 64, READ, "run-constant", 0),
        (1, 64, SHARED, "lut", 0),
        (16, 4096, SHARED, "lut", 0),
        (2048, 1, SHARED, "lut", 0),
        (2049, 1, SHARED, "block", 0),
        (17, 128, READ, "block", 0),
        (DEEP, 8, SHARED, "block", 1),
        (DEEP, 8, ROM, "banked", 1),
    ],
)
def test_kind_by_use(words, width, role, kind, extra_latency):
    use = MemoryUse(words, width, role, 2)
    assert choose_kind(use, GENERIC) == kind
    assert kind_named(kind).extra_latency(use, GENERIC) == extra_latency


def test_every_read_port_of_block_ram_is_a_copy():
    use = MemoryUse(2048, 18, READ, 2)
    kind = kind_named("block")
    assert use.bits == 2 * GENERIC.memory.block_bits
    assert [kind.area(use, GENERIC, ports).bram for ports in (1, 2)] == [2, 4]
    assert kind.read_ports(use, GENERIC) == GENERIC.memory.large_ports


@pytest.mark.parametrize(
    ("words", "role", "latency", "ports", "style"),
    [
        (16, SHARED, 2, 1, ArrayStyle("distributed")),
        (17, SHARED, 2, 2, ArrayStyle("")),
        (17, SHARED, 2, 3, ArrayStyle("distributed")),
        # Yosys took 4 GB for an input with 13 read ports whose kind of RAM was left to it.
        (64, INPUT, 2, 13, ArrayStyle("distributed", address_register=True)),
        (64, INPUT, 2, 1, ArrayStyle(address_register=True)),
        (17, READ, 1, 3, ArrayStyle("")),
        (17, READ, 2, 3, ArrayStyle("", address_register=True)),
    ],
)
def test_style_of_lut_ram(words, role, latency, ports, style):
    # Synthesis may choose block RAM unless that takes it long; a memory updated in place has no address register.
    assert kind_named("lut").style(MemoryUse(words, 8, role, latency), ports) == style
