"""One lane of the vector unit."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.isa import FIRST_VECTOR
from tg2hdl_tpu.vector_ops import VECTOR_OPS

__all__ = ["SHORT", "Alu", "decoded"]

SHORT = tuple(op for op in VECTOR_OPS if not op.is_long)
"""Operations of this unit: a bit of `Alu.chosen` each."""

_LATE = ("mul", "mac", "requant")
_CUTS = ("", "e", "ae", "ace", "abce", "abcde")
"""Cuts of the pipeline by the number of registers."""


def decoded(opcode: Any) -> Value:
    """Return `Alu.chosen` for an opcode."""
    return Cat(opcode == code for code, op in enumerate(VECTOR_OPS, FIRST_VECTOR) if not op.is_long)


def _any(conditions: list[Any]) -> Value:
    return reduce(or_, conditions)


def _merge(pairs: list[tuple[Any, Any]]) -> Value:
    """AND-OR multiplexer of 32-bit values; at most one condition holds."""
    return reduce(or_, [_word(v) & condition.replicate(32) for condition, v in pairs])


def _word(value: Any) -> Value:
    value = Value.cast(value)
    return Cat(value, Const(0, 32 - len(value))) if len(value) < 32 else value[:32]


class Alu(wiring.Component):
    """Vector operations on one lane, with the ReLU after them.

    Parameters
    ----------
    registers : int
        0 is combinational, 1 registers the result, up to 5 cut products, sums, rounding and shift.

    Members
    -------
    a, b, c : In(32)
        Operands and old destination.
    chosen : In
        One bit for each of `SHORT`.
    k, relu : In
        Of the instruction.
    result : Out(signed(32))
    """

    def __init__(self, registers: int = 0) -> None:
        self.registers = registers
        super().__init__(
            {
                "a": In(signed(32)),
                "b": In(signed(32)),
                "c": In(signed(32)),
                "chosen": In(len(SHORT)),
                "k": In(6),
                "relu": In(1),
                "result": Out(signed(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the operations."""
        m = Module()
        self.ua, self.ub = self.a.as_unsigned(), self.b.as_unsigned()
        self._is = {op.name: self.chosen[n] for n, op in enumerate(SHORT)}
        self._share(m)
        # What several operations return is merged once.
        groups: dict[int, tuple[list[Any], Any]] = {}
        for op in SHORT:
            if op.name not in _LATE:
                build = op.hardware
                value = build(self) if callable(build) else getattr(self, build or op.name)()
                groups.setdefault(id(value), ([], value))[0].append(self._is[op.name])
        pairs = [(_any(conditions), value) for conditions, value in groups.values()]
        # Factors of at most 18 bits, as multipliers have them.
        low, high = self.ub[:16], self.ub[16:]
        parts = self._cut(
            m,
            "a",
            **{f"early{n}": _merge(pairs[n::4]) for n in range(4)},
            p0=self.ua[:16] * low,
            p1=(self.a[16:].as_signed() * Cat(low, Const(0, 1)).as_signed())[:33],
            p2=(self.ua[:16] * high)[:16],
            c=self.c,
            k=self.k,
            relu=self.relu,
            **{name: self._is[name] for name in _LATE},
        )
        upper = Mux(parts["mac"], parts["c"][16:], 0) + parts["p2"]
        parts = self._cut(
            m,
            "b",
            early=_any([parts[f"early{n}"] for n in range(4)]),
            low=Cat(parts["p0"][:16], (parts["p0"][16:] + parts["p1"].as_signed())[:32]),
            addend=Cat(Mux(parts["mac"], parts["c"][:16], 0), upper[:16]),
            # From 48 on, nothing is left of a product.
            round=(Const(1, 48) << parts["k"])[1:48],
            zero=parts["k"] >= 48,
            **{name: parts[name] for name in ("k", "relu", "mul", "mac", "requant")},
        )
        summed = (parts["low"][:32] + parts["addend"])[:32]
        parts = self._cut(
            m,
            "c",
            early=parts["early"] | _merge([(parts["mul"] | parts["mac"], summed)]),
            rounded=(parts["low"].as_signed() + parts["round"])[:49],
            **{name: parts[name] for name in ("k", "zero", "relu", "requant")},
        )
        parts = self._cut(
            m,
            "d",
            shifted=(parts["rounded"].as_signed() >> parts["k"])[:49],
            **{name: parts[name] for name in ("early", "zero", "relu", "requant")},
        )
        shifted = parts["shifted"].as_signed()
        sign, beyond = shifted[48], (shifted[7:48] != shifted[48].replicate(41))
        byte = Mux(beyond, Cat((~sign).replicate(7), sign), shifted[:8]).as_signed()
        requantized = Mux(parts["requant"] & ~parts["zero"], byte, 0)
        result = (parts["early"] | requantized)[:32]
        last = self._cut(m, "e", result=Mux(parts["relu"] & result[31], 0, result))
        m.d.comb += self.result.eq(last["result"])
        return m

    def _cut(self, m: Module, name: str, **values: Any) -> dict[str, Any]:
        """Register the values if there is a cut here."""
        cut = {}
        for key, value in values.items():
            cut[key] = Signal(len(Value.cast(value)), name=f"{name}_{key}", reset_less=True)
            if name in _CUTS[self.registers]:
                m.d.sync += cut[key].eq(value)
            else:
                m.d.comb += cut[key].eq(value)
        return cut

    def _share(self, m: Module) -> None:
        """One adder, one comparator and one shifter for all operations."""
        chosen, a, b = self._is, self.a, self.b
        negative = chosen["abs"] & a[31]
        minus_a, minus_b = chosen["rsub"] | negative, chosen["sub"]
        x, y = (Signal(33, name=name) for name in ("x", "y"))
        self._sum, self._picked, self._shifted = (
            Signal(32, name=name) for name in ("sum", "picked", "shifted")
        )
        self._less, self._equal, self._bit = (Signal(name=name) for name in ("less", "equal", "bit"))
        no_b = (~chosen["abs"]).replicate(32)
        m.d.comb += [
            x.eq(Cat(minus_a | minus_b, a ^ minus_a.replicate(32))),
            y.eq(Cat(minus_a | minus_b, (b ^ minus_b.replicate(32)) & no_b)),
            self._sum.eq((x + y)[1:33]),
        ]
        whole = _any([chosen[name] for name in ("maxu", "minu", "ltu")])
        ordered = [Cat(v[:31], v[31] ^ whole).as_signed() for v in (a, b)]
        m.d.comb += [
            self._less.eq(ordered[0] < ordered[1]),
            self._equal.eq(a == b),
            self._picked.eq(Mux(self._less ^ (chosen["max"] | chosen["maxu"]), a, b)),
            self._bit.eq(
                (self._less & (chosen["lt"] | chosen["ltu"]))
                | (self._equal & chosen["eq"])
                | (~self._equal & chosen["ne"])
            ),
        ]
        left = chosen["shl"]
        operand = Cat(Mux(left, a[::-1], self.ua), chosen["sra"] & a[31]).as_signed()
        right = Signal(32, name="right")
        m.d.comb += [right.eq(operand >> self.ub[:5]), self._shifted.eq(Mux(left, right[::-1], right))]

    # Each operation by its name, or by `VectorOp.hardware`.

    def copy(self) -> Value:
        return self.a

    def add(self) -> Value:
        return self._sum

    sub = rsub = abs_ = add

    def max(self) -> Value:
        return self._picked

    min = maxu = minu = max

    def shl(self) -> Value:
        return self._shifted

    shr = sra = shl

    def lt(self) -> Value:
        return self._bit

    ltu = eq = ne = lt

    def select(self) -> Value:
        return Mux(self.c != 0, self.a, self.b)

    def clz(self) -> Value:
        count: Value = Value.cast(32)
        for bit in range(32):
            count = Mux(self.a[bit], 31 - bit, count)
        return Value.cast(count)[:6]

    def popcount(self) -> Value:
        values: list[Value] = [self.a[i] for i in range(32)]
        while len(values) > 1:
            values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
        return Value.cast(values[0])[:6]

    def _bytes(self, combine: Any) -> Value:
        parts = []
        for n in range(4):
            x, y = (v[8 * n : 8 * n + 8].as_signed() for v in (self.a, self.b))
            parts.append(Value.cast(combine(x, y))[:8])
        return Cat(parts)

    def add8(self) -> Value:
        return self._bytes(lambda x, y: _saturated(x + y))

    def sub8(self) -> Value:
        return self._bytes(lambda x, y: _saturated(x - y))

    def max8(self) -> Value:
        return self._bytes(lambda x, y: Mux(x > y, x, y))

    def min8(self) -> Value:
        return self._bytes(lambda x, y: Mux(x < y, x, y))


def _saturated(value: Value) -> Value:
    return Mux(value > 127, 127, Mux(value < -128, -128, value))
