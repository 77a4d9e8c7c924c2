"""Back-to-back operands through a core in Amaranth's simulator, with pauses of the clock enable."""

__all__ = ["run"]

import random
import warnings
from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.sim import Simulator


def run(core, operands: Sequence[tuple[int, ...]], *, seed: int = 1, stalls: bool = True, rm=None) -> list:
    """Return the results (and flags, as pairs, when the core has them) of sets of operands.

    Results are expected exactly `latency` enabled cycles after their operands.
    """
    rng = random.Random(seed)
    results = []
    m = Module()
    m.submodules.core = core

    async def combinational(ctx):
        for values in operands:
            drive(ctx, values)
            await ctx.delay(1e-9)
            results.append(sample(ctx))

    async def pipelined(ctx):
        pending = list(operands)
        seen = 0
        while len(results) < len(operands):
            enabled = not stalls or rng.random() < 0.8
            ctx.set(core.en, enabled)
            if pending:
                drive(ctx, pending[0])
            if enabled and seen >= core.latency:
                results.append(sample(ctx))
            await ctx.tick(core.domain)
            if enabled:
                pending = pending[1:]
                seen += 1

    def drive(ctx, values):
        for name, value in zip(core.operands, values, strict=True):
            ctx.set(getattr(core, name), value)
        if rm is not None:
            ctx.set(core.rm, rm)

    def sample(ctx):
        value = ctx.get(core.result)
        return (value, ctx.get(core.flags.as_value())) if core.has_flags else value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sim = Simulator(m)
    if core.latency:
        sim.add_clock(1e-6, domain=core.domain)
        sim.add_testbench(pipelined)
    else:
        sim.add_testbench(combinational)
    sim.run()
    assert len(results) == len(operands)
    return results
