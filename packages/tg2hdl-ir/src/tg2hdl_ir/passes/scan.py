"""Scans: a sum over a window whose new elements come one by one is continued from one output to the next.

A prefix sum arrives as a triangle: each output adds all elements again, and those after it are masked.  In the order
of the outputs each one is its predecessor and one more element, so that one register and one pass suffice.  The order
of the additions stays, except that integers may be added from the other end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    is_const,
    loads_used_by,
    operands,
    values_below,
)
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import FALSE, TRUE, Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.unroll import mask_statements

__all__ = ["Reduction", "find_reduction", "scan_forms"]

_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "mul": 1}


@ir_pass(
    "scan",
    "a reduction that repeats the one of the previous output and adds to it becomes one pass",
    term="prefix sum (scan)",
)
def scan_forms(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """The kernel as one pass; no form where its reduction is not a scan along an independent loop."""
    found = find_reduction(kernel)
    if found is None:
        return []
    independent = analyze_axes(kernel).independent
    counters = [loop.counter for loop in found.outer]
    for number, counter in reversed(list(enumerate(counters))):
        assert counter is not None, "only the root has no counter"
        if counter not in values_below((found.term,)) or _extent(counter) < 2:
            continue
        # The loop becomes the innermost one of the outputs.
        if all(c is not None and c.axis in independent for c in counters[number:]):
            for window in _windows(found, counter):
                return [(_scan(kernel, found, window),)]
    return []


@dataclass(frozen=True)
class Reduction:
    """A kernel that folds the values of one loop into one register for each output.

    Parameters
    ----------
    outer : tuple of LoopIR
        Loops over the outputs, outermost first, without other statements between them.
    home : LoopIR
        The level that sets the register and stores the result.
    loop : LoopIR
        The reduction.
    update : IRRegStore
        ``SET r = op(GET r, term)``.
    """

    outer: tuple[LoopIR, ...]
    home: LoopIR
    loop: LoopIR
    initial: IRConst
    update: IRRegStore
    carried: IRRegLoad
    term: IRValue

    @property
    def op(self) -> str:
        """Operation of the reduction."""
        assert isinstance(self.update.value, IROp), "checked by find_reduction"
        return self.update.value.op

    @property
    def is_first(self) -> bool:
        """Whether the register is the first operand."""
        assert isinstance(self.update.value, IROp), "checked by find_reduction"
        return self.update.value.srcs[0] is self.carried

    @property
    def counter(self) -> IRCounter:
        """Counter of the reduction."""
        assert self.loop.counter is not None, "only the root has no counter"
        return self.loop.counter

    def keeps(self, neutral: IRValue | None, *, initial: bool) -> bool:
        """Whether a term never changes the register, or its initial value.

        A float sum that does not start at -0.0 never becomes -0.0, so that adding 0.0 leaves it as it is.

        Parameters
        ----------
        neutral : IRValue or None
            Term; only a constant can be neutral.
        initial : bool
            The initial value of the register is meant, not any value.
        """
        if not isinstance(neutral, IRConst):
            return False
        op, dtype = self.op, neutral.dtype
        same = dtype.const_to_bits(neutral.value) == dtype.const_to_bits(self.initial.value)
        if initial and op in ("max", "min", "and", "or") and same:
            return True
        if not dtype.is_float:
            ends = {"and": -1, "max": dtype.min_value, "min": dtype.max_value}
            number = _NEUTRAL.get(op, ends.get(op))
            return number is not None and int(neutral.value) == int(dtype.wrap(number))
        if op == "add":
            zero = dtype.const_to_bits(-0.0)
            return neutral.value == 0 and (
                dtype.const_to_bits(neutral.value) == zero or dtype.const_to_bits(self.initial.value) != zero
            )
        if op in ("max", "min"):
            return self.is_first and neutral.value == (-math.inf if op == "max" else math.inf)
        return op == "mul" and neutral.value == 1


def _extent(counter: IRCounter) -> int:
    assert isinstance(counter.bound, int), "checked by find_reduction"
    return counter.bound


def find_reduction(kernel: KernelIR) -> Reduction | None:
    """The reduction of a kernel that has one, with a loop of its own; None for others."""
    if len(kernel.registers) != 1 or kernel.registers[0].size != 1:
        return None
    if any(not isinstance(loop.bound, int) for loop in kernel.loop_tree.walk()):
        return None
    outer: list[LoopIR] = []
    home = kernel.loop_tree
    while len(home.items) == 1 and home.loops:
        home = home.loops[0]
        outer.append(home)
    if len(home.loops) != 1 or home.loops[0].loops:
        return None
    (loop,) = home.loops
    starts = [s for s in home.prologue if not isinstance(s, IRBufLoad)]
    if any(isinstance(s, IRRegStore | LoopIR) for s in home.epilogue):
        return None
    updates = [s for s in loop.statements() if isinstance(s, IRRegStore | IRBufStore)]
    match starts, updates:
        case [IRRegStore(value=IRConst() as initial, gate=None)], [IRRegStore(gate=None) as update]:
            pass
        case _:
            return None
    if not isinstance(update.value, IROp) or len(update.value.srcs) != 2:
        return None
    carried = [s for s in update.value.srcs if isinstance(s, IRRegLoad)]
    terms = [s for s in update.value.srcs if not isinstance(s, IRRegLoad)]
    if len(carried) != 1 or any(isinstance(load, IRRegLoad) for load in loads_used_by(tuple(terms))):
        return None
    statements = list(kernel.loop_tree.statements())
    stored = {s.buf_idx for s in statements if isinstance(s, IRBufStore)}
    if any(isinstance(s, IRBufLoad) and s.buf_idx in stored for s in statements):
        return None
    return Reduction(tuple(outer), home, loop, initial, update, carried[0], terms[0])


@dataclass(frozen=True)
class _Window:
    """How the terms of an output follow from those of the output before.

    Parameters
    ----------
    along : IRCounter
        Loop over the outputs that becomes the scan.
    step : IRCounter
        Counter of the scan.
    output : Affine
        Number of the output that is complete in a step.
    terms : mapping of IRCounter to Affine
        Values of `along` and of the counter of the reduction for the term of a step.
    idle : int
        First steps, which complete no output.
    exclusive : bool
        Whether the output is complete before the term of its step is added.
    """

    along: IRCounter
    step: IRCounter
    output: Affine
    terms: Mapping[IRCounter, Affine]
    idle: int = 0
    exclusive: bool = False


def _windows(found: Reduction, along: IRCounter) -> Iterator[_Window]:
    """Windows of the outputs in order or reversed, and of integers also with the terms reversed."""
    dtype = found.term.dtype
    commutes = not dtype.is_float and found.op in ("add", "mul", "max", "min", "and", "or", "xor")
    for terms_reversed in (False, True) if commutes else (False,):
        for reversed_ in (False, True):
            turned = {
                **({along: _reversed(along)} if reversed_ else {}),
                **({found.counter: _reversed(found.counter)} if terms_reversed else {}),
            }
            term = _Substitution(turned).value(found.term) if turned else found.term
            window = _sliding(found, along, term) or _growing(found, along, term)
            if window is not None:
                terms = {c: _put(turned.get(c, _symbol(c)), window.terms) for c in (along, found.counter)}
                output = _put(turned.get(along, _symbol(along)), {along: window.output})
                yield replace(window, output=output, terms=terms)


def _reversed(counter: IRCounter) -> Affine:
    return Affine(_extent(counter) - 1, ((counter, -1),))


def _symbol(counter: IRCounter) -> Affine:
    return Affine(0, ((counter, 1),))


def _sliding(found: Reduction, along: IRCounter, term: IRValue) -> _Window | None:
    """A window of terms that depend on the sum of both counters; terms that leave it are neutral."""
    terms, outputs = _extent(found.counter), _extent(along)
    if not _depends_on_sum(term, found.counter, along):
        return None
    left = _counter(along, outputs - 1)
    leaving = _Substitution({along: Affine(0), found.counter: _symbol(left)}).value(term)
    if not found.keeps(leaving, initial=True):
        return None
    step = _counter(along, max(terms, outputs))
    place = Affine(min(terms, outputs) - 1, ((step, 1),))
    idle = max(0, terms - outputs)
    values = {along: Affine(0), found.counter: place}
    return _Window(along, step, Affine(-idle, ((step, 1),)), values, idle)


def _growing(found: Reduction, along: IRCounter, term: IRValue) -> _Window | None:
    """Terms that do not depend on the output, up to its own or up to the one before it; all others are neutral."""
    if _extent(found.counter) < _extent(along):
        return None
    beyond = _counter(along, _extent(along) + _extent(found.counter))
    for last in (0, -1):
        after = Affine(last + 1, ((along, 1), (beyond, 1)))
        if not found.keeps(_Substitution({found.counter: after}).value(term), initial=False):
            continue
        inside = _Substitution({along: Affine(-last, ((found.counter, 1), (beyond, 1)))}).value(term)
        if beyond in values_below((inside,)):
            continue
        step = _counter(along, _extent(along))
        # Any output from this one on has the term.
        values = {found.counter: _symbol(step), along: Affine(-last, ((step, 1),))}
        return _Window(along, step, _symbol(step), values, exclusive=last < 0)
    return None


def _counter(along: IRCounter, bound: int) -> IRCounter:
    return IRCounter(bound, along.depth, along.axis, along.dtype)


def _depends_on_sum(value: IRValue, one: IRCounter, other: IRCounter) -> bool:
    """Whether a value depends on two counters only by their sum."""
    affine = Folder().affine
    seen: set[IRValue] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        form = affine.of(node)
        if form is None:
            stack.extend(operands(node))
        elif form.coefficient(one) != form.coefficient(other):
            return False
    return True


def _put(form: Affine, values: Mapping[IRCounter, Affine]) -> Affine:
    """An affine form with other forms in the place of counters."""
    result = Affine(form.const)
    for symbol, factor in form.terms:
        known = values.get(symbol) if isinstance(symbol, IRCounter) else None
        result = result.plus(Affine(0, ((symbol, 1),)) if known is None else known, factor)
    return result


class _Substitution(Rewriter):
    """Rebuilds values with affine forms in the place of counters; conditions that become known are folded."""

    def __init__(self, values: Mapping[IRCounter, Affine]) -> None:
        super().__init__(Folder(), replace=self._decided)
        self.values = values

    def _rebuild(self, node: IRValue) -> IRValue:
        form = None if node.dtype.is_bool else self.folder.affine.of(node)
        if form is not None and any(symbol in self.values for symbol, _ in form.terms):
            return self.of(form, node.dtype)
        built = super()._rebuild(node)
        if isinstance(built, IRBufLoad) and built.gate is not None and is_const(built.gate, 0):
            return built.alt or IRConst(built.dtype.bits_to_const(0), built.dtype)
        return built

    def of(self, form: Affine, dtype: DType) -> IRValue:
        """Value of an affine form, with the counters replaced."""
        put = _put(form, self.values)
        value: IRValue = const_int(put.const, dtype)
        for symbol, factor in put.terms:
            scaled = self.folder.op(
                "mul", dtype, self.folder.op("cast", dtype, symbol), const_int(factor, dtype)
            )
            value = self.folder.op("add", dtype, scaled, value)
        return value

    def _decided(self, node: IROp) -> IRValue | None:
        """A comparison of affine forms whose difference has one sign."""
        if node.op not in ("lt", "eq", "ne") or node.srcs[0].dtype.is_float:
            return None
        forms = [self.folder.affine.of(s) for s in node.srcs]
        if forms[0] is None or forms[1] is None:
            return None
        difference = forms[0].plus(forms[1], -1)
        low = high = difference.const
        for symbol, factor in difference.terms:
            ends = [factor * end for end in self.folder.ranges.of(symbol)]
            low, high = low + min(ends), high + max(ends)
        if node.op == "lt":
            return TRUE if high < 0 else FALSE if low >= 0 else None
        apart = low > 0 or high < 0
        return (FALSE if node.op == "eq" else TRUE) if apart else None

    def statements(self, items: Collection[IRItem]) -> list[IRStatement]:
        """Rebuilt statements, without loads whose value became known."""
        result: list[IRStatement] = []
        for item in items:
            assert not isinstance(item, LoopIR), "only statements are rebuilt"
            if isinstance(item, IRBufLoad | IRRegLoad):
                value = self.value(item)
                if isinstance(value, IRBufLoad | IRRegLoad) and value is not item:
                    result.append(value)
            else:
                result.append(self.statement(item))
        return result


def _scan(kernel: KernelIR, found: Reduction, window: _Window) -> KernelIR:
    """The kernel of a window: the register is set before the scan, and stored in each of its steps."""
    inside = {window.along, found.counter}
    before = [s for s in found.home.prologue if not isinstance(s, LoopIR)]
    shared = [s for s in before if not inside & set(values_below(operands(s)))]
    adding = _Substitution(window.terms)
    storing = _Substitution({window.along: window.output})
    for rewriter in (adding, storing):
        rewriter.memo.update({s: s for s in shared if isinstance(s, IRBufLoad)})
    update = adding.statements(found.loop.items)
    result = storing.statements([*(s for s in before if s not in shared), *found.home.epilogue])
    if window.idle:
        folder = storing.folder
        begun = folder.op("lt", DType.BOOL, const_int(window.idle - 1, window.step.dtype), window.step)
        result = mask_statements(result, begun, folder)
    body = [*result, *update] if window.exclusive else [*update, *result]
    scan = LoopIR.from_items(tuple(body), counter=window.step, axis_type="reduce")
    items: tuple[IRItem, ...] = (*shared, scan)
    for loop in reversed(found.outer):
        if loop.counter is not window.along:
            items = (LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type),)
    tree = number_depths(LoopIR.from_items(items))
    return replace(kernel, loop_tree=tree, name=f"{kernel.name}_scan")
