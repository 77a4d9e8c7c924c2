"""Two narrow products with a common factor as one product of a hardware multiplier.

``((b << k) + a) * x`` is ``(b * x << k) + a * x``: where ``a * x`` fits k bits, both products are in it.  ``a * x`` is
its low k bits as a signed number, and ``b * x`` the rest, which is one less where ``a * x`` is negative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tg2hdl_ir.analysis.axes import axes_of
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis, bits_for
from tg2hdl_ir.dtype import DType
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
    const_int,
    operands,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.leaves import leaf_paths, replace_leaves
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["pack_products", "packing_axes", "packing_shift"]

_NARROWEST = 3
"""Products by fewer bits take no multiplier (bits, with sign)."""


def packing_shift(low: Interval, high: Interval, factor: Interval, width: int) -> int | None:
    """Distance of two numbers (bits) whose products with `factor` are told apart; None where they do not fit.

    Parameters
    ----------
    low, high, factor : (int, int)
        Ranges of the two numbers and of their common factor.
    width : int
        Operands of a multiplier (bits, with sign).
    """
    products = [a * x for a in low for x in factor]
    shift = _signed_width((min(products), max(products)))
    packed = (high[0] << shift) + low[0], (high[1] << shift) + low[1]
    widths = _signed_width(packed), _signed_width(factor)
    return shift if max(widths) <= width and sum(widths) <= 32 else None


@ir_pass(
    "pack-products",
    "two narrow products with a common factor become one product",
    term="SIMD within a multiplier",
)
def pack_products(kernel: KernelIR, limit: int, buffers: Mapping[int, Interval], width: int = 18) -> KernelIR:
    """Pack products of the leaves that have more than `limit`, as far as that takes.

    Parameters
    ----------
    kernel : KernelIR
    limit : int
        Multipliers.
    buffers : mapping of int to interval
        Known ranges of the elements of buffers.
    width : int
        Operands of a multiplier (bits, with sign).
    """
    ranges = RangeAnalysis(buffers=buffers)
    keys = _Keys({s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)})
    rewriter = Rewriter(Folder())
    leaves: dict[int, LoopIR] = {}
    for path in leaf_paths(kernel.loop_tree):
        values = [s.value for s in path[-1].statements() if isinstance(s, IRBufStore | IRRegStore)]
        products = {keys.of(p): p for p in _products(values, ranges, width)}
        excess = len(products) - limit
        if excess <= 0:
            continue
        leaves[id(path[-1])] = _loads_first(path[-1], keys)
        free = [p for p in products.values() if keys.is_free(p)]
        for low, high, factor, shift in _pairs(free, keys, ranges, width):
            narrow = rewriter.value(low.other), rewriter.value(high.other)
            made = _packed(*narrow, rewriter.value(factor), shift, low.product.dtype)
            for product, value in zip((low.product, high.product), made, strict=True):
                rewriter.memo.update(dict.fromkeys(keys.copies(product), value))
            excess -= 1
            if not excess:
                break
    if not rewriter.memo:
        return kernel
    return replace(kernel, loop_tree=rewriter.loop(replace_leaves(kernel.loop_tree, leaves)))


def packing_axes(kernel: KernelIR, buffers: Mapping[int, Interval], width: int = 18) -> frozenset[int]:
    """Axes along which neighbouring lanes of all products of a kernel can be packed.

    Parameters
    ----------
    kernel : KernelIR
    buffers : mapping of int to Interval
        Values that buffers have, by slot.
    width : int
        Bits of an operand of a multiplier.
    """
    ranges = RangeAnalysis(buffers=buffers)
    values = [s.value for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore | IRRegStore)]
    found: frozenset[int] | None = None
    for product in _products(values, ranges, width):
        axes: frozenset[int] = frozenset()
        for factor, other in (product.srcs, product.srcs[::-1]):
            own = ranges.of(other)
            if packing_shift(own, own, ranges.of(factor), width) is not None:
                axes |= axes_of(other) - axes_of(factor)
        found = axes if found is None else found & axes
    return found or frozenset()


def _loads_first(leaf: LoopIR, keys: _Keys) -> LoopIR:
    """A leaf that begins with its loads of buffers that the kernel only reads: a product needs those of its pair."""
    first = [s for s in leaf.statements() if isinstance(s, IRBufLoad) and keys.is_free(s)]
    chosen = set(first)
    rest = [s for s in leaf.statements() if s not in chosen]
    return LoopIR.from_items((*first, *rest), counter=leaf.counter, axis_type=leaf.axis_type)


class _Keys:
    """Numbers of values: the same for equal ones."""

    def __init__(self, stored: set[int]) -> None:
        self._stored = stored
        self._numbers: dict[object, int] = {}
        self._of: dict[IRValue, int] = {}
        self._copies: dict[int, list[IRValue]] = {}
        self._free: dict[IRValue, bool] = {}

    def of(self, value: IRValue) -> int:
        """Number of a value."""
        stack = [value]
        while stack:
            node = stack[-1]
            pending = [s for s in operands(node) if s not in self._of]
            if pending and node not in self._of:
                stack.extend(pending)
                continue
            stack.pop()
            if node not in self._of:
                number = self._numbers.setdefault(self._key(node), len(self._numbers))
                self._of[node] = number
                self._copies.setdefault(number, []).append(node)
                changes = isinstance(node, IRRegLoad) or (
                    isinstance(node, IRBufLoad) and node.buf_idx in self._stored
                )
                self._free[node] = not changes and all(self._free[s] for s in operands(node))
        return self._of[value]

    def copies(self, value: IRValue) -> list[IRValue]:
        """Values equal to this one, so far."""
        return self._copies[self._of[value]]

    def is_free(self, value: IRValue) -> bool:
        """Whether the kernel changes nothing that a value depends on."""
        self.of(value)
        return self._free[value]

    def _key(self, node: IRValue) -> object:
        below = tuple(self._of[s] for s in operands(node))
        match node:
            case IROp():
                return node.op, node.dtype, below
            case IRConst():
                return "const", node.dtype, node.value
            case IRCounter():
                return "counter", node.axis
            case IRBufLoad() if node.buf_idx not in self._stored:
                return "load", node.buf_idx, below, node.gate is None
        return node


def _products(values: list[IRValue], ranges: RangeAnalysis, width: int) -> Iterator[IROp]:
    """Products that take a hardware multiplier each, outside of addresses and of values kept in registers."""
    seen: set[IRValue] = set()
    stack = values[::-1]
    while stack:
        node = stack.pop()
        if node in seen or isinstance(node, IRBufLoad | IRRegLoad):
            continue
        seen.add(node)
        stack.extend(reversed(operands(node)))
        if not isinstance(node, IROp) or node.op != "mul" or not node.dtype.is_int:
            continue
        widths = [_signed_width(ranges.of(s)) for s in node.srcs]
        constant = any(isinstance(s, IRConst) for s in node.srcs)
        if not constant and min(widths) >= _NARROWEST and max(widths) <= width:
            yield node


class _Half(NamedTuple):
    """A product, and its factor that the other product of a pair does not have."""

    product: IROp
    other: IRValue


def _pairs(
    products: list[IROp], keys: _Keys, ranges: RangeAnalysis, width: int
) -> Iterator[tuple[_Half, _Half, IRValue, int]]:
    """Pairs with their common factor and distance; each product is in one pair at most."""
    waiting: dict[tuple[int, DType], list[_Half]] = {}
    packed: set[IROp] = set()
    for product in products:
        for factor, other in (product.srcs, product.srcs[::-1]):
            own, common = ranges.of(other), ranges.of(factor)
            if packing_shift(own, own, common, width) is None:
                continue
            group = waiting.setdefault((keys.of(factor), product.dtype), [])
            group[:] = [half for half in group if half.product not in packed]
            shifts = ((half, packing_shift(ranges.of(half.other), own, common, width)) for half in group)
            found = next(((half, shift) for half, shift in shifts if shift is not None), None)
            if found is not None:
                packed |= {found[0].product, product}
                yield found[0], _Half(product, other), factor, found[1]
                break
            group.append(_Half(product, other))


def _packed(
    low: IRValue, high: IRValue, factor: IRValue, shift: int, dtype: DType
) -> tuple[IRValue, IRValue]:
    """``low * factor`` and ``high * factor`` of one product."""
    work, folder = DType.INT32, Folder()

    def op(name: str, a: IRValue, b: IRValue | int) -> IRValue:
        return folder.op(name, work, a, const_int(b, work) if isinstance(b, int) else b)

    a, b, x = (folder.op("cast", work, v) for v in (low, high, factor))
    product = op("mul", op("add", op("shl", b, shift), a), x)
    first = op("shr", op("shl", product, 32 - shift), 32 - shift)
    borrowed = op("and", op("shr", product, shift - 1), 1)
    second = op("add", op("shr", product, shift), borrowed)
    return folder.op("cast", dtype, first), folder.op("cast", dtype, second)


def _signed_width(interval: Interval) -> int:
    width, signed = bits_for(interval)
    return width + (not signed)
