"""One lane of the vector unit.

One adder and one word of products serve all operations: an operation is a set of controls, decoded once for all lanes.
A shift is a product with a power of two: to the left its low word; to the right by n one of the words that begin at
its bits 0, 16 and 32, for the power -n mod 16.  A stage adds at most a carry chain to a few levels of logic.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.hardware.counts import leading_of_bytes, leading_zeros, ones, ones_of_bytes
from tg2hdl_tpu.hardware.records import is_one_of
from tg2hdl_tpu.vector_ops import VECTOR_OPS, VectorOp, uses_zero_point

__all__ = ["CONTROLS", "SHORT", "Alu", "controls", "decoded", "factor_of", "operations"]

SHORT = tuple(op for op in VECTOR_OPS if not op.is_long and not uses_zero_point(op))
"""Operations of this unit in all machines."""

_ZERO = tuple(op for op in VECTOR_OPS if uses_zero_point(op))

_COMPARES = ("max", "min", "maxu", "minu", "lt", "ltu", "eq", "ne", "max8", "min8")

CONTROLS: dict[str, tuple[str, ...]] = {
    # The sum of a and of b, which may be inverted.
    "inverted": ("sub", "rsub", "abs", "sub8", *_COMPARES),
    "carry": ("sub", "sub8", *_COMPARES),
    "cut": ("add8",),
    "joined": ("sub", "rsub", "abs", *_COMPARES[:-2]),
    # Post-processing of the sum.
    "sum": ("add", "sub", "add8", "sub8"),
    "inverted_sum": ("rsub",),
    "saturated": ("add8", "sub8"),
    "bytes": ("max8", "min8"),
    "unsigned": ("maxu", "minu", "ltu"),
    "less": ("lt", "ltu"),
    "equal": ("eq",),
    "different": ("ne",),
    # Result select.
    "and_xor": ("and", "xor"),
    "or_xor": ("or", "xor"),
    "a": ("copy",),
    "b": ("or", "and", "xor"),
    "more": ("max", "maxu", "max8"),
    "fewer": ("min", "minu", "min8"),
    "select": ("select",),
    "abs": ("abs",),
    # Shifts, counts, products.
    "right": ("shr", "sra"),
    "clz": ("clz",),
    "popcount": ("popcount",),
    "mac": ("mac",),
    "product": ("mul", "mac", "requant", "shl", "shr", "sra"),
    "word": ("mul", "mac", "shl"),
    "requant": ("requant",),
}
"""For each control, the operations that set it; operations with their own hardware have one more each."""

INVERTS = {"inverts": 1}
"""Attribute of a sum whose second word is inverted or not: an ECP5 needs no additional cells for that."""

_CUTS = ("", "e", "ae", "ace", "abce", "abcde")
"""Cuts of the pipeline by the number of registers."""

_SECOND = (
    *("inverted", "sum", "inverted_sum", "saturated", "bytes", "unsigned", "less", "equal", "different"),
    *("a", "b", "more", "fewer", "select", "abs", "clz", "popcount", "product", "word"),
    "requant",
)
"""Controls that are needed after the first stage."""


def controls(*, zero_points: bool = False) -> dict[str, tuple[str, ...]]:
    """Return all controls, with the operations that set them."""
    found = CONTROLS | {f"own {op.name}": (op.name,) for op in SHORT if op.hardware}
    if zero_points:
        names = tuple(op.name for op in _ZERO)
        found |= {name: (*found[name], *names) for name in ("product", "requant")} | {"zero": names}
    return found


def _operations(zero_points: bool) -> tuple[VectorOp, ...]:
    return SHORT + (_ZERO if zero_points else ())


def operations(opcode: Any, *, zero_points: bool = False) -> Value:
    """Return a bit for each operation of this unit: whether it is the one of this opcode.

    Parameters
    ----------
    opcode
        Value of the opcode.
    zero_points : bool
        Whether the unit subtracts zero points.
    """
    return Cat(is_one_of(opcode, (op.name,)) for op in _operations(zero_points))


def decoded(operation: Any, *, zero_points: bool = False) -> Value:
    """Return the bits of `controls` for the bits of `operations`.

    Parameters
    ----------
    operation
        Bits of `operations`.
    zero_points : bool
        Whether the unit subtracts zero points.
    """
    bits = {op.name: operation[n] for n, op in enumerate(_operations(zero_points))}
    found = controls(zero_points=zero_points).values()
    return Cat(reduce(or_, [bits[name] for name in names]) for names in found)


def _where(condition: Any, value: Any) -> Value:
    """The value, or zeros: then the register behind it is cleared, without a gate for each bit."""
    return Mux(condition, value, Const(0, len(Value.cast(value))))


def _spread(flags: list[Any]) -> Value:
    return Cat(Value.cast(flag).replicate(8) for flag in flags)


def factor_of(b: Any, left: Any, right: Any, plain: Any) -> Value:
    """Return the factor of a lane: `b`, if it is `plain`, else the power of two of a shift left or right.

    Parameters
    ----------
    b
        Operand of a lane, 32 bits; shifts use its low 5 bits.
    left, right
        Whether the operation is this shift.
    plain
        Whether it is a product.
    """
    # The low bits of -b, for a shift to the right.
    n = [b[0], *(b[i] ^ (right & b[:i].any()) for i in range(1, 4)), b[4] & left]
    low = [Cat(n[:2]) == i for i in range(4)]
    high = [(Cat(n[2:]) == i) & (left | right) for i in range(8)]
    power = Cat(low[i % 4] & high[i // 4] for i in range(32))
    return Value.cast(power | _where(plain, b))


class Alu(wiring.Component):
    """Vector operations on one lane, with the ReLU after them.

    Parameters
    ----------
    registers : int
        0 is combinational, 1 registers the result, up to 5 cut products, sums and the shift of a product.
    zero_points : bool
        Whether it has `requantz`.

    Members
    -------
    next_control, next_k, next_relu : In
        Of the operands that come a cycle later: a bit for each of `controls`, and fields of the instruction.
    a, b, c : In(32)
        Operands and old destination; `b` is 0 for operations without it.
    factor : In(32)
        The result of `factor_of` for `b`, if the operation has it.
    top : In(1)
        The sign of `a`; 0 if it is shifted as an unsigned word.
    result : Out(signed(32))
    """

    def __init__(self, registers: int = 0, *, zero_points: bool = False) -> None:
        self.registers, self.zero_points = registers, zero_points
        super().__init__(
            {
                "next_control": In(len(controls(zero_points=zero_points))),
                "next_k": In(6),
                "next_relu": In(1),
                "a": In(signed(32)),
                "b": In(signed(32)),
                "c": In(signed(32)),
                "factor": In(signed(32)),
                "top": In(1),
                "result": Out(signed(32)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the stages."""
        m = Module()
        self.ua, self.ub = self.a.as_unsigned(), self.b.as_unsigned()
        control, self.k, relu = (
            Signal(len(port), name=name, reset_less=True)
            for name, port in (("control", self.next_control), ("k", self.next_k), ("relu", self.next_relu))
        )
        m.d.sync += [control.eq(self.next_control), self.k.eq(self.next_k), relu.eq(self.next_relu)]
        on = dict(zip(controls(zero_points=self.zero_points), control, strict=True))
        late = {"k": self.k, "relu": relu}
        kept = ["relu", "requant"]
        if self.zero_points:
            late["zero"] = self.factor[16:24] & on["zero"].replicate(8)
            kept.append("zero")
        # A sum with a byte may be in range though the first part of it is not.
        more = int(self.zero_points)
        first = self._cut(m, "a", **late, **{name: on[name] for name in _SECOND}, **self._first(m, on))
        late = {name: first[name] for name in kept}
        # Only `requant` shifts here, so that others find their word in the window.
        x = self._cut(m, "b", k=_where(first["requant"], first["k"][:4]), **late, **self._second(first))
        total = (x["low"][:32] + (x["word"] | x["addend"]))[:32]
        late = {name: x[name] for name in kept}
        # Bit 0 has number -1.
        bits, negative = Cat(x["under"], total, x["low"][32:]), x["low"][-1]
        width = 24 + more
        beyond = ~x["far"] & (bits[width:] != negative.replicate(len(bits) - width))
        bits = Mux(x["far"], Cat(bits[32:], negative.replicate(33))[:33], bits[:33])
        x = self._cut(m, "c", **late, k=x["k"], bits=bits, beyond=beyond, negative=negative)
        late = {name: x[name] for name in (*kept, "negative")}
        byte, beyond = _window(x["bits"][:width], x["beyond"], x["k"], x["negative"], more)
        word = _where(~x["requant"], x["bits"][1:])
        x = self._cut(m, "d", **late, byte=byte, beyond=beyond, word=word)
        result = self._with_zero_point(x) if self.zero_points else self._rounded(x)
        m.d.comb += self.result.eq(self._cut(m, "e", result=result)["result"])
        return m

    @staticmethod
    def _rounded(x: dict[str, Any]) -> Value:
        """The result; the bit shifted out last, the lowest one, rounds half up."""
        rounded = (x["byte"][1:] + x["byte"][0])[:8]
        high = x["byte"][8] ^ x["negative"]
        beyond = x["beyond"] | high | x["byte"][:8].all() & ~x["byte"][8]
        low = Mux(beyond, (~x["negative"]).replicate(7), rounded[:7])
        sign = Mux(beyond, x["negative"], rounded[7])
        result = x["word"] | (Cat(low, sign.replicate(25)) & x["requant"].replicate(32))
        # A result that is negative before rounding is negative or 0.
        below = x["relu"] & Mux(x["requant"], x["negative"], x["word"][31])
        return _where(~below, result)

    @staticmethod
    def _with_zero_point(x: dict[str, Any]) -> Value:
        """The same with a bit more, to which a byte is added before the result is clamped."""
        total = x["byte"][1:].as_signed() + x["zero"].as_signed() + x["byte"][0]
        beyond = x["beyond"] | (x["byte"][-1] ^ x["negative"])
        sign = Mux(beyond, x["negative"], total[10])
        fits = ~beyond & (total[7:11].all() | ~total[7:11].any())
        low = Mux(fits, total[:7], (~sign).replicate(7))
        result = x["word"] | (Cat(low, sign.replicate(25)) & x["requant"].replicate(32))
        below = x["relu"] & Mux(x["requant"], sign, x["word"][31])
        return _where(~below, result)

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

    def _first(self, m: Module, on: dict[str, Any]) -> dict[str, Any]:
        """The sum, with its carries cut between bytes or not; products; half of the shift."""
        a, b = self.ua, self.ub
        # A bit between two bytes passes the carry on, drops it, or makes one.
        x, y = (
            Cat(v[:8], gap, v[8:16], gap, v[16:24], gap, v[24:])
            for v, gap in ((a, ~on["cut"]), (b, on["joined"]))
        )
        total = Signal(36, name="total", attrs=INVERTS)
        m.d.comb += total.eq(Cat(on["carry"], x) + Cat(on["carry"], y ^ on["inverted"].replicate(35)))
        low, high = self.factor[:16], self.factor[16:]
        # Shifts to the right by 1 to 16, and by more.
        some = b[:4].any()
        near, far = on["right"] & (b[4] ^ some), on["right"] & b[4] & some
        own = [_word(op.hardware(self)) & on[f"own {op.name}"].replicate(32) for op in SHORT if op.hardware]
        return {
            "total": Cat(total[9 * n + 1 : 9 * n + 9] for n in range(4)),
            "x": a,
            "y": Mux(on["and_xor"], Mux(on["or_xor"], a ^ b, a & b), Mux(on["or_xor"], a | b, b)),
            "own": reduce(or_, own, Const(0, 32)),
            "holds": self.c != 0,
            "near": near | (on["requant"] & self.k[4]),
            "far": far | (on["requant"] & self.k[5]),
            "zeros": leading_of_bytes(a),
            "ones": ones_of_bytes(a),
            # Factors of at most 18 bits, as multipliers have them.
            "p0": a[:16] * low,
            "p1": (Cat(a[16:], self.top).as_signed() * Cat(low, Const(0, 1)).as_signed())[:32],
            "p2": (a[:16] * high)[:16],
            "c": _where(on["mac"], self.c),
        }

    @staticmethod
    def _second(x: dict[str, Any]) -> dict[str, Any]:
        """The result of all but shifts and products; these but for their last step."""
        a, b, total = x["x"], x["y"], x["total"]
        tops = [(a[n], b[n], total[n]) for n in range(7, 32, 8)]
        less = [Mux(i ^ j, Mux(x["unsigned"], j, i), s) for i, j, s in tops]
        beyond = [x["saturated"] & ((i ^ j) == x["inverted"]) & (s ^ i) for i, j, s in tops]
        high = [there & ~i for there, (i, _, _) in zip(beyond, tops, strict=True)]
        low = [there & i for there, (i, _, _) in zip(beyond, tops, strict=True)]
        inverted = x["inverted_sum"] | (x["abs"] & a[31])
        # Both of a sum and of its inverse are ones, neither is zeros.
        straight = Cat(
            Cat((x["sum"] & ~d).replicate(7), x["sum"] & ~u) for u, d in zip(high, low, strict=True)
        )
        inverse = Cat(Cat((inverted | u).replicate(7), inverted | d) for u, d in zip(high, low, strict=True))
        by_byte = [Mux(x["bytes"], flag, less[3]) for flag in less]
        holds = x["select"] & x["holds"]
        takes_a = x["a"] | holds | (x["abs"] & ~a[31])
        takes_b = x["b"] | (x["select"] & ~x["holds"])
        from_a = _spread([takes_a | Mux(flag, x["fewer"], x["more"]) for flag in by_byte])
        from_b = _spread([takes_b | Mux(flag, x["more"], x["fewer"]) for flag in by_byte])
        same = total == 0
        bit = (x["less"] & less[3]) | (x["equal"] & same) | (x["different"] & ~same)
        count = (leading_zeros(x["zeros"]) & x["clz"].replicate(6)) | (
            ones(x["ones"]) & x["popcount"].replicate(6)
        )
        word = (total & straight) | (~total & inverse) | (a & from_a) | (b & from_b) | x["own"]
        product = Cat(x["p0"][:16], (x["p0"][16:] + x["p1"].as_signed())[:32])
        sums = Cat(x["c"][:16], (x["c"][16:] + x["p2"])[:16])
        nearer = Mux(x["near"], Cat(product[16:], product[-1].replicate(16)), product)
        return {
            "word": word,
            "far": x["far"],
            "under": x["near"] & product[15],
            "low": _where(x["product"], nearer),
            "addend": _where(x["word"], sums) | Cat(count | bit, Const(0, 26)),
        }


def _word(value: Any) -> Value:
    value = Value.cast(value)
    return Cat(value, Const(0, 32 - len(value))) if len(value) < 32 else value[:32]


def _window(bits: Any, beyond: Any, k: Any, sign: Any, more: int) -> tuple[Value, Value]:
    """The last steps of a shift of a signed value to its bits k - 1 to k + 7 + `more`; the first has number -1.

    Returns the bits, and whether any above them is not as the sign.
    """
    for n in reversed(range(4)):
        # The bits that the steps that follow may still need.
        width = 8 + more + (1 << n)
        kept, over = bits[:width], bits[width:]
        beyond = beyond | (~k[n] & (over != sign.replicate(len(over))))
        moved = Cat(bits[1 << n :], sign.replicate(1 << n))[:width]
        bits = Mux(k[n], moved, kept)
    return Value.cast(bits), Value.cast(beyond)
