"""Counters that are divided by constants: the loop is split there, so that quotient and remainder are counters too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRConst, IRCounter, IROp, IRValue, KernelIR, const_int, operands
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.split import split_axis

__all__ = ["split_loops"]

MAX_SPLITS = 16


@ir_pass("split-loops", "counters that are divided by constants become two nested loops", term="strip-mining")
def split_loops(kernel: KernelIR) -> KernelIR:
    """Split loops until no counter is divided by a divisor of its bound; divisions of sums are simplified too.

    ``c // 3`` and ``c % 3`` of a counter of 9 steps become the counters of two loops of 3 steps.
    """
    for _ in range(MAX_SPLITS):
        if not any(True for _ in _divisions(kernel)):
            return kernel
        kernel = _simplified(kernel)
        found = next((f for f in map(_split_of, _divisions(kernel)) if f is not None), None)
        if found is None:
            return kernel
        kernel = split_axis(kernel, *found)
    return kernel


def _divisions(kernel: KernelIR) -> Iterator[IROp]:
    """Integer divisions and remainders by a positive constant."""
    seen: set[IRValue] = set()
    stack: list[IRValue] = [v for s in kernel.loop_tree.statements() for v in operands(s)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(operands(node))
        if isinstance(node, IROp) and _divisor(node) is not None:
            yield node


def _divisor(node: IROp) -> int | None:
    if node.op not in ("div", "mod") or not node.dtype.is_int or not isinstance(node.srcs[1], IRConst):
        return None
    number = int(node.srcs[1].value)
    return number if number > 0 else None


def _split_of(node: IROp) -> tuple[int, int] | None:
    form, divisor = Folder().affine.of(node.srcs[0]), _divisor(node)
    assert divisor is not None, "filtered by _divisions"
    if form is None or form.const or len(form.terms) != 1:
        return None
    symbol, coefficient = form.terms[0]
    if coefficient != 1 or not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
        return None
    fits = 1 < divisor < symbol.bound and symbol.bound % divisor == 0
    return (symbol.axis, divisor) if fits else None


def _simplified(kernel: KernelIR) -> KernelIR:
    folder = Folder()
    rewriter = Rewriter(folder, replace=_Simplifier(folder).replace)
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))


class _Simplifier:
    """Takes multiples of the divisor, and of factors of it, out of divided sums that are not negative."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def replace(self, node: IROp) -> IRValue | None:
        divisor = _divisor(node)
        if divisor is None:
            return None
        form = self.folder.affine.of(node.srcs[0])
        if form is None or self._interval(form)[0] < 0:
            return None
        parts = self._divided(form, divisor)
        if parts is None:
            return None
        quotient, remainder = parts
        return self._value(quotient if node.op == "div" else remainder, node.dtype)

    def _interval(self, form: Affine) -> tuple[int, int]:
        low = high = form.const
        for symbol, coefficient in form.terms:
            bounds = [coefficient * b for b in self.folder.ranges.of(symbol)]
            low, high = low + min(bounds), high + max(bounds)
        return low, high

    def _within(self, form: Affine, limit: int) -> bool:
        low, high = self._interval(form)
        return low >= 0 and high < limit

    def _divided(self, form: Affine, divisor: int) -> tuple[_DividedSum, _DividedSum] | None:
        """Quotient and remainder; None when nothing can be taken out."""
        multiples, rest = _parted(form, divisor)
        if self._within(rest, divisor):
            return _DividedSum(multiples), _DividedSum(rest)
        factors = {math.gcd(divisor, abs(c)) for _, c in rest.terms}
        for factor in sorted(factors - {1, divisor}, reverse=True):
            coarse, fine = _parted(rest, factor)
            if self._within(fine, factor) and self._interval(coarse)[0] >= 0:
                quotient = _DividedSum(multiples, (1, "div", coarse, divisor // factor))
                return quotient, _DividedSum(fine, (factor, "mod", coarse, divisor // factor))
        if (multiples.terms or multiples.const) and self._interval(rest)[0] >= 0:
            return _DividedSum(multiples, (1, "div", rest, divisor)), _DividedSum(
                Affine(0), (1, "mod", rest, divisor)
            )
        return None

    def _value(self, total: _DividedSum, dtype: DType) -> IRValue:
        value = self._affine(total.form, dtype)
        if total.division is None:
            return value
        factor, op, dividend, divisor = total.division
        node = self.folder.op(op, dtype, self._affine(dividend, dtype), const_int(divisor, dtype))
        if isinstance(node, IROp):
            node = self.replace(node) or node
        scaled = self.folder.op("mul", dtype, node, const_int(factor, dtype))
        return self.folder.op("add", dtype, value, scaled)

    def _affine(self, form: Affine, dtype: DType) -> IRValue:
        value: IRValue = const_int(form.const, dtype)
        for symbol, coefficient in form.terms:
            counter = self.folder.op("cast", dtype, symbol)
            value = self.folder.op(
                "add", dtype, value, self.folder.op("mul", dtype, counter, const_int(coefficient, dtype))
            )
        return value


class _DividedSum:
    """``form``, and with `division` = (factor, op, dividend, divisor) also ``factor * op(dividend, divisor)``."""

    def __init__(self, form: Affine, division: tuple[int, str, Affine, int] | None = None) -> None:
        self.form = form
        self.division = division


def _parted(form: Affine, divisor: int) -> tuple[Affine, Affine]:
    """``(q, r)`` with ``form == divisor * q + r`` where `r` has no term that is a multiple of the divisor."""
    quotient, rest = divmod(form.const, divisor)
    multiples = tuple((s, c // divisor) for s, c in form.terms if c % divisor == 0)
    return Affine(quotient, multiples), Affine(rest, tuple(t for t in form.terms if t[1] % divisor))
