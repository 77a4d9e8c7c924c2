"""Float cores in a plain Amaranth design: ``a * x + y`` once per clock cycle, without the compiler.

Run it: ``python fp_core_in_amaranth.py``.
"""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tg2hdl_fp32 import Add, Mul

__all__ = ["Axpy", "run"]


class Axpy(wiring.Component):
    """Two correctly rounded float32 operations in a row; II is 1.

    Attributes
    ----------
    latency : int
        Cycles from `x` and `y` to `result`.

    Members
    -------
    a, x, y : In(32)
        IEEE-754 patterns.
    result : Out(32)
    """

    def __init__(self) -> None:
        self.multiply, self.add = Mul(), Add()
        self.latency = self.multiply.latency + self.add.latency
        super().__init__({"a": In(32), "x": In(32), "y": In(32), "result": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.multiply, m.submodules.add = self.multiply, self.add
        # y waits as long as the product takes.
        delayed = self.y
        for stage in range(self.multiply.latency):
            register = Signal(32, name=f"y_{stage}")
            m.d.sync += register.eq(delayed)
            delayed = register
        m.d.comb += [
            self.multiply.a.eq(self.a),
            self.multiply.b.eq(self.x),
            self.add.a.eq(self.multiply.result),
            self.add.b.eq(delayed),
            self.result.eq(self.add.result),
        ]
        return m


def run(dut: Axpy, a: np.float32, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Simulate the design on arrays of float32, one element per cycle."""
    found: list[int] = []

    async def testbench(ctx) -> None:
        ctx.set(dut.a, int(a.view(np.uint32)))
        for cycle in range(len(x) + dut.latency):
            if cycle < len(x):
                ctx.set(dut.x, int(x[cycle].view(np.uint32)))
                ctx.set(dut.y, int(y[cycle].view(np.uint32)))
            if cycle >= dut.latency:
                found.append(ctx.get(dut.result))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(testbench)
    simulator.run()
    return np.array(found, np.uint32).view(np.float32)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    scale, first, second = np.float32(1.5), *rng.normal(size=(2, 8)).astype(np.float32)
    design = Axpy()
    results = run(design, scale, first, second)
    print(f"latency {design.latency} cycles, one result per cycle: {results}")
    assert (results == scale * first + second).all(), "float32 arithmetic of numpy is the reference"
