"""One lane of FP32, from the cores of `tg2hdl_fp32`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_fp32 import (
    Add,
    Exp2,
    FloatToInt,
    IntToFloat,
    Log2,
    Mul,
    RoundingMode,
    RoundToIntegral,
    Sin,
    Sqrt,
)
from tg2hdl_tpu.hardware.records import is_one_of

__all__ = ["FloatLane", "core_result", "delayed"]


#: The most registers that a build of a core takes, of those that have fewer than a lane may have.
_MOST = {
    Add: 11,
    Mul: 10,
    FloatToInt: 4,
    IntToFloat: 4,
    RoundToIntegral: 4,
    Exp2: 14,
    Log2: 19,
    Sin: 22,
    Sqrt: 29,
}


def delayed(m: Module, value: Any, cycles: int) -> Value:
    """Return the value some cycles later.

    Parameters
    ----------
    m : Module
        Whose registers they are.
    value
        At most 32 bits.
    cycles : int
    """
    for _ in range(cycles):
        later = Signal(32, reset_less=True)
        m.d.sync += later.eq(value)
        value = later
    return Value.cast(value)[:32]


def core_result(m: Module, kind: Any, operands: list[Any], stages: int, **options: Any) -> Value:
    """Return the result of a core of `tg2hdl_fp32`, `stages` cycles after the operands.

    Parameters
    ----------
    m : Module
        Of which the core becomes a submodule.
    kind
        Class of the core.
    operands : list of Any
        Words of 32 bits, one or two.
    stages : int
        Cycles; where the core has fewer, registers follow it.
    **options
        Further parameters of the core.
    """
    inside = min(stages, _MOST.get(kind, stages))
    core = kind(stages=inside, **options)
    m.submodules += core
    for port, value in zip((core.a, getattr(core, "b", None)), operands, strict=False):
        m.d.comb += port.eq(value.as_signed() if port.shape() == signed(33) else value)
    return delayed(m, core.result, stages - inside)


class FloatLane(wiring.Component):
    """FP32 operations with a common latency.

    Parameters
    ----------
    stages : int
        Pipeline registers.

    Members
    -------
    a, b, opcode : In
    result : Out(32)
        `stages` cycles later.
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages
        super().__init__({"a": In(32), "b": In(32), "opcode": In(7), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        """Build the cores and the multiplexer behind them."""
        m = Module()
        a, b, opcode = self.a, self.b, self.opcode
        opcodes = [opcode]
        for stage in range(self.stages):
            opcodes.append(Signal(7, name=f"opcode{stage}"))
            m.d.sync += opcodes[-1].eq(opcodes[-2])
        subtract, swapped, whole = (Signal(name=name) for name in ("subtract", "swapped", "whole"))
        m.d.comb += [
            subtract.eq(is_one_of(opcode, ["fsub"])),
            swapped.eq(is_one_of(opcode, ["frsub"])),
            whole.eq(is_one_of(opcode, ["u2f"])),
        ]
        simple = Signal(32)
        m.d.comb += simple.eq(self._simple())
        sum_a, sum_b = Cat(a[:31], a[31] ^ swapped), Cat(b[:31], b[31] ^ subtract)
        results = [
            (("fadd", "fsub", "frsub"), self._core(m, Add, [sum_a, sum_b])),
            (("fmul",), self._core(m, Mul, [a, b])),
            (("f2i",), self._core(m, FloatToInt, [a], overflow="wrap")),
            (("i2f", "u2f"), self._core(m, IntToFloat, [Cat(a, a[31] & ~whole)], width=33)),
            (("ftrunc",), self._core(m, RoundToIntegral, [a], rounding=RoundingMode.RTZ)),
        ]
        result = delayed(m, simple, self.stages)
        for names, value in results:
            result = Mux(is_one_of(opcodes[-1], names), value, result)
        m.d.comb += self.result.eq(result)
        return m

    def _core(self, m: Module, kind: Any, operands: list[Any], **options: Any) -> Value:
        return core_result(m, kind, operands, self.stages, **options)

    def _simple(self) -> Value:
        """Comparisons and choices, which need no core."""
        a, b = self.a, self.b
        nan = _is_nan(a) | _is_nan(b)
        zeros = (a[:31] == 0) & (b[:31] == 0)
        less_magnitude, more_magnitude = a[:31] < b[:31], a[:31] > b[:31]
        ordered = Mux(a[31] == b[31], Mux(a[31], more_magnitude, less_magnitude), a[31])
        reverse = Mux(a[31] == b[31], Mux(a[31], less_magnitude, more_magnitude), b[31])
        less, more = ordered & ~nan & ~zeros, reverse & ~nan & ~zeros
        equal = ((a == b) | zeros) & ~nan
        value: Any = Const(0, 32)
        for name, result in (
            ("flt", less),
            ("feq", equal),
            ("fne", ~equal),
            ("fmax", Mux(less, b, a)),
            ("fmin", Mux(more, b, a)),
        ):
            value = Mux(is_one_of(self.opcode, [name]), result, value)
        return Value.cast(value)


def _is_nan(x: Value) -> Value:
    return x[23:31].all() & x[:23].any()
