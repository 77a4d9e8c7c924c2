"""Intervals of affine values that a gate implies: they hold wherever the gate is true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis, Symbol
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.nodes import IRConst, IROp, IRValue, is_const

__all__ = ["Constraints"]


Terms: TypeAlias = tuple[tuple[Symbol, int], ...]


class Constraints:
    """Intervals of affine forms under the gate of an access.

    Parameters
    ----------
    gate : IRValue or None
        A conjunction of comparisons; other terms are ignored.
    partly : bool
        Use the known bounds of a sum also where a form has more of one of its terms, which is tighter. The choice of
        layouts first does without: the tighter bounds lead to other layouts, and to more cycles for some kernels.

    Attributes
    ----------
    conditions : list of Affine
        Forms that are at most zero wherever the gate is true.
    """

    def __init__(
        self, gate: IRValue | None, ranges: RangeAnalysis, affine: AffineAnalysis, *, partly: bool = False
    ) -> None:
        self._partly = partly
        self._ranges = ranges
        self._affine = affine
        self._known: dict[Terms, Interval] = {}
        self.conditions: list[Affine] = []
        self._collect(gate, holds=True)

    def interval(self, form: Affine) -> Interval:
        """Smallest and largest value of a form wherever the gate is true."""
        low = high = form.const
        rest = dict(form.terms)
        for terms, (known_low, known_high) in self._known.items():
            factor = _multiple(rest, terms)
            whole = all(rest.get(s) == factor * c for s, c in terms)
            if factor and len(terms) > 1 and (whole or self._partly):
                bounds = self._within(terms, known_low, known_high)
                low, high = low + min(factor * b for b in bounds), high + max(factor * b for b in bounds)
                for symbol, coefficient in terms:
                    rest[symbol] -= factor * coefficient
        for symbol, coefficient in rest.items():
            ends = [coefficient * b for b in self._symbol(symbol)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _within(self, terms: Terms, low: int, high: int) -> Interval:
        """Known interval of a sum, intersected with the one that follows from its counters."""
        bounds = [[c * b for b in self._symbol(s)] for s, c in terms]
        return max(low, sum(map(min, bounds))), min(high, sum(map(max, bounds)))

    def _symbol(self, symbol: Symbol) -> Interval:
        low, high = self._ranges.of(symbol)
        known = self._known.get(((symbol, 1),), (low, high))
        return max(low, known[0]), min(high, known[1])

    def _collect(self, gate: IRValue | None, *, holds: bool) -> None:
        match gate:
            case IROp(op="and") if holds:
                for source in gate.srcs:
                    self._collect(source, holds=True)
            case IROp(op="or") if not holds:
                for source in gate.srcs:
                    self._collect(source, holds=False)
            case IROp(op="xor" | "ne", srcs=(inner, IRConst() as flag)) if is_const(flag, 1):
                self._collect(inner, holds=not holds)
            case IROp(op="eq", srcs=(a, b)) if holds and not a.dtype.is_float:
                left, right = self._affine.of(a), self._affine.of(b)
                if left is not None and right is not None:
                    self.conditions += [left.plus(right, -1), right.plus(left, -1)]
            case IROp(op="lt", srcs=(a, b)) if not a.dtype.is_float:
                left, right = self._affine.of(a), self._affine.of(b)
                if left is not None and right is not None:
                    # left < right, or right <= left when the comparison is known to be false
                    difference = left.plus(right, -1) if holds else right.plus(left, -1)
                    self._below(difference, -1 if holds else 0)

    def _below(self, form: Affine, limit: int) -> None:
        """Note that ``form <= limit``."""
        self.conditions.append(form.offset(-limit))
        self._narrow(form.terms, None, limit - form.const)
        negative = form.scaled(-1)
        self._narrow(negative.terms, form.const - limit, None)

    def _narrow(self, terms: Terms, low: int | None, high: int | None) -> None:
        size = math.gcd(*(factor for _, factor in terms))
        if len(terms) == 1 and terms[0][1] < 0:
            size, low, high = -size, None if high is None else -high, None if low is None else -low
        if terms:
            terms, size = tuple((symbol, factor // size) for symbol, factor in terms), abs(size)
            low = None if low is None else -(-low // size)
            high = None if high is None else high // size
        before = self._known.get(terms, (-(1 << 62), 1 << 62))
        self._known[terms] = (
            before[0] if low is None else max(before[0], low),
            before[1] if high is None else min(before[1], high),
        )


def _multiple(terms: Mapping[Symbol, int], part: Terms) -> int:
    """How often all of `part` is contained in `terms`."""
    times = [terms[s] // c if terms.get(s, 0) * c > 0 else 0 for s, c in part]
    return min(times, default=0)
