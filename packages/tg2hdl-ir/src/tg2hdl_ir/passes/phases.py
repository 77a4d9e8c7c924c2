"""Phases: a kernel over a zero-stuffed input, as in a transposed convolution, becomes kernels that skip the zeros.

Outputs at the same position modulo the distance of the elements use the same weights: each phase is a kernel that adds
only their products.  The skipped products are zero and change no sum that starts at zero.  Phases of an axis may stay
in one kernel, which then has more independent sums: those with fewer weights than others add zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.divided import divided
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import const_int, is_const, loads_used_by, operands, values_below
from tg2hdl_ir.verifier import verify

__all__ = ["phase_forms"]

MAX_PHASES = 16


Taps = dict[IRCounter, tuple[IRCounter, Affine, int]]
"""Counters of taps with the counter of the output, the address before its division, and the distance of elements."""


@ir_pass(
    "phases",
    "zeros between the elements of an input are skipped, by a kernel for each phase",
    term="polyphase decomposition",
)
def phase_forms(
    kernel: KernelIR, finite: frozenset[int], *, joined: bool = False
) -> list[tuple[KernelIR, ...]]:
    """Kernels that skip the zeros: one for each phase, and with `joined` also forms that keep phases together.

    Parameters
    ----------
    kernel : KernelIR
    finite : frozenset of int
        Slots whose elements are known to be finite: only their products with zero are zeros.
    joined : bool
        Whether forms that keep phases together are wanted too.
    """
    taps = _taps(kernel, finite)
    if not taps or math.prod(distance for _, _, distance in taps.values()) > MAX_PHASES:
        return []
    forms = []
    for number in range(1 << len(taps) if joined else 1):
        together = {tap: n for n, tap in enumerate(taps) if number >> n & 1}
        firsts = [range(1 if tap in together else distance) for tap, (_, _, distance) in taps.items()]
        if all(_positions(tap, *taps[tap]) and _is_even(*taps[tap]) for tap in together):
            parts = (_phase(kernel, taps, phase, together) for phase in itertools.product(*firsts))
            forms.append(tuple(parts))
    return forms


def _taps(kernel: KernelIR, finite: frozenset[int]) -> Taps:
    """Loops over taps of a zero-stuffed input; none where nothing can be skipped."""
    load = _stuffed_load(kernel, finite)
    if load is None or load.gate is None:
        return {}
    spaced = _spaced(load.gate)
    independent = analyze_axes(kernel).independent
    reduced = {
        loop.counter: loop
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and loop.axis_type == "reduce"
    }
    taps: Taps = {}
    for form, distance in spaced:
        if any(not isinstance(s, IRCounter) for s, _ in form.terms):
            return {}
        counters = [s for s, c in form.terms if isinstance(s, IRCounter) and c % distance]
        outer = [c for c in counters if c.axis in independent]
        inner = [c for c in counters if c in reduced]
        if (
            len(outer) != 1
            or len(inner) != 1
            or len(counters) != 2
            or outer[0] in (t[0] for t in taps.values())
        ):
            return {}
        coprime = all(math.gcd(form.coefficient(c), distance) == 1 for c in counters)
        bounds = [outer[0].bound, inner[0].bound]
        if not coprime or inner[0] in taps or not all(isinstance(b, int) and b >= distance for b in bounds):
            return {}
        taps[inner[0]] = outer[0], form, distance
    return taps


def _stuffed_load(kernel: KernelIR, finite: frozenset[int]) -> IRBufLoad | None:
    """The zero-stuffed load, if the kernel only adds its products to a sum."""
    statements = list(kernel.loop_tree.statements())
    if len(kernel.registers) != 1 or kernel.registers[0].size != 1:
        return None
    stores = [s for s in statements if isinstance(s, IRRegStore)]
    if (
        len(stores) != 2
        or not isinstance(stores[0].value, IRConst)
        or any(s.gate is not None for s in stores)
    ):
        return None
    if stores[0].value.dtype.const_to_bits(stores[0].value.value):
        return None
    match stores[1].value:
        case IROp(op="add", srcs=(IRRegLoad(), IROp(op="mul", srcs=factors))):
            pass
        case _:
            return None
    for stuffed, other in (factors, factors[::-1]):
        bounded = isinstance(other, IRBufLoad) and other.buf_idx in finite and other.gate is None
        if stuffed.dtype.is_float and not bounded:
            continue
        while isinstance(stuffed, IROp) and stuffed.op == "cast":
            stuffed = stuffed.srcs[0]
        if not isinstance(stuffed, IRBufLoad) or stuffed.gate is None or not _is_zero(stuffed.alt):
            continue
        others = (s for s in statements if isinstance(s, IRBufLoad) and s is not stuffed)
        stored = [v for s in statements if isinstance(s, IRBufStore) for v in operands(s)]
        alone = all(s.buf_idx != stuffed.buf_idx for s in others) and stuffed not in loads_used_by(
            tuple(stored)
        )
        if alone and _spaced(stuffed.gate):
            return stuffed
    return None


def _is_zero(value: IRValue | None) -> bool:
    return value is None or (isinstance(value, IRConst) and not value.dtype.const_to_bits(value.value))


def _is_even(out: IRCounter, form: Affine, distance: int) -> bool:
    """Whether every position has as many outputs."""
    return isinstance(out.bound, int) and out.bound % distance == 0


def _spaced(gate: IRValue) -> list[tuple[Affine, int]]:
    """Conditions of a gate that an affine form is a multiple of a number."""
    ranges = RangeAnalysis()
    affine = AffineAnalysis(ranges)
    found: dict[Affine, int] = {}
    stack = [gate]
    while stack:
        match stack.pop():
            case IROp(op="and", srcs=(a, b), dtype=dtype) if dtype.is_bool:
                stack += [a, b]
            case IROp(op="lt", srcs=(IROp(op="and", srcs=(value, IRConst(value=mask))), limit)) if is_const(
                limit, 1
            ):
                form = affine.of(value)
                if form is not None and mask > 0 and not (int(mask) & (int(mask) + 1)):
                    found[form] = int(mask) + 1
            case IROp(op="lt", srcs=(IROp(op="mod", srcs=(value, IRConst(value=number))), limit)) if is_const(
                limit, 1
            ):
                form = affine.of(value)
                if form is not None and number > 1 and ranges.of(value)[0] >= 0:
                    found[form] = int(number)
            case _:
                pass
    return list(found.items())


def _first(tap: IRCounter, out: IRCounter, form: Affine, distance: int, position: int) -> int:
    """First tap that meets an element, for outputs at a position modulo the distance."""
    base = form.const + form.coefficient(out) * position
    return next(n for n in range(distance) if (base + form.coefficient(tap) * n) % distance == 0)


def _positions(tap: IRCounter, out: IRCounter, form: Affine, distance: int) -> tuple[int, int] | None:
    """First tap of position 0, and its change from one position to the next; None where that is not constant."""
    start, second, *others = (_first(tap, out, form, distance, n) for n in range(distance))
    step = second - start
    return (start, step) if all(f == start + n * step for n, f in enumerate(others, 2)) else None


def _phase(
    kernel: KernelIR, taps: Taps, phase: tuple[int, ...], together: Mapping[IRCounter, int]
) -> KernelIR:
    """Kernel of the outputs at one position modulo each distance, or at all of them along the taps of `together`."""
    counters: dict[IRCounter, IRCounter] = {}
    inner: dict[IRCounter, IRCounter] = {}
    limits: dict[IRCounter, IRValue] = {}
    folder = Folder()

    def scaled(counter: IRCounter, factor: int) -> IRValue:
        return folder.op("mul", counter.dtype, counter, const_int(factor, counter.dtype))

    def keep(statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        """Elements beyond the last tap are zeros."""
        if not isinstance(rebuilt, IRBufLoad) or not isinstance(statement, IRBufLoad):
            return rebuilt
        inside = [limit for tap, limit in limits.items() if tap in values_below((statement.addr,))]
        if not inside:
            return rebuilt
        alt = rebuilt.alt or IRConst(rebuilt.dtype.bits_to_const(0), rebuilt.dtype)
        return replace(rebuilt, gate=folder.all_of(rebuilt.gate, *inside), alt=alt)

    rewriter = Rewriter(folder, replace=partial(divided, folder=folder), change=keep)
    free = 1 + max(loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter is not None)
    for (tap, (out, form, distance)), position in zip(taps.items(), phase, strict=True):
        assert isinstance(out.bound, int), "checked by phase_forms"
        assert isinstance(tap.bound, int), "checked by phase_forms"
        first = _first(tap, out, form, distance, position)
        counters[out] = replace(out, bound=-(-(out.bound - position) // distance))
        place: IRValue = const_int(position, out.dtype)
        start: IRValue = const_int(first, tap.dtype)
        found = _positions(tap, out, form, distance) if tap in together else None
        if found is not None:
            inner[out] = turn = replace(out, bound=distance, axis=free + together[tap])
            place, first = turn, min(found[0], found[0] + (distance - 1) * found[1])
            start = folder.op("add", tap.dtype, const_int(found[0], tap.dtype), scaled(turn, found[1]))
        counters[tap] = replace(tap, bound=-(-(tap.bound - first) // distance))
        rewriter.memo[out] = folder.op("add", out.dtype, scaled(counters[out], distance), place)
        rewriter.memo[tap] = folder.op("add", tap.dtype, scaled(counters[tap], distance), start)
        if found is not None:
            limits[tap] = folder.below(rewriter.memo[tap], tap.bound)

    def rebuilt(loop: LoopIR) -> LoopIR:
        items = tuple(rebuilt(i) if isinstance(i, LoopIR) else rewriter.changed(i) for i in loop.items)
        if loop.counter in inner:
            items = (LoopIR.from_items(items, counter=inner[loop.counter], axis_type=loop.axis_type),)
        counter = loop.counter if loop.counter is None else counters.get(loop.counter, loop.counter)
        return LoopIR.from_items(items, counter=counter, axis_type=loop.axis_type)

    which = "_".join("all" if tap in together else str(n) for tap, n in zip(taps, phase, strict=True))
    tree = number_depths(rebuilt(kernel.loop_tree))
    return verify(replace(kernel, loop_tree=tree, name=f"{kernel.name}_phase{which}"))
