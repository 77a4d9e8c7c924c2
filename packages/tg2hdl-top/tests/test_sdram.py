"""The SDRAM controller against the rules of the chip: each command allowed, each word right, each cycle predicted."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from amaranth.sim import Simulator

from tg2hdl_ir import InputError
from tg2hdl_top import SdramModel
from tg2hdl_top.external.sdram.controller import (
    ACTIVATE,
    MODE,
    PRECHARGE,
    READ,
    REFRESH,
    WRITE,
    SdramReadPort,
)
from tg2hdl_top.external.sdram.rules import RuleError, SdramRules
from tg2hdl_top.external.sdram.times import SdramTimes

SOON = SdramModel(power_up=500.0)
MODELS = {
    "100 MHz": SOON,
    "100 MHz, two cycles": replace(SOON, cas_latency=2),
    "143 MHz": replace(SOON, clock=143.0),
    "133 MHz, short pages": replace(SOON, clock=133.0, columns=64),
    "30 MHz": replace(SOON, clock=30.0, cas_latency=2, columns=256),
}


class Bench:
    """A controller between a reader and a chip that checks its rules."""

    def __init__(self, model: SdramModel, beats: int, seed: int = 1) -> None:
        self.port, self.rules = SdramReadPort(model, beats), SdramRules(model)
        self.random = random.Random(seed)

    async def cycle(self) -> None:
        """A clock cycle of the pins."""
        ctx, pins, rules = self.ctx, self.port.bus, self.rules
        ctx.set(pins.dq_i, rules.data())
        code = ctx.get(pins.ras_n) << 2 | ctx.get(pins.cas_n) << 1 | ctx.get(pins.we_n)
        written = ctx.get(pins.dq_o) if ctx.get(pins.dq_oe) else None
        rules.step(code, ctx.get(pins.ba), ctx.get(pins.a), written)
        await ctx.tick()

    async def write(self, address: int, words: list[int]) -> None:
        """Write words, with pauses between some."""
        write = self.port.memory_write
        for number, word in enumerate(words):
            self.ctx.set(write.valid, 1)
            self.ctx.set(write.address, address + number)
            self.ctx.set(write.data, word)
            while not self.ctx.get(write.ready):
                await self.cycle()
            await self.cycle()
            self.ctx.set(write.valid, 0)
            for _ in range(self.random.choice((0, 0, 1, 7))):
                await self.cycle()

    async def read(self, beats: int, stall: float, begins: list[int]) -> tuple[list[int], list[int]]:
        """Words of a run, and the cycles after `start` in which they are taken; none before its cycle in `begins`."""
        ctx, port = self.ctx, self.port
        found, cycles, now = list[int](), list[int](), 0
        ctx.set(port.start, 1)
        while len(found) < beats:
            ready = now >= begins[len(found)] and self.random.random() >= stall
            ctx.set(port.ready, ready)
            if ready and ctx.get(port.valid):
                found.append(ctx.get(port.data))
                cycles.append(now)
            await self.cycle()
            ctx.set(port.start, 0)
            now += 1
        ctx.set(port.ready, 0)
        return found, cycles

    def run(self, bench: Any) -> None:
        """Simulate."""

        async def process(ctx: Any) -> None:
            self.ctx = ctx
            await bench(self)

        simulator = Simulator(self.port)
        simulator.add_clock(1e-8)
        simulator.add_testbench(process)
        simulator.run()


@pytest.mark.parametrize("name", MODELS)
def test_words_rules_and_times(name: str):
    """Words that the port itself wrote; reads without and with pauses, over pages, banks and refreshes."""
    model, beats = MODELS[name], 1205
    words = [random.Random(number).getrandbits(16) for number in range(beats)]
    base = 3 * model.page_bytes

    async def bench(this: Bench) -> None:
        written = 21
        this.ctx.set(this.port.outside.memory_base, base)
        await this.write(0, words[:written])
        await this.cycle()  # the last word is at the pins
        first = base // 2
        assert [this.rules.contents[first + n] for n in range(written)] == words[:written]
        this.rules.contents |= {first + n: word for n, word in enumerate(words)}
        for number in range(3):
            pauses = sorted(this.random.randrange(2 * beats) for _ in range(3)) if number == 1 else [0, 0, 0]
            begins = [pauses[3 * n // beats] for n in range(beats)]
            found, cycles = await this.read(beats, 0.4 if number == 2 else 0, begins)
            assert found == words
            if number < 2:
                times = SdramTimes(model, beats)
                assert cycles == [times.take(1, begin) for begin in begins]
            for _ in range(this.random.randrange(2000)):
                await this.cycle()

    this = Bench(model, beats)
    this.run(bench)
    # The last read found refreshes at work, and the chip saw none too late.
    assert this.rules.refreshes > 12
    assert this.rules.reads == 3 * -(-beats // 8)


def test_an_address_that_is_no_page_gives_no_words():
    async def bench(this: Bench) -> None:
        this.ctx.set(this.port.outside.memory_base, this.port.model.page_bytes + 16)
        this.ctx.set(this.port.start, 1)
        for _ in range(300):
            await this.cycle()
            this.ctx.set(this.port.start, 0)
            assert not this.ctx.get(this.port.valid)
        assert this.ctx.get(this.port.outside.memory_failed)

    Bench(replace(SOON, initialized=True), 50).run(bench)


def test_bandwidth():
    """A megabyte, by the times that the test above compares with the controller."""
    for model in (SdramModel(), SdramModel(clock=143.0), SdramModel(cas_latency=2)):
        times = SdramTimes(model, 1 << 19)
        share = (1 << 19) / times.take(1 << 19, 0)
        assert share > 0.97
        assert share == pytest.approx(model.beats_per_cycle, abs=0.001)


def refused(text: str, *commands: tuple[int, ...], model: SdramModel | None = None) -> None:
    """Commands (code, bank, address, cycles until the next); the last one breaks a rule."""
    rules = SdramRules(model or SdramModel(initialized=True))
    rules.now = 100

    def give(given: Any) -> None:
        for code, bank, address, pause in given:
            rules.step(code, bank, address, 5 if code == WRITE else None)
            for _ in range(pause - 1):
                rules.step(0b111, 0, 0)

    give(commands[:-1])
    with pytest.raises(RuleError, match=text):
        give(commands[-1:])


def test_the_rules_refuse():
    open_row = (ACTIVATE, 0, 5, 3)
    refused("t_rcd is violated: read is allowed from cycle 103 on", (ACTIVATE, 0, 5, 2), (READ, 0, 0, 1))
    refused("t_rrd is violated", (ACTIVATE, 0, 5, 1), (ACTIVATE, 1, 5, 1))
    refused("t_ras is violated", (ACTIVATE, 0, 5, 4), (PRECHARGE, 0, 0, 1))
    refused("t_rp is violated", open_row, (READ, 0, 1024, 10), (ACTIVATE, 0, 6, 1))
    refused("t_wr or a burst is violated", open_row, (WRITE, 0, 0, 1), (READ, 0, 0, 3), (PRECHARGE, 0, 0, 1))
    refused("a burst is violated", open_row, (READ, 0, 0, 7), (READ, 0, 8, 1))
    refused("data while the chip drives", open_row, (READ, 0, 0, 9), (WRITE, 0, 0, 1))
    refused("refresh while a row is open", open_row, (REFRESH, 0, 0, 1))
    refused(
        "t_rfc is violated: activate is allowed from cycle 107 on", (REFRESH, 0, 0, 6), (ACTIVATE, 0, 0, 1)
    )
    refused("activate while a row is open", (ACTIVATE, 0, 5, 9), (ACTIVATE, 0, 6, 1))
    refused("read of a bank that is closed", (READ, 2, 0, 1))
    refused("read of a bank that is closed", open_row, (READ, 0, 1024, 8), (READ, 0, 0, 1))
    refused("the latest refresh was in cycle 0", (0b111, 0, 0, 800))
    refused("power_up is violated", (PRECHARGE, 0, 1024, 1), model=SdramModel())
    soon = SdramModel(power_up=0.0)
    refused("refresh while a row is open", (REFRESH, 0, 0, 1), model=soon)
    refused("activate before the mode is set", (PRECHARGE, 0, 1024, 3), (ACTIVATE, 0, 0, 1), model=soon)
    refused(
        "the mode is set after 1 refresh",
        (PRECHARGE, 0, 1024, 3),
        (REFRESH, 0, 0, 7),
        (MODE, 0, 0x233, 1),
        model=soon,
    )


def test_refused_models():
    for text, changes in {
        "an SDRAM of 12 bits": {"bits": 12},
        "an SDRAM at 120.0 MHz with cas_latency=2": {"clock": 120.0, "cas_latency": 2},
        "an SDRAM of 8192 rows and 500 columns": {"columns": 500},
        "there is no time left between refreshes": {"refresh": 100.0},
    }.items():
        with pytest.raises(InputError, match=text):
            SdramModel(**changes)
