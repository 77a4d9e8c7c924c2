"""One lane of functions and division."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_fp32 import Div, Exp2, Log2, Sin, Sqrt
from tg2hdl_tpu.hardware.floats import core_result
from tg2hdl_tpu.hardware.records import is_one_of

__all__ = ["FunctionLane", "IntegerDivider"]


class IntegerDivider(wiring.Component):
    """Quotient and remainder of integers, toward zero; by zero they are 0 and the dividend.

    Parameters
    ----------
    stages : int
        Pipeline registers, between the 32 steps.

    Members
    -------
    a, b, whole, rest : In
        Operands; whether they are unsigned; whether the remainder is wanted.
    result : Out(32)
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages
        super().__init__({"a": In(32), "b": In(32), "whole": In(1), "rest": In(1), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        """Build magnitudes, steps and signs."""
        m = Module()
        signs = [v[31] & ~self.whole for v in (self.a, self.b)]
        magnitudes = [Mux(s, -v, v)[:32] for s, v in zip(signs, (self.a, self.b), strict=True)]
        negative = Mux(self.rest, signs[0], signs[0] ^ signs[1])
        # The quotient enters where the dividend leaves.
        state: dict[str, Any] = {
            "remainder": Const(0, 32),
            "quotient": magnitudes[0],
            "divisor": magnitudes[1],
            "negative": negative,
            "rest": self.rest,
            "zero": self.b == 0,
        }
        # Before the first step, after the last, and evenly between.
        steps = 32
        cuts = [n * steps // max(self.stages - 1, 1) for n in range(self.stages)]
        for step in range(steps + 1):
            for _ in range(cuts.count(step)):
                for name, value in state.items():
                    state[name] = Signal(len(Value.cast(value)), name=f"{name}{step}", reset_less=True)
                    m.d.sync += state[name].eq(value)
            if step == steps:
                break
            partial = Cat(state["quotient"][31], state["remainder"])
            difference = Signal(34, name=f"difference{step}")
            m.d.comb += difference.eq(partial - state["divisor"])
            fits = ~difference[33]
            state["remainder"] = Mux(fits, difference[:32], partial[:32])
            state["quotient"] = Cat(fits, state["quotient"][:31])
        found = Mux(state["rest"], state["remainder"], Mux(state["zero"], 0, state["quotient"]))
        m.d.comb += self.result.eq(Mux(state["negative"], -found, found))
        return m


class FunctionLane(wiring.Component):
    """FP32 functions, and division of integers, with a common latency.

    Parameters
    ----------
    stages : int
        Pipeline registers.
    functions, divide : bool
        Which of them there are.

    Members
    -------
    a, b, opcode : In
    result : Out(32)
        `stages` cycles later.
    """

    def __init__(self, stages: int, *, functions: bool = True, divide: bool = True) -> None:
        self.stages, self.functions, self.divide = stages, functions, divide
        super().__init__({"a": In(32), "b": In(32), "opcode": In(7), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        """Build the cores and the multiplexer behind them."""
        m = Module()
        a, b = self.a, self.b
        late: Any = self.opcode
        for stage in range(self.stages):
            later = Signal(7, name=f"opcode{stage}", reset_less=True)
            m.d.sync += later.eq(late)
            late = later
        results: list[tuple[tuple[str, ...], Any]] = []
        if self.functions:
            swapped = is_one_of(self.opcode, ["frdiv"])
            operands = [Mux(swapped, b, a), Mux(swapped, a, b)]
            results.append((("fdiv", "frdiv"), core_result(m, Div, operands, self.stages)))
            for name, kind in (("fsqrt", Sqrt), ("fexp2", Exp2), ("flog2", Log2), ("fsin", Sin)):
                results.append(((name,), core_result(m, kind, [a], self.stages)))
        if self.divide:
            m.submodules.divider = divider = IntegerDivider(self.stages)
            m.d.comb += [
                divider.a.eq(a),
                divider.b.eq(b),
                divider.whole.eq(is_one_of(self.opcode, ["divu", "modu"])),
                divider.rest.eq(is_one_of(self.opcode, ["mod", "modu"])),
            ]
            results.append((("div", "mod", "divu", "modu"), divider.result))
        result: Any = results[0][1]
        for names, value in results[1:]:
            result = Mux(is_one_of(late, names), value, result)
        m.d.comb += self.result.eq(result)
        return m
