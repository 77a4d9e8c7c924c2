"""Nibbles of a PHY with a clock of its own, and the words that it gets over MDIO, decoded as a PHY does."""

import pytest
from amaranth import ClockDomain, Elaboratable, Module
from amaranth.sim import Simulator

from tg2hdl_top.ports.rgmii import Management, Nibbles

FRAME = bytes(range(0x50, 0x90))


class WithPhy(Elaboratable):
    def __init__(self):
        self.nibbles = Nibbles()

    def elaborate(self, platform):
        m = Module()
        m.domains.phy = ClockDomain("phy", reset_less=True)
        m.submodules.nibbles = self.nibbles
        return m


@pytest.mark.parametrize("preamble", [4, 15])
@pytest.mark.parametrize("period", [8, 79])
def test_bytes_from_and_to_a_phy(period, preamble):
    """At any clock above 12.5 MHz (period in ns), after an even or odd number of nibbles."""
    top = WithPhy()
    n, received, sent = top.nibbles, [], []

    async def phy(ctx):
        nibbles = [(0xD, 1), (0x3, 1), (0, 0), (0, 0)]  # a carrier that is no frame
        nibbles += [(5, 1)] * preamble + [(0xD, 1)]
        nibbles += [(part, 1) for byte in FRAME for part in (byte & 15, byte >> 4)] + [(0, 0)] * 60
        for nibble, control in nibbles:
            ctx.set(n.rx, nibble)
            ctx.set(n.rx_ctl, control)
            await ctx.tick("phy")
            sent.append((ctx.get(n.tx), ctx.get(n.tx_ctl)))

    async def receiver(ctx):
        while True:
            *_, strobe, byte, valid = await ctx.tick().sample(n.rx_ce, n.rxd, n.rx_dv)
            if strobe:
                received.append((byte, valid))

    async def sender(ctx):
        for byte in FRAME:
            ctx.set(n.txd, byte)
            ctx.set(n.tx_en, 1)
            await ctx.tick().until(n.tx_ce)
        ctx.set(n.tx_en, 0)

    sim = Simulator(top)
    sim.add_clock(40e-9, domain="phy")
    sim.add_clock(period * 1e-9, phase=3.7e-9)
    sim.add_testbench(phy)
    sim.add_testbench(receiver, background=True)
    sim.add_testbench(sender, background=True)
    sim.run()
    assert [byte for byte, valid in received if valid] == [0xD5, *FRAME]
    assert [valid for _, valid in received] == [1] * (1 + len(FRAME)) + [0]
    # The lower nibble first, without a gap.
    controls = [control for _, control in sent]
    first = controls.index(1)
    assert sum(controls) == controls[first:].index(0) == 2 * len(FRAME)
    said = [nibble for nibble, control in sent if control]
    assert bytes(a | b << 4 for a, b in zip(said[::2], said[1::2], strict=True)) == FRAME


@pytest.mark.parametrize("address", [0, 21])
def test_a_phy_is_told_to_offer_100_mbit_only(address):
    """Words as clause 22 frames them: registers 9, 4 and 0 of the PHY at each address."""
    management, bits = Management((1 << 23) + (address << 14)), []

    async def phy(ctx):
        before = 0
        for _ in range(3 * 64 * 64 // 16):
            await ctx.tick().repeat(16)
            mdc = ctx.get(management.mdc)
            if mdc and not before:
                assert (ctx.get(management.drives), ctx.get(management.reset)) == (1, 0)
                bits.append(str(ctx.get(management.mdio)))
            before = mdc

    sim = Simulator(management)
    sim.add_clock(1e-8)
    sim.add_testbench(phy)
    sim.run()
    text = "".join(bits)
    words = [text[n : n + 64] for n in range(0, len(text), 64)]
    assert [(w[:36], w[46:48]) for w in words] == [("1" * 32 + "0101", "10")] * 3
    assert [tuple(int(w[a:b], 2) for a, b in ((36, 41), (41, 46), (48, 64))) for w in words] == [
        (address, 9, 0),  # no 1000BASE-T
        (address, 4, 0x0101),  # 100BASE-TX, full duplex
        (address, 0, 0x1200),  # negotiate again
    ]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(0, (1, 0)), ((1 << 21) - 1, (1, 0)), (1 << 21, (0, 0)), ((1 << 23) - 1, (0, 0)), (1 << 23, (0, 1))],
)
def test_a_phy_is_reset_first_and_then_has_time(first, expected):
    management, found = Management(first), []

    async def phy(ctx):
        found.append((ctx.get(management.reset), ctx.get(management.drives)))

    sim = Simulator(management)
    sim.add_clock(1e-8)
    sim.add_testbench(phy)
    sim.run()
    assert found == [expected]
