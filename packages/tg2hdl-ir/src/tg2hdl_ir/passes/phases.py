"""Phases: a kernel over a zero-stuffed input, as in a transposed convolution, becomes kernels that skip the zeros.

Outputs at the same position modulo the distance of the elements use the same weights: each phase is a kernel that adds
only their products.  The skipped products are zero and change no sum that starts at zero.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import const_int, is_const, loads_used_by, operands
from tg2hdl_ir.verifier import verify

__all__ = ["split_phases"]

MAX_PHASES = 16


def split_phases(kernel: KernelIR, finite: frozenset[int]) -> tuple[KernelIR, ...]:
    """One kernel for each phase; the kernel itself where nothing can be skipped.

    Parameters
    ----------
    finite : frozenset of int
        Slots whose elements are known to be finite: only their products with zero are zeros.
    """
    load = _stuffed_load(kernel, finite)
    if load is None or load.gate is None:
        return (kernel,)
    spaced = _spaced(load.gate)
    independent = analyze_axes(kernel).independent
    reduced = {
        loop.counter: loop
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and loop.axis_type == "reduce"
    }
    taps: dict[IRCounter, tuple[IRCounter, Affine, int]] = {}
    for form, distance in spaced:
        if any(not isinstance(s, IRCounter) for s, _ in form.terms):
            return (kernel,)
        counters = [s for s, c in form.terms if isinstance(s, IRCounter) and c % distance]
        outer = [c for c in counters if c.axis in independent]
        inner = [c for c in counters if c in reduced]
        if (
            len(outer) != 1
            or len(inner) != 1
            or len(counters) != 2
            or outer[0] in (t[0] for t in taps.values())
        ):
            return (kernel,)
        odd = all(form.coefficient(c) % 2 for c in counters)
        bounds = [outer[0].bound, inner[0].bound]
        if not odd or inner[0] in taps or not all(isinstance(b, int) and b >= distance for b in bounds):
            return (kernel,)
        assert isinstance(outer[0].bound, int), "checked in the line before"
        if outer[0].bound % distance:
            return (kernel,)
        taps[inner[0]] = outer[0], form, distance
    if not taps:
        return (kernel,)
    phases = list(itertools.product(*(range(distance) for _, _, distance in taps.values())))
    if len(phases) > MAX_PHASES:
        return (kernel,)
    return tuple(_phase(kernel, taps, phase) for phase in phases)


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


def _spaced(gate: IRValue) -> list[tuple[Affine, int]]:
    """Conditions of a gate that an affine form is a multiple of a power of two."""
    affine = AffineAnalysis()
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
            case _:
                pass
    return list(found.items())


def _phase(
    kernel: KernelIR, taps: dict[IRCounter, tuple[IRCounter, Affine, int]], phase: tuple[int, ...]
) -> KernelIR:
    """Kernel of the outputs at one position modulo each distance."""
    counters: dict[IRCounter, IRCounter] = {}
    values: dict[IRCounter, tuple[int, int]] = {}
    for (tap, (out, form, distance)), position in zip(taps.items(), phase, strict=True):
        assert isinstance(out.bound, int), "checked by split_phases"
        assert isinstance(tap.bound, int), "checked by split_phases"
        base = form.const + form.coefficient(out) * position
        first = next(n for n in range(distance) if (base + form.coefficient(tap) * n) % distance == 0)
        counters[out] = IRCounter(out.bound // distance, out.depth, out.axis, out.dtype)
        values[out] = distance, position
        counters[tap] = IRCounter(-(-(tap.bound - first) // distance), tap.depth, tap.axis, tap.dtype)
        values[tap] = distance, first
    folder = Folder()
    rewriter = Rewriter(folder, replace=lambda op: _divided(op, folder))
    for old, new in counters.items():
        distance, offset = values[old]
        scaled = folder.op("mul", old.dtype, new, const_int(distance, old.dtype))
        rewriter.memo[old] = folder.op("add", old.dtype, scaled, const_int(offset, old.dtype))

    def rebuilt(loop: LoopIR) -> LoopIR:
        items = tuple(rebuilt(i) if isinstance(i, LoopIR) else rewriter.statement(i) for i in loop.items)
        counter = loop.counter if loop.counter is None else counters.get(loop.counter, loop.counter)
        return LoopIR.from_items(items, counter=counter, axis_type=loop.axis_type)

    name = f"{kernel.name}_phase{'_'.join(map(str, phase))}"
    return verify(replace(kernel, loop_tree=rebuilt(kernel.loop_tree), name=name))


def _divided(op: IROp, folder: Folder) -> IRValue | None:
    """Exact quotient or remainder by a power of two of an affine form, all of whose coefficients are multiples."""
    if op.op not in ("and", "shr") or not op.dtype.is_int or not isinstance(op.srcs[1], IRConst):
        return None
    number = int(op.srcs[1].value)
    form = folder.affine.of(op.srcs[0])
    divisor = number + 1 if op.op == "and" else 1 << number
    if form is None or number < 0 or divisor & (divisor - 1) or any(c % divisor for _, c in form.terms):
        return None
    if op.op == "and":
        return const_int(form.const % divisor, op.dtype)
    result: IRValue = const_int(form.const // divisor, op.dtype)
    for symbol, coefficient in form.terms:
        scaled = folder.op(
            "mul", op.dtype, folder.op("cast", op.dtype, symbol), const_int(coefficient // divisor, op.dtype)
        )
        result = folder.op("add", op.dtype, result, scaled)
    return result
