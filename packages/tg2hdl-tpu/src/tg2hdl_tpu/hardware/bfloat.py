"""BF16 in hardware: its products in FP32, and FP32 rounded to it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["BfloatMul", "to_bfloat"]

_NAN = 0x7FC0
_STEPS = 5


def to_bfloat(word: Value) -> Value:
    """Return an FP32 word rounded to BF16: to the nearest, ties to even; a NaN becomes the canonical one."""
    nan = word[23:31].all() & word[:23].any()
    up = word[15] & (word[16] | word[:15].any())
    return Value.cast(Mux(nan, _NAN, (word[16:] + up)[:16]))


class BfloatMul(wiring.Component):
    """The product of two BF16 in FP32: exact, but that it is rounded (to nearest, ties to even) below 2^-126.

    Parameters
    ----------
    stages : int
        Pipeline registers.

    Members
    -------
    a, b : In(16)
    result : Out(32)
        `stages` cycles later; a NaN is the canonical one.
    """

    def __init__(self, stages: int) -> None:
        self.stages = stages
        super().__init__({"a": In(16), "b": In(16), "result": Out(32)})

    def elaborate(self, platform: Any) -> Module:
        """Build the steps, and registers evenly behind them."""
        m = Module()
        cuts = [n * _STEPS // self.stages for n in range(self.stages)]
        state: dict[str, Any] = {"a": self.a, "b": self.b}
        for step, build in enumerate((_multiply, _count, _normalize, _denormalize, _round)):
            state = build(state)
            for n in range(cuts.count(step)):
                for name, value in state.items():
                    state[name] = Signal(
                        Value.cast(value).shape(), name=f"{name}_{step}_{n}", reset_less=True
                    )
                    m.d.sync += state[name].eq(value)
        m.d.comb += self.result.eq(state["result"])
        return m


def _multiply(s: dict[str, Any]) -> dict[str, Any]:
    """Product of the significands, and a sum of the exponents that fits a hidden bit on top of the product."""
    significands, exponents, zero, infinite, nan = [], [], [], [], []
    for x in (s["a"], s["b"]):
        field, fraction = x[7:15], x[:7]
        normal, top = field.any(), field.all()
        significands.append(Cat(fraction, normal))
        exponents.append(Cat(field[0] | ~normal, field[1:]))
        zero.append(~x[:15].any())
        infinite.append(top & ~fraction.any())
        nan.append(top & fraction.any())
    invalid = (infinite[0] & zero[1]) | (infinite[1] & zero[0])
    return {
        "product": significands[0] * significands[1],
        "exponent": (exponents[0] + exponents[1] - 126).as_signed(),
        "sign": s["a"][15] ^ s["b"][15],
        "nan": nan[0] | nan[1] | invalid,
        "infinite": infinite[0] | infinite[1],
    }


def _count(s: dict[str, Any]) -> dict[str, Any]:
    """Zeros before the first one, by halves."""
    value, counts = s["product"], []
    for width in (8, 4, 2, 1):
        high = value[width : 2 * width]
        none = ~high.any()
        counts.append(none)
        value = Mux(none, value[:width], high)
    return s | {"zeros": Cat(reversed(counts))}


def _normalize(s: dict[str, Any]) -> dict[str, Any]:
    product = (s["product"] << s["zeros"])[:16]
    return {k: s[k] for k in ("sign", "nan", "infinite")} | {
        "product": product,
        "exponent": (s["exponent"] - s["zeros"]).as_signed(),
    }


def _denormalize(s: dict[str, Any]) -> dict[str, Any]:
    """Shift numbers below the normal ones; of 25 places only the sticky bit remains."""
    exponent, product = s["exponent"], s["product"]
    small = exponent < 1
    distance = (1 - exponent).as_unsigned()
    places = Mux(small, Mux(distance > 25, 25, distance[:5]), 0)
    # A significand of 24 bits, the guard bit, and the bits shifted out.
    wide = Cat(Const(0, 25), product)
    shifted = (wide >> places)[:41]
    normal = shifted[-1]
    zero = ~product[15]
    over = ~small & (exponent > 254) & ~zero
    special = s["nan"] | s["infinite"] | over | zero
    field = Mux(normal, exponent[:8], 0)
    body = Cat(shifted[17:40], field)
    up = shifted[16] & (shifted[17] | shifted[:16].any())
    pattern = Mux(s["nan"], _NAN << 16, Mux(s["infinite"] | over, 0x7F800000, 0))
    return {
        "body": Mux(special, pattern, body)[:31],
        "up": up & ~special,
        "sign": s["sign"] & ~s["nan"],
    }


def _round(s: dict[str, Any]) -> dict[str, Any]:
    return {"result": Cat((s["body"] + s["up"])[:31], s["sign"])}
