"""Addresses that are affine wherever their access happens, although they are not for all values of the counters.

tinygrad simplifies the address of a padded window with remainders and divisions, which its gate makes superfluous: with
``(i + 7) & 7`` and the gate ``0 < i`` for ``i < 8``, the address is ``i - 1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IROp,
    IRStatement,
    IRValue,
    KernelIR,
    const_int,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["simplify_gated_addresses", "value_of_form", "with_addresses"]


@ir_pass(
    "gated-addresses",
    "addresses that are affine wherever their gate is true become affine",
    term="induction variable simplification",
)
def simplify_gated_addresses(kernel: KernelIR) -> KernelIR:
    """Replace the addresses of gated accesses that are affine under the gate."""
    folder = Folder()
    found: dict[IRStatement, IRValue] = {}
    for access in kernel.loop_tree.statements():
        if not isinstance(access, IRBufLoad | IRBufStore) or access.gate is None:
            continue
        if folder.affine.of(access.addr) is None:
            form = _UnderGate(access.gate, folder.ranges, folder.affine).of(access.addr)
            if form is not None:
                found[access] = value_of_form(form, access.addr.dtype, folder)
    return with_addresses(kernel, found, folder) if found else kernel


def with_addresses(kernel: KernelIR, addresses: Mapping[IRStatement, IRValue], folder: Folder) -> KernelIR:
    """A kernel in which some accesses have another address.

    Parameters
    ----------
    kernel : KernelIR
    addresses : mapping of IRStatement to IRValue
        By the load or store of `kernel`.
    folder : Folder
        Simplifies the rest of the kernel.
    """

    def changed(statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if statement in addresses and isinstance(rebuilt, IRBufLoad | IRBufStore):
            return replace(rebuilt, addr=addresses[statement])
        return rebuilt

    return replace(kernel, loop_tree=Rewriter(folder, change=changed).loop(kernel.loop_tree))


def value_of_form(form: Affine, dtype: DType, folder: Folder) -> IRValue:
    """The value of an affine form.

    Parameters
    ----------
    form : Affine
        Constant plus multiples of counters and variables.
    dtype : DType
    folder : Folder
        Simplifies the ops.
    """
    total: IRValue = const_int(form.const, dtype)
    for symbol, coefficient in form.terms:
        counter = folder.op("cast", dtype, symbol)
        total = folder.op(
            "add", dtype, folder.op("mul", dtype, counter, const_int(coefficient, dtype)), total
        )
    return total


class _Quotient(NamedTuple):
    """``form`` divided by a positive number, rounded down."""

    form: Affine
    divisor: int


class _UnderGate:
    """Affine forms of integer values wherever a gate is true."""

    def __init__(self, gate: IRValue, ranges: RangeAnalysis, affine: AffineAnalysis) -> None:
        self.affine = affine
        self.always = Constraints(None, ranges, affine)
        self.gated = Constraints(gate, ranges, affine, partly=True)

    def of(self, value: IRValue) -> Affine | None:
        """Affine form of a value."""
        found = self._quotient(value)
        return found.form if found is not None and found.divisor == 1 else None

    def _quotient(self, value: IRValue) -> _Quotient | None:
        whole = self.affine.of(value)
        if whole is not None:
            return _Quotient(whole, 1)
        if not isinstance(value, IROp) or value.dtype.is_float or value.dtype.is_bool:
            return None
        found = self._op(value)
        if found is None or not self._fits(found, value.dtype):
            return None
        low, high = _interval(found, self.gated)
        return _Quotient(Affine(low), 1) if low == high else found

    def _fits(self, found: _Quotient, dtype: DType) -> bool:
        """Whether the value never overflows, gate or not."""
        low, high = _interval(found, self.always)
        return dtype.min_value <= low and high <= dtype.max_value

    def _op(self, value: IROp) -> _Quotient | None:
        a = self._quotient(value.srcs[0])
        if a is None:
            return None
        constant = value.srcs[1] if len(value.srcs) > 1 and isinstance(value.srcs[1], IRConst) else None
        number = None if constant is None else int(constant.value)
        match value.op:
            case "add" | "sub":
                b = self._quotient(value.srcs[1])
                return None if b is None else _sum(a, b, 1 if value.op == "add" else -1)
            case "shr" if number is not None and 0 <= number < value.dtype.bit_width:
                return _Quotient(a.form, a.divisor << number)
            case "div" if number is not None and number > 0 and _interval(a, self.gated)[0] >= 0:
                return _Quotient(a.form, a.divisor * number)
            case "shl" | "mul" if number is not None and number >= 0 and a.divisor == 1:
                return _Quotient(a.form.scaled(1 << number if value.op == "shl" else number), 1)
            case "and" if number is not None and number > 0 and number & (number + 1) == 0:
                return self._remainder(a, number + 1)
            case "mod" if number is not None and number > 0 and _interval(a, self.gated)[0] >= 0:
                return self._remainder(a, number)
        return None

    def _remainder(self, a: _Quotient, size: int) -> _Quotient | None:
        """Distance from the multiple of `size` below, where it is always the same multiple."""
        low, high = (bound // size for bound in _interval(a, self.gated))
        return _Quotient(a.form.offset(-low * size * a.divisor), a.divisor) if low == high else None


def _interval(quotient: _Quotient, known: Constraints) -> Interval:
    low, high = known.interval(quotient.form)
    return low // quotient.divisor, high // quotient.divisor


def _sum(a: _Quotient, b: _Quotient, sign: int) -> _Quotient | None:
    """Sum or difference with one integral operand, which moves into the quotient of the other."""
    if b.divisor > 1 and (a.divisor > 1 or sign < 0):
        return None
    if b.divisor > 1:
        return _Quotient(b.form.plus(a.form.scaled(b.divisor)), b.divisor)
    return _Quotient(a.form.plus(b.form.scaled(a.divisor), sign), a.divisor)
