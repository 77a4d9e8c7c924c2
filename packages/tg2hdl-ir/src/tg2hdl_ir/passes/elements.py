"""The elements of a buffer that holds all values of an expression: by its counters, or by an address that it reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.golden.kernel import evaluate
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.fold import FALSE, TRUE, Folder
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import const_int, operands, values_below

__all__ = ["Elements", "distinct_values", "elements_of", "evaluated"]

MAX_ITERATIONS = 1 << 20
"""Iterations whose addresses are compared."""


@dataclass(frozen=True, eq=False)
class Elements:
    """How the buffer of an expression is filled and read.

    Parameters
    ----------
    counters : tuple of IRCounter
        Loops that fill it, in the order of its elements.
    values : mapping of IRValue to IRValue
        Values of the kernel, in these loops.
    addresses : mapping of IRBufLoad to IRValue
        Addresses of loads in these loops, where they have no gate; other loads have those of the kernel.
    address : IRValue
        Element to read, in the kernel.
    gate, alternative : IRValue, optional
        Condition under which it is read, and the value otherwise, if that is known.
    """

    counters: tuple[IRCounter, ...]
    values: Mapping[IRValue, IRValue]
    address: IRValue
    addresses: Mapping[IRBufLoad, IRValue] = field(default_factory=dict)
    gate: IRValue | None = None
    alternative: IRValue | None = None

    @property
    def depth(self) -> int:
        """Number of elements."""
        return math.prod(c.bound for c in self.counters if isinstance(c.bound, int))


def elements_of(kernel: KernelIR, root: IROp, loads: Sequence[IRBufLoad]) -> Elements:
    """The fewest elements for all values of an expression of loads and counters.

    Parameters
    ----------
    kernel : KernelIR
    root : IROp
        The expression.
    loads : sequence of IRBufLoad
        Loads that it reads.
    """
    found = _fewest(kernel, root, loads)
    known = found.gate is None or found.alternative is not None
    return found if known else _by_counter(kernel, root, loads, AffineAnalysis())


def distinct_values(kernel: KernelIR, root: IROp, loads: Sequence[IRBufLoad]) -> int:
    """Most values that an expression of loads and counters has in one run, without those in padding.

    Parameters
    ----------
    kernel : KernelIR
    root : IROp
        The expression.
    loads : sequence of IRBufLoad
        The loads in it.
    """
    return _fewest(kernel, root, loads).depth


def _fewest(kernel: KernelIR, root: IROp, loads: Sequence[IRBufLoad]) -> Elements:
    affine = AffineAnalysis()
    by_counter = _by_counter(kernel, root, loads, affine)
    if by_counter.depth <= min(kernel.buffer(load.buf_idx).depth for load in loads):
        return by_counter
    by_address = _by_address(kernel, root, loads, affine)
    return by_address if by_address is not None and by_address.depth < by_counter.depth else by_counter


def _by_counter(kernel: KernelIR, root: IROp, loads: Sequence[IRBufLoad], affine: AffineAnalysis) -> Elements:
    """An element for each value of the counters, laid out as the largest buffer."""
    form = affine.of(max(loads, key=lambda load: kernel.buffer(load.buf_idx).depth).addr)
    used = [v for v in values_below((root,)) if isinstance(v, IRCounter)]
    used.sort(key=lambda c: (-abs(form.coefficient(c)) if form is not None else 0, c.depth))
    own = _counters([c.bound for c in used if isinstance(c.bound, int)])
    return Elements(own, dict(zip(used, own, strict=True)), flat_address(used))


def _counters(bounds: Sequence[int]) -> tuple[IRCounter, ...]:
    return tuple(IRCounter(bound, n, n) for n, bound in enumerate(bounds))


def _by_address(
    kernel: KernelIR, root: IROp, loads: Sequence[IRBufLoad], affine: AffineAnalysis
) -> Elements | None:
    """An element for each one of the largest buffer; None where the others do not follow from its address.

    The address is a number of mixed radix: each digit is one of the loops, and each other address is a sum of
    multiples of digits.  The gate of one load implies those of all; the value where it is false may be unknown.
    """
    gate = max((load.gate for load in loads), key=lambda gate: len(_conditions(gate)))
    needed = _conditions(gate)
    forms = [form for load in loads if (form := affine.of(load.addr)) is not None]
    implied = all(_conditions(load.gate) <= needed for load in loads)
    if not implied or len(forms) < len(loads) or not _is_plain(root, needed):
        return None
    alternative = None if gate is None else _alternative(root, needed, loads)
    depths = [kernel.buffer(load.buf_idx).depth for load in loads]
    rising = [all(coefficient > 0 for _, coefficient in form.terms) for form in forms]
    main = max(range(len(loads)), key=lambda n: (depths[n], rising[n]))
    digits = _digits(forms[main], forms)
    if digits is None:
        return None
    units, factors = digits
    if len(units) == 1:
        if any(factor != (1,) for factor in factors):
            return None
        # Where the gate is true, every address is inside its buffer.
        shifts = [form.const - forms[main].const for form in forms]
        low, high = _range(forms[main])
        low = max(low, *(-shift for shift in shifts))
        bounds = [min(high + 1, *(d - s for s, d in zip(shifts, depths, strict=True))) - low]
        starts: Sequence[int] | None = [low + shift for shift in shifts]
    else:
        low = 0
        bounds = [-(-depths[main] // units[0]), *(a // b for a, b in pairwise(units))]
        starts = _starts(loads, gate, main, units, factors)
    if starts is None or bounds[0] <= 0 or not _are_inside(starts, factors, bounds, depths):
        return None
    own = _counters(bounds)
    sums = [_sum(start, factor, own) for start, factor in zip(starts, factors, strict=True)]
    place = loads[main].addr
    address = Folder().op("sub", place.dtype, place, const_int(low, place.dtype)) if low else place
    values: dict[IRValue, IRValue] = dict.fromkeys(needed, TRUE)
    return Elements(own, values, address, dict(zip(loads, sums, strict=True)), gate, alternative)


def _conditions(gate: IRValue | None) -> frozenset[IRValue]:
    """Conjuncts of a gate."""
    if isinstance(gate, IROp) and gate.op == "and" and gate.dtype.is_bool:
        return frozenset().union(*map(_conditions, gate.srcs))
    return frozenset() if gate is None else frozenset((gate,))


def _alternative(root: IROp, needed: frozenset[IRValue], loads: Sequence[IRBufLoad]) -> IRConst | None:
    """Value of the expression where one of the conditions is false; None if it is not a constant."""
    rewriter = Rewriter()
    for value in values_below((root,)):
        if value.dtype.is_bool and _conditions(value) == needed:
            rewriter.memo[value] = FALSE
    for load in (load for load in loads if _conditions(load.gate) == needed):
        rewriter.memo[load] = load.alt or IRConst(load.dtype.bits_to_const(0), load.dtype)
    value = rewriter.value(root)
    return value if isinstance(value, IRConst) else None


def _is_plain(root: IROp, needed: frozenset[IRValue]) -> bool:
    """Whether counters are in addresses and conditions only."""
    seen: set[IRValue] = set()
    stack: list[IRValue] = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, IRCounter):
            return False
        if value in seen or value in needed or isinstance(value, IRBufLoad):
            continue
        seen.add(value)
        stack.extend(operands(value))
    return True


def _digits(main: Affine, forms: Sequence[Affine]) -> tuple[list[int], list[tuple[int, ...]]] | None:
    """Units of the digits of an address, the largest first, and the multiples of digits that each address is."""
    terms = sorted(main.terms, key=lambda term: -term[1])
    if not terms or terms[-1][1] <= 0 or any(main.coefficient(c) == 0 for f in forms for c, _ in f.terms):
        return None
    ratios: list[tuple[Fraction, ...]] = []
    units: list[int] = []
    for symbol, coefficient in terms:
        ratio = tuple(Fraction(form.coefficient(symbol), coefficient) for form in forms)
        if ratios and ratios[-1] == ratio:
            units[-1] = coefficient
        else:
            ratios.append(ratio)
            units.append(coefficient)
    units[-1] = 1
    multiples = [[r * unit for r in ratio] for ratio, unit in zip(ratios, units, strict=True)]
    if any(a == b or a % b for a, b in pairwise(units)) or any(m % 1 for each in multiples for m in each):
        return None
    return units, [tuple(int(each[n]) for each in multiples) for n in range(len(forms))]


def _range(form: Affine) -> tuple[int, int]:
    low = high = form.const
    for symbol, coefficient in form.terms:
        assert isinstance(symbol, IRCounter), "a producer depends on no variable"
        assert isinstance(symbol.bound, int), "its loops have known bounds"
        low += min(0, coefficient * (symbol.bound - 1))
        high += max(0, coefficient * (symbol.bound - 1))
    return low, high


def _starts(
    loads: Sequence[IRBufLoad],
    gate: IRValue | None,
    main: int,
    units: Sequence[int],
    factors: Sequence[tuple[int, ...]],
) -> list[int] | None:
    """Constant part of each address, without multiples of digits; None if it varies between iterations that load."""
    place = loads[main].addr
    folder = Folder()

    def op(name: str, value: IRValue, other: IRValue) -> IRValue:
        return folder.op(name, place.dtype, value, other)

    digits = [op("div", place, const_int(units[0], place.dtype))]
    for above, unit in pairwise(units):
        rest = op("mod", place, const_int(above, place.dtype))
        digits.append(op("div", rest, const_int(unit, place.dtype)))
    rests: list[IRValue] = []
    for load, factor in zip(loads, factors, strict=True):
        left = folder.op("cast", place.dtype, load.addr)
        for digit, multiple in zip(digits, factor, strict=True):
            left = op("sub", left, op("mul", digit, const_int(multiple, place.dtype)))
        rests.append(left)
    found = evaluated([*rests, gate or TRUE])
    if found is None:
        return None
    loaded = found.pop()
    values = [set(np.unique(each[loaded]).tolist()) for each in found]
    return [each.pop() for each in values] if all(len(each) == 1 for each in values) else None


def evaluated(
    values: Sequence[IRValue], variables: Mapping[str, int] | None = None
) -> list[np.ndarray] | None:
    """Expressions in all iterations of the loops of their counters.

    None where these are more than `MAX_ITERATIONS`, and where data or a variable without a value decides.

    Parameters
    ----------
    values : sequence of IRValue
    variables : mapping of str to int, optional
        Values of run-time variables, by name.
    """
    below, variables = values_below(values), variables or {}
    if any(isinstance(v, IRBufLoad | IRRegLoad) for v in below):
        return None
    inputs = tuple(v for v in below if isinstance(v, IRVariable))
    if any(v.name not in variables for v in inputs):
        return None
    used = [c for c in below if isinstance(c, IRCounter)]
    bounds = [c.bound for c in used if isinstance(c.bound, int)]
    iterations = math.prod(bounds)
    if len(bounds) < len(used) or iterations > MAX_ITERATIONS:
        return None
    place = flat_address(used)
    items: tuple[IRItem, ...] = tuple(
        IRBufStore(n, place, value, value.dtype) for n, value in enumerate(values)
    )
    for counter in reversed(used):
        items = (LoopIR.from_items(items, counter=counter),)
    metas = tuple(BufferMeta(n, iterations, value.dtype, True) for n, value in enumerate(values))
    kernel = KernelIR(metas, number_depths(LoopIR.from_items(items)), variables=inputs, name="iterations")
    found = evaluate(kernel, {}, variables)
    return [found[n].astype(v.dtype.numpy()) for n, v in enumerate(values)]


def _are_inside(
    starts: Sequence[int],
    factors: Sequence[tuple[int, ...]],
    bounds: Sequence[int],
    depths: Sequence[int],
) -> bool:
    """Whether the addresses of all digits are inside their buffers."""
    for start, factor, depth in zip(starts, factors, depths, strict=True):
        ends = [f * (bound - 1) for f, bound in zip(factor, bounds, strict=True)]
        if start + sum(min(0, e) for e in ends) < 0 or start + sum(max(0, e) for e in ends) >= depth:
            return False
    return True


def _sum(start: int, factors: Sequence[int], counters: Sequence[IRCounter]) -> IRValue:
    folder, total = Folder(), const_int(start)
    result: IRValue = total
    for factor, counter in zip(factors, counters, strict=True):
        product = folder.op("mul", DType.INT32, counter, const_int(factor))
        result = folder.op("add", DType.INT32, product, result)
    return result
