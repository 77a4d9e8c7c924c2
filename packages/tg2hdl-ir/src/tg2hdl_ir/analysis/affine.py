"""Affine forms: integer values that are a constant plus multiples of counters and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import IRConst, IRCounter, IROp, IRValue, IRVariable

__all__ = ["Affine", "AffineAnalysis", "LinearAnalysis", "Symbol"]

Symbol: TypeAlias = IRCounter | IRVariable
"""Symbols of affine forms; in those of `LinearAnalysis` any value is one."""


@dataclass(frozen=True)
class Affine:
    """``const + sum(coefficient * symbol)``; terms have no zero coefficient and are ordered by symbol.

    Parameters
    ----------
    const : int
    terms : tuple of (symbol, int)
        Symbols and their coefficients.
    """

    const: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    def __str__(self) -> str:
        parts = [f"{c}*{_name(s)}" if c != 1 else _name(s) for s, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")

    def coefficient(self, symbol: Symbol) -> int:
        """Coefficient of a symbol, 0 when absent."""
        return next((c for s, c in self.terms if s is symbol), 0)

    @property
    def is_constant(self) -> bool:
        """Whether no symbol appears."""
        return not self.terms

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """``self + factor * other``.

        Parameters
        ----------
        other : Affine
        factor : int, default 1
            Multiplies all coefficients of `other`.
        """
        if not other.terms:
            return self.offset(factor * other.const)
        terms = dict(self.terms)
        for symbol, coefficient in other.terms:
            terms[symbol] = terms.get(symbol, 0) + factor * coefficient
        return Affine(self.const + factor * other.const, _ordered(terms))

    def scaled(self, factor: int) -> Affine:
        """``factor * self``."""
        return Affine(self.const * factor, tuple((s, c * factor) for s, c in self.terms) if factor else ())

    @property
    def values(self) -> tuple[IRValue, ...]:
        """Symbols that are neither counters nor variables: values of a `LinearAnalysis`."""
        return tuple(s for s, _ in self.terms if not isinstance(s, IRCounter | IRVariable))

    def offset(self, amount: int) -> Affine:
        """``self + amount``."""
        return Affine(self.const + amount, self.terms)


def _name(symbol: Symbol) -> str:
    return f"i{symbol.axis}" if isinstance(symbol, IRCounter) else symbol.name


def _ordered(terms: dict[Symbol, int]) -> tuple[tuple[Symbol, int], ...]:
    kept = [(s, c) for s, c in terms.items() if c]
    return tuple(sorted(kept, key=lambda t: (isinstance(t[0], IRVariable), _order(t[0]))))


def _order(symbol: Symbol) -> tuple[int, str]:
    return (symbol.axis, "") if isinstance(symbol, IRCounter) else (0, getattr(symbol, "name", ""))


class AffineAnalysis:
    """Affine forms of values, memoized by node; exact, since their range excludes overflow."""

    def __init__(self, ranges: RangeAnalysis | None = None) -> None:
        self._ranges = ranges or RangeAnalysis()
        self._memo: dict[IRValue, Affine | None] = {}

    def of(self, value: IRValue) -> Affine | None:
        """Affine form of an integer value, or None."""
        if value not in self._memo:
            self._memo[value] = self._compute(value)
        return self._memo[value]

    def _compute(self, value: IRValue) -> Affine | None:
        if value.dtype.is_float:
            return None
        match value:
            case IRConst():
                return Affine(int(value.value))
            case IRCounter() | IRVariable():
                return Affine(0, ((value, 1),))
            case IROp(op="cast") if not value.dtype.is_bool and not value.srcs[0].dtype.is_float:
                low, high = self._ranges.of(value.srcs[0])
                fits = value.dtype.min_value <= low and high <= value.dtype.max_value
                return self.of(value.srcs[0]) if fits else None
            case IROp():
                return self._op(value)
        return None

    def _op(self, value: IROp) -> Affine | None:
        if value.op not in ("add", "sub", "mul", "shl", "neg", "mulacc") or value.dtype.is_bool:
            return None
        forms = []
        for source in value.srcs:
            form = self.of(source)
            if form is None:
                return None
            forms.append(form)
        result = _combine(value.op, forms)
        return result if result is not None and self._fits(result, value) else None

    def _fits(self, form: Affine, value: IROp) -> bool:
        low = high = form.const
        for symbol, coefficient in form.terms:
            bounds = [coefficient * b for b in self._ranges.of(symbol)]
            low, high = low + min(bounds), high + max(bounds)
        return value.dtype.min_value <= low and high <= value.dtype.max_value


def _combine(op: str, forms: list[Affine]) -> Affine | None:
    match op:
        case "add":
            return forms[0].plus(forms[1])
        case "sub":
            return forms[0].plus(forms[1], -1)
        case "neg":
            return forms[0].scaled(-1)
        case "shl":
            return (
                forms[0].scaled(1 << forms[1].const)
                if forms[1].is_constant and 0 <= forms[1].const < 64
                else None
            )
    a, b = forms[0], forms[1]
    product = a.scaled(b.const) if b.is_constant else b.scaled(a.const) if a.is_constant else None
    if op == "mul" or product is None:
        return product
    return product.plus(forms[2])


class LinearAnalysis(AffineAnalysis):
    """Forms in which each value that is not affine, such as a quotient, is a symbol."""

    def _compute(self, value: IRValue) -> Affine | None:
        form = super()._compute(value)
        return Affine(0, ((value, 1),)) if form is None else form  # type: ignore[arg-type]

    def mixed(self, value: IRValue) -> Affine | None:
        """Form of a value that moves with counters beside other values, such as a chosen row; None for all others.

        Parameters
        ----------
        value : IRValue
            An integer.
        """
        form = self.of(value)
        counted = form is not None and any(isinstance(s, IRCounter) for s, _ in form.terms)
        return form if form is not None and counted and form.values else None
