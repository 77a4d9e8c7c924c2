"""Which addresses an access takes: exactly for affine addresses, and at most for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.nodes import IRConst, IRCounter, IROp, IRValue, IRVariable, is_const

__all__ = ["Extreme", "affine_extremes", "gated_interval"]


class Extreme(NamedTuple):
    """Smallest or largest value of a form, and the variables for which it has that value."""

    value: int
    variables: Mapping[IRVariable, int]


def affine_extremes(form: Affine, affine: AffineAnalysis) -> tuple[Extreme, Extreme] | None:
    """Smallest and largest value over all runs of all loops; None where a bound is not affine in variables.

    The bound of a loop may follow a variable that is in the form too: ``n - 1 - i`` with ``i < n`` is never negative.

    Parameters
    ----------
    form : Affine
        Its loops may have run-time bounds.
    affine : AffineAnalysis
    """
    found = []
    for sign in (-1, 1):
        total = Affine(form.const)
        for symbol, coefficient in form.terms:
            last = Affine(0, ((symbol, 1),))
            if isinstance(symbol, IRCounter):
                if coefficient * sign < 0:
                    continue
                bound = Affine(symbol.bound) if isinstance(symbol.bound, int) else affine.of(symbol.bound)
                if bound is None:
                    return None
                last = bound.offset(-1)
            total = total.plus(last, coefficient)
        ends: dict[IRVariable, int] = {}
        for symbol, coefficient in total.terms:
            if isinstance(symbol, IRCounter):
                return None
            ends[symbol] = symbol.high if coefficient * sign > 0 else symbol.low
        found.append(Extreme(total.const + sum(c * ends[s] for s, c in total.terms if s in ends), ends))
    return found[0], found[1]


def gated_interval(
    address: IRValue, gate: IRValue | None, ranges: RangeAnalysis, affine: AffineAnalysis
) -> Interval:
    """An interval that holds every value of an address where a gate is true.

    Parameters
    ----------
    address : IRValue
        In elements.
    gate : IRValue or None
        Condition of the access; None is always true.
    ranges : RangeAnalysis
    affine : AffineAnalysis
    """
    form = affine.of(address)
    if form is None:
        return _narrowed(gate, ranges).of(address)
    low, high = Constraints(gate, ranges, affine, partly=True).interval(form)
    extremes = affine_extremes(form, affine)
    if extremes is None:
        return low, high
    return max(low, extremes[0].value), min(high, extremes[1].value)


def _narrowed(gate: IRValue | None, ranges: RangeAnalysis) -> RangeAnalysis:
    """Ranges where a gate is true: those of the values that it compares with a number."""
    known: dict[IRValue, Interval] = {}

    def note(value: IRValue, low: int, high: int) -> None:
        before = known.get(value, ranges.of(value))
        known[value] = max(before[0], low), min(before[1], high)
        if isinstance(value, IROp) and value.op == "cast" and not value.dtype.is_bool:
            source = value.srcs[0]
            least, most = (0, -1) if source.dtype.is_float else ranges.of(source)
            if value.dtype.min_value <= least <= most <= value.dtype.max_value:
                note(source, low, high)

    def collect(term: IRValue | None, *, holds: bool) -> None:
        match term:
            case IROp(op="and") if holds:
                for source in term.srcs:
                    collect(source, holds=True)
            case IROp(op="or") if not holds:
                for source in term.srcs:
                    collect(source, holds=False)
            case IROp(op="xor" | "ne", srcs=(inner, IRConst() as flag)) if is_const(flag, 1):
                collect(inner, holds=not holds)
            case IROp(op="lt", srcs=(a, b)) if not (a.dtype.is_float or a.dtype.is_bool):
                (low_a, high_a), (low_b, high_b) = ranges.of(a), ranges.of(b)
                if holds:
                    note(a, low_a, high_b - 1)
                    note(b, low_a + 1, high_b)
                else:
                    note(a, low_b, high_a)
                    note(b, low_b, high_a)

    collect(gate, holds=True)
    return ranges.narrowed(known)
