"""The operations of the vector unit: each has one entry, with its meaning in C, in numpy and in hardware.

To add one, add an entry: the simulator, the reference, the assembler, the page of instructions and the hardware follow.
In C and numpy, `a`, `b` and `c` are int32 (`ua`, `ub`, `uc` the same bits unsigned, `fa`, `fb` as FP32), and `k` is the
parameter of the instruction.  `c` is the old value of the destination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["BY_NAME", "PARTS", "VECTOR_OPS", "VectorOp", "uses_zero_point"]

#: Parts that a machine may have, as `Config` names them.
PARTS = ("float", "functions", "divide")

Rows = Any


@dataclass(frozen=True)
class VectorOp:
    """One operation of the vector unit.

    Parameters
    ----------
    name : str
        Mnemonic.
    summary : str
        Its function, for the page of instructions.
    c : str
        The result of one lane as a C expression of type int32_t or uint32_t; empty where Python evaluates `numpy`.
    numpy : callable
        The same on int32 arrays: ``numpy(a, b, c, k)``.
    hardware : callable, optional
        Builds it for one lane: takes a `hardware.alu.Alu` (`a`, `b`, `c` are signed, `ua` and `ub` unsigned, `k`) and
        returns up to 32 bits.  Operations without it are built from the units of the lane, by `hardware.alu.CONTROLS`.
    reads_b, reads_c, uses_k : bool
        Whether it has a second operand, the old destination, a parameter.
    part : str
        Option of the machine that it needs: ``float``, ``functions``, ``divide`` or ``zero_points``; empty for none.
    """

    name: str
    summary: str
    c: str
    numpy: Callable[[Rows, Rows, Rows, int], Rows]
    hardware: Callable[[Any], Any] | None = None
    reads_b: bool = True
    reads_c: bool = False
    uses_k: bool = False
    part: str = ""

    @property
    def kind(self) -> int:
        """Which way its rows take: 0 with ReLU and reduction, 1 floats, 2 functions and division."""
        return {"": 0, "zero_points": 0, "float": 1}.get(self.part, 2)

    @property
    def is_long(self) -> bool:
        """Whether its rows take a longer way, without ReLU and reduction."""
        return self.kind > 0


def _u(x: Rows) -> Rows:
    return x.view(np.uint32)


def _f(x: Rows) -> Rows:
    return x.view(np.float32)


def _truth(x: Rows) -> Rows:
    return x.astype(np.int32)


def _bits(x: Rows) -> Rows:
    """FP32 as int32, with the one NaN that the cores return."""
    bits = x.astype(np.float32).view(np.int32).copy()
    bits[np.isnan(x)] = 0x7FC00000
    return bits


def _float(f: Callable[[Rows, Rows], Rows]) -> Callable[[Rows, Rows, Rows, int], Rows]:
    def evaluate(a: Rows, b: Rows, c: Rows, k: int) -> Rows:
        with np.errstate(all="ignore"):
            return _bits(f(_f(a), _f(b)))

    return evaluate


def _float_to_int(x: Rows) -> Rows:
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    return np.fmod(np.trunc(finite), 2.0**32).astype(np.int64).astype(np.uint32).view(np.int32)


def _divided(a: Rows, b: Rows, what: int) -> Rows:
    """Quotient (0) or remainder (1), toward zero; by zero they are 0 and a."""
    x, y = a.astype(np.int64), b.astype(np.int64)
    safe = np.where(y == 0, 1, y)
    quotient = np.where(y == 0, 0, np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe)))
    return (quotient if what == 0 else x - quotient * y).astype(np.uint32).view(np.int32)


def _function(name: str) -> Callable[[Rows, Rows, Rows, int], Rows]:
    def evaluate(a: Rows, b: Rows, c: Rows, k: int) -> Rows:
        # The tables of the cores; Amaranth is imported only when one is evaluated.
        from tg2hdl_fp32 import FP32
        from tg2hdl_fp32.models import MODELS

        return MODELS[name](_u(a), FP32).astype(np.uint32).view(np.int32)

    return evaluate


def _requantize(a: Rows, b: Rows, c: Rows, k: int) -> Rows:
    product = a.astype(np.int64) * (b.astype(np.int64) & 0xFFFF)
    rounded = (product + ((1 << k) >> 1)) >> k
    return np.clip(rounded, -128, 127).astype(np.int32)


def _requantize_to_zero_point(a: Rows, b: Rows, c: Rows, k: int) -> Rows:
    rounded = (a.astype(np.int64) * (b.astype(np.int64) & 0xFFFF) + ((1 << k) >> 1)) >> k
    zero = (b >> 16).astype(np.int8)
    return np.clip(rounded + zero, -128, 127).astype(np.int32)


def _bytes(a: Rows, b: Rows, f: Callable[[Rows, Rows], Rows]) -> Rows:
    x, y = (v[..., None].view(np.int8).astype(np.int16) for v in (a, b))
    packed = np.ascontiguousarray(np.clip(f(x, y), -128, 127).astype(np.int8))
    return packed.view(np.int32)[..., 0]


def _count_leading(a: Rows) -> Rows:
    return _truth(32 - np.frexp(_u(a).astype(np.float64))[1])


def _popcount(a: Rows) -> Rows:
    return _truth(sum((_u(a) >> np.uint32(i)) & np.uint32(1) for i in range(32)))


def _fp(
    name: str, summary: str, c: str, numpy: Callable[[Rows, Rows, Rows, int], Rows], *, reads_b: bool = True
) -> VectorOp:
    return VectorOp(name, summary, c, numpy, reads_b=reads_b, part="float")


def _bytes_in_c(expression: str) -> str:
    return f"BYTES(({expression}))"


VECTOR_OPS: tuple[VectorOp, ...] = (
    VectorOp("copy", "a", "a", lambda a, b, c, k: a, reads_b=False),
    VectorOp("add", "a + b, wraps", "ua + ub", lambda a, b, c, k: a + b),
    VectorOp("sub", "a - b, wraps", "ua - ub", lambda a, b, c, k: a - b),
    VectorOp("rsub", "b - a, wraps", "ub - ua", lambda a, b, c, k: b - a),
    VectorOp("mul", "a * b, wraps", "ua * ub", lambda a, b, c, k: a * b),
    VectorOp("max", "larger, signed", "a > b ? a : b", lambda a, b, c, k: np.maximum(a, b)),
    VectorOp("min", "smaller, signed", "a < b ? a : b", lambda a, b, c, k: np.minimum(a, b)),
    VectorOp(
        "maxu",
        "larger, unsigned",
        "ua > ub ? ua : ub",
        lambda a, b, c, k: np.maximum(_u(a), _u(b)).view(np.int32),
    ),
    VectorOp(
        "minu",
        "smaller, unsigned",
        "ua < ub ? ua : ub",
        lambda a, b, c, k: np.minimum(_u(a), _u(b)).view(np.int32),
    ),
    VectorOp("and", "bitwise and", "ua & ub", lambda a, b, c, k: a & b),
    VectorOp("or", "bitwise or", "ua | ub", lambda a, b, c, k: a | b),
    VectorOp("xor", "bitwise exclusive or", "ua ^ ub", lambda a, b, c, k: a ^ b),
    VectorOp(
        "shl", "a << (b mod 32)", "ua << (ub & 31)", lambda a, b, c, k: (_u(a) << (_u(b) & 31)).view(np.int32)
    ),
    VectorOp(
        "shr",
        "a >> (b mod 32), unsigned",
        "ua >> (ub & 31)",
        lambda a, b, c, k: (_u(a) >> (_u(b) & 31)).view(np.int32),
    ),
    VectorOp("sra", "a >> (b mod 32), signed", "a >> (ub & 31)", lambda a, b, c, k: a >> (b & 31)),
    VectorOp("lt", "1 if a < b, signed, else 0", "a < b", lambda a, b, c, k: _truth(a < b)),
    VectorOp("ltu", "1 if a < b, unsigned, else 0", "ua < ub", lambda a, b, c, k: _truth(_u(a) < _u(b))),
    VectorOp("eq", "1 if a = b else 0", "a == b", lambda a, b, c, k: _truth(a == b)),
    VectorOp("ne", "1 if a differs from b else 0", "a != b", lambda a, b, c, k: _truth(a != b)),
    VectorOp(
        "select",
        "a where the old destination is not 0, else b",
        "c ? a : b",
        lambda a, b, c, k: np.where(c != 0, a, b),
        reads_c=True,
    ),
    VectorOp(
        "mac", "old destination + a * b, wraps", "uc + ua * ub", lambda a, b, c, k: c + a * b, reads_c=True
    ),
    VectorOp(
        "requant",
        "a * (b mod 2^16) / 2^k, rounded half up, clamped to int8",
        "requantize(a, ub, k)",
        _requantize,
        uses_k=True,
    ),
    VectorOp(
        "abs",
        "magnitude; that of -2^31 wraps",
        "a < 0 ? 0u - ua : ua",
        lambda a, b, c, k: np.where(a < 0, -a, a),
        reads_b=False,
    ),
    VectorOp(
        "clz",
        "leading zeros; 32 for 0",
        "a ? __builtin_clz(ua) : 32",
        lambda a, b, c, k: _count_leading(a),
        reads_b=False,
    ),
    VectorOp("popcount", "ones", "__builtin_popcount(ua)", lambda a, b, c, k: _popcount(a), reads_b=False),
    VectorOp(
        "add8", "four int8 sums, saturated", _bytes_in_c("x + y"), lambda a, b, c, k: _bytes(a, b, np.add)
    ),
    VectorOp(
        "sub8",
        "four int8 differences, saturated",
        _bytes_in_c("x - y"),
        lambda a, b, c, k: _bytes(a, b, np.subtract),
    ),
    VectorOp(
        "max8", "four larger int8", _bytes_in_c("x > y ? x : y"), lambda a, b, c, k: _bytes(a, b, np.maximum)
    ),
    VectorOp(
        "min8", "four smaller int8", _bytes_in_c("x < y ? x : y"), lambda a, b, c, k: _bytes(a, b, np.minimum)
    ),
    _fp("fadd", "a + b, nearest even", "from_float(fa + fb)", _float(lambda x, y: x + y)),
    _fp("fsub", "a - b, nearest even", "from_float(fa - fb)", _float(lambda x, y: x - y)),
    _fp("frsub", "b - a, nearest even", "from_float(fb - fa)", _float(lambda x, y: y - x)),
    _fp("fmul", "a * b, nearest even", "from_float(fa * fb)", _float(lambda x, y: x * y)),
    VectorOp(
        "fdiv", "a / b, nearest even", "from_float(fa / fb)", _float(lambda x, y: x / y), part="functions"
    ),
    VectorOp(
        "frdiv", "b / a, nearest even", "from_float(fb / fa)", _float(lambda x, y: y / x), part="functions"
    ),
    _fp("fmax", "b if b > a, else a", "fb > fa ? b : a", lambda a, b, c, k: np.where(_f(b) > _f(a), b, a)),
    _fp("fmin", "b if b < a, else a", "fb < fa ? b : a", lambda a, b, c, k: np.where(_f(b) < _f(a), b, a)),
    _fp("flt", "1 if a < b, else 0", "fa < fb", lambda a, b, c, k: _truth(_f(a) < _f(b))),
    _fp("feq", "1 if a = b, else 0", "fa == fb", lambda a, b, c, k: _truth(_f(a) == _f(b))),
    _fp(
        "fne",
        "1 if a differs from b or one is NaN, else 0",
        "fa != fb",
        lambda a, b, c, k: _truth(_f(a) != _f(b)),
    ),
    VectorOp(
        "fsqrt",
        "root, nearest even",
        "from_float(sqrtf(fa))",
        _float(lambda x, y: np.sqrt(x)),
        reads_b=False,
        part="functions",
    ),
    _fp("ftrunc", "toward zero", "from_float(truncf(fa))", _float(lambda x, y: np.trunc(x)), reads_b=False),
    _fp(
        "i2f",
        "int32 as FP32, nearest even",
        "from_float((float)a)",
        lambda a, b, c, k: _bits(a.astype(np.float32)),
        reads_b=False,
    ),
    _fp(
        "u2f",
        "uint32 as FP32, nearest even",
        "from_float((float)ua)",
        lambda a, b, c, k: _bits(_u(a).astype(np.float32)),
        reads_b=False,
    ),
    _fp(
        "f2i",
        "toward zero, modulo 2^32; 0 for NaN and infinities",
        "float_to_int(fa)",
        lambda a, b, c, k: _float_to_int(_f(a)),
        reads_b=False,
    ),
    VectorOp("fexp2", "2^a, within 1 ULP", "", _function("exp2"), reads_b=False, part="functions"),
    VectorOp(
        "flog2", "logarithm to base 2, within 1 ULP", "", _function("log2"), reads_b=False, part="functions"
    ),
    VectorOp("fsin", "sine, within 1 ULP", "", _function("sin"), reads_b=False, part="functions"),
    VectorOp(
        "div",
        "a / b toward zero; 0 for b = 0",
        "divided(a, b)",
        lambda a, b, c, k: _divided(a, b, 0),
        part="divide",
    ),
    VectorOp(
        "mod",
        "a - (a / b) * b; a for b = 0",
        "ua - divided(a, b) * ub",
        lambda a, b, c, k: _divided(a, b, 1),
        part="divide",
    ),
    VectorOp(
        "divu",
        "a / b, unsigned; 0 for b = 0",
        "ub ? ua / ub : 0",
        lambda a, b, c, k: _divided(_u(a), _u(b), 0),
        part="divide",
    ),
    VectorOp(
        "modu",
        "a mod b, unsigned; a for b = 0",
        "ub ? ua % ub : ua",
        lambda a, b, c, k: _divided(_u(a), _u(b), 1),
        part="divide",
    ),
    VectorOp(
        "requantz",
        "as requant before it is clamped, plus bits 23:16 of b as int8; then clamped to int8",
        "requantize(a, ub, k, (int8_t)(ub >> 16))",
        _requantize_to_zero_point,
        uses_k=True,
        part="zero_points",
    ),
)
"""In the order of their codes."""


def uses_zero_point(op: VectorOp) -> bool:
    """Whether only machines with zero points have an operation; the decoders of others do not know it."""
    return op.part == "zero_points"


BY_NAME = {op.name: op for op in VECTOR_OPS}
