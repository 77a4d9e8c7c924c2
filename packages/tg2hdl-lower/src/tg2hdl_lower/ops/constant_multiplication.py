"""Pipelined products of wide integers by a constant, from additions only."""

from __future__ import annotations

from amaranth import Module, Signal, signed, unsigned
from amaranth.hdl import Const, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.ops.arithmetic import sum_of_pairs, terms_by_constant
from tg2hdl_lower.ops.multiplication import Multiplier, pieces_of

__all__ = ["ConstantMultiplier"]


class ConstantMultiplier(wiring.Component):
    """``a * constant`` modulo 2^width, with the latency of `Multiplier`.

    Parameters
    ----------
    width : int
        Bits of the factor and the result.
    is_signed : bool
        Only the shape of the ports depends on it.
    constant : int
        The other factor.

    Members
    -------
    a : In(width)
        Factor.
    result : Out(width)
        Valid `latency` enabled cycles after the factor.
    en : In(1)
        Stalls all registers when low.
    """

    def __init__(self, width: int, is_signed: bool, constant: int) -> None:
        self.width = width
        self.constant = constant
        self.latency = Multiplier.latency_of(*(pieces_of(width),) * 2)
        shape = signed(width) if is_signed else unsigned(width)
        super().__init__({"a": In(shape), "result": Out(shape), "en": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        level = terms_by_constant(self.a, self.constant, self.width)
        depth = max(len(level) - 1, 0).bit_length()
        for stage in range(self.latency):
            for _ in range(-(-depth // (self.latency - stage))):
                level = sum_of_pairs(level)
                depth -= 1
            level = [
                (sign, self._register(m, f"s{stage}_{n}", value)) for n, (sign, value) in enumerate(level)
            ]
        total: Value = Const(0, 1)
        for sign, value in level:
            total = value if sign > 0 else -value
        m.d.comb += self.result.eq(total)
        return m

    def _register(self, m: Module, name: str, value: Value) -> Signal:
        register = Signal(self.width, name=name, reset_less=True)
        with m.If(self.en):
            m.d.sync += register.eq(value)
        return register
