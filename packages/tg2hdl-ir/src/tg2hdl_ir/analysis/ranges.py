"""Interval analysis: the smallest and largest value of every integer node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRBufLoad, IRConst, IRCounter, IROp, IRRegLoad, IRValue, IRVariable

__all__ = ["Interval", "RangeAnalysis", "bits_for"]

Interval: TypeAlias = tuple[int, int]


def bits_for(interval: Interval) -> tuple[int, bool]:
    """Narrowest integer format of an interval: width (bits, at least 1) and signedness."""
    low, high = interval
    if low >= 0:
        return max(1, high.bit_length()), False
    return max((-low - 1).bit_length(), high.bit_length() if high > 0 else 0) + 1, True


def _full(dtype: DType) -> Interval:
    return dtype.min_value, dtype.max_value


class RangeAnalysis:
    """Intervals of integer and bool values, memoized by node.

    Parameters
    ----------
    registers : mapping of int to interval
        Known intervals of registers; a register that is not listed has the full range of its type.
    buffers : mapping of int to interval
        Known intervals of the elements of buffers, likewise.
    values : mapping of IRValue to interval
        Intervals of single values, known from elsewhere.
    by_comparison : bool
        Whether the result of a selection is also bounded by the comparison that chose it, as in a clip.
    """

    def __init__(
        self,
        registers: Mapping[int, Interval] | None = None,
        buffers: Mapping[int, Interval] | None = None,
        values: Mapping[IRValue, Interval] | None = None,
        *,
        by_comparison: bool = False,
    ) -> None:
        self._by_comparison = by_comparison
        self._registers = dict(registers or {})
        self._buffers = dict(buffers or {})
        self._values = dict(values or {})
        self._memo: dict[IRValue, Interval] = {}

    def of(self, value: IRValue) -> Interval:
        """Interval of an integer or bool value; floats have the interval of their bit pattern."""
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self._memo:
                stack.pop()
                continue
            pending = [s for s in _operands(node) if s not in self._memo]
            if pending:
                stack.extend(pending)
                continue
            low, high = self._compute(node)
            known = self._values.get(node, (low, high))
            self._memo[node] = max(low, known[0]), min(high, known[1])
            stack.pop()
        return self._memo[value]

    def narrowed(self, values: Mapping[IRValue, Interval]) -> RangeAnalysis:
        """The same where some values are known to be in these intervals."""
        by_comparison = self._by_comparison
        return RangeAnalysis(self._registers, self._buffers, values, by_comparison=by_comparison)

    def _compute(self, value: IRValue) -> Interval:
        dtype = value.dtype
        if dtype.is_float:
            return 0, (1 << dtype.bit_width) - 1
        match value:
            case IRConst():
                return int(value.value), int(value.value)
            case IRVariable():
                return value.low, value.high
            case IRCounter():
                return 0, max(
                    0, (value.bound if isinstance(value.bound, int) else self.of(value.bound)[1]) - 1
                )
            case IRBufLoad():
                return self._load(value)
            case IRRegLoad():
                return self._registers.get(value.reg, _full(dtype))
            case IROp():
                return self._op(value)
        raise AssertionError(value)

    def _load(self, load: IRBufLoad) -> Interval:
        low, high = self._buffers.get(load.buf_idx, _full(load.dtype))
        if load.gate is not None and load.alt is not None:
            other = self._memo[load.alt]
            low, high = min(low, other[0]), max(high, other[1])
        return low, high

    def _taken(self, op: IROp, branch: int) -> Interval:
        """Interval of the selected operand: the comparison that chose it bounds it too."""
        value, condition = op.srcs[branch], op.srcs[0]
        if not isinstance(condition, IROp) or condition.op != "lt" or condition.srcs[0].dtype.is_float:
            return self._memo[value]
        less, greater = condition.srcs
        for x, other in ((less, greater), (greater, less)):
            low, high = self._memo[x]
            limit = self._memo[other]
            if (x is less) == (branch == 1):
                high = min(high, limit[1] - (branch == 1))
            else:
                low = max(low, limit[0] + (branch == 1))
            if low <= high and _keeps(value, x, (low, high)):
                return low, high
        return self._memo[value]

    def _op(self, op: IROp) -> Interval:
        full = _full(op.dtype)
        if any(s.dtype.is_float for s in op.srcs) and op.op != "where":
            return full
        ranges = [self._memo[s] for s in op.srcs]
        if self._by_comparison and op.op == "where" and not op.dtype.is_float:
            ranges = [ranges[0], self._taken(op, 1), self._taken(op, 2)]
        result = _interval(op.op, ranges, op.dtype)
        if result is None or result[0] < full[0] or result[1] > full[1]:
            return full
        return result


def _keeps(value: IRValue, source: IRValue, interval: Interval) -> bool:
    """Whether a value is another one, or a conversion of it that keeps all integers of an interval."""
    while not _same(value, source):
        if not isinstance(value, IROp) or value.op != "cast" or not value.dtype.is_int:
            return False
        low, high = _full(value.dtype)
        value = value.srcs[0]
        if not value.dtype.is_int or interval[0] < low or interval[1] > high:
            return False
    return True


def _same(a: IRValue, b: IRValue) -> bool:
    if isinstance(a, IRConst) and isinstance(b, IRConst):
        return (a.value, a.dtype) == (b.value, b.dtype)
    return a is b


def _operands(value: IRValue) -> tuple[IRValue, ...]:
    if isinstance(value, IROp):
        return value.srcs
    if isinstance(value, IRBufLoad):
        return () if value.gate is None or value.alt is None else (value.alt,)
    if isinstance(value, IRCounter) and not isinstance(value.bound, int):
        return (value.bound,)
    return ()


def _trunc_div(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _interval(op: str, r: list[Interval], dtype: DType) -> Interval | None:
    match op:
        case "add":
            return r[0][0] + r[1][0], r[0][1] + r[1][1]
        case "sub":
            return r[0][0] - r[1][1], r[0][1] - r[1][0]
        case "neg":
            return -r[0][1], -r[0][0]
        case "mul":
            products = [a * b for a in r[0] for b in r[1]]
            return min(products), max(products)
        case "mulacc":
            products = [a * b for a in r[0] for b in r[1]]
            return min(products) + r[2][0], max(products) + r[2][1]
        case "max":
            return max(r[0][0], r[1][0]), max(r[0][1], r[1][1])
        case "min":
            return min(r[0][0], r[1][0]), min(r[0][1], r[1][1])
        case "where":
            return min(r[1][0], r[2][0]), max(r[1][1], r[2][1])
        case "cast" if not dtype.is_bool:
            return r[0]
        case "div" if r[1][0] > 0 or r[1][1] < 0:
            quotients = [_trunc_div(a, b) for a in r[0] for b in r[1]]
            return min([*quotients, 0] if r[0][0] <= 0 <= r[0][1] else quotients), max(quotients)
        case "mod" if r[1][0] > 0:
            bound = r[1][1] - 1
            return max(-bound, r[0][0]) if r[0][0] < 0 else 0, min(bound, max(0, r[0][1]))
        case "shr" if r[1][0] >= 0:
            shifted = [a >> min(s, 64) for a in r[0] for s in r[1]]
            return min(shifted), max(shifted)
        case "shl" if r[1][0] >= 0 and r[1][1] <= 64:
            shifted = [a << s for a in r[0] for s in r[1]]
            return min(shifted), max(shifted)
        case "and" if not dtype.is_bool and (r[0][0] >= 0 or r[1][0] >= 0):
            highs = [x[1] for x in r if x[0] >= 0]
            return 0, min(highs)
        case "or" | "xor" if r[0][0] >= 0 and r[1][0] >= 0:
            return 0, (1 << max(r[0][1].bit_length(), r[1][1].bit_length())) - 1
    return None
