"""Rules of tinygrad's lowering that make numbers wrong, corrected for the whole process.

They would be wrong in captured kernels, in weights that tinygrad computes, and in its own result, the reference.
"""

from __future__ import annotations

import math
from typing import Any

from tinygrad import Tensor, codegen
from tinygrad.codegen import simplify
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp

__all__ = ["correct_tinygrad"]

_MERGE = simplify.simplify_merge_adjacent
_REWRITE: Any = PatternMatcher.rewrite
_ARG_MAX, _MAX_POOL = Tensor.argmax, Tensor.max_pool2d
_ARITHMETIC = tuple(getattr(Ops, name) for name in ("ADD", "SUB", "MUL", "FDIV") if hasattr(Ops, name))
_UNEQUAL = tuple(getattr(Ops, name) for name in ("CMPNE", "CMPEQ") if hasattr(Ops, name))
_WRAPPERS = tuple(
    getattr(Ops, name) for name in ("CAST", "EXPAND", "RESHAPE", "STACK", "VECTORIZE") if hasattr(Ops, name)
)


def correct_tinygrad() -> None:
    """Replace the wrong rules; a second call changes nothing."""
    ranges: Any = codegen.pm_simplify_ranges
    if any(function is _MERGE for _, function in ranges.patterns):
        rules = [(p, _merged if function is _MERGE else function) for p, function in ranges.patterns]
        codegen.pm_simplify_ranges = PatternMatcher(rules)
    # tinygrad 0.14 drops `float -> half -> float`, which is legal only where GPU images are read.
    if hasattr(codegen, "pm_simplify_add_image"):
        codegen.pm_simplify_add_image = PatternMatcher([])
    for owner, name, method in (
        (PatternMatcher, "rewrite", _rewritten),
        (Tensor, "argmax", _arg_max),
        (Tensor, "max_pool2d", _max_pool),
    ):
        setattr(owner, name, method)


def _merged(u: UOp) -> UOp | None:
    """Merge ranges; tinygrad 0.13 and 0.14 also merge one that they have merged before.

    With a range that the summand does not depend on, as in ``x.repeat(2, 1).sum()``, the sum was multiplied twice.
    """
    if u.op is Ops.REDUCE:
        bare = simplify.reduce_unparented(u)
        if bare is not None:
            return bare
    merged = _MERGE(u)
    return merged if merged is None or _trips(merged) == _trips(u) else None


def _trips(u: UOp) -> int:
    return math.prod(int(r.vmax) + 1 for r in u.ended_ranges)


def _arg_max(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest; of nothing but NaN the last one, where tinygrad's is the length of the axis."""
    if axis is None or not dtypes.is_float(x.dtype):
        return _ARG_MAX(x, axis, keepdim)
    axis, length = axis % x.ndim, x.shape[axis]
    if not isinstance(length, int):
        return _ARG_MAX(x, axis, keepdim)
    backward = Tensor.arange(length, 0, -1).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    found = (x == x.max(axis, keepdim=True)).where(backward, 1)
    return (length - found.max(axis, keepdim)).cast(dtypes.int32)


def _max_pool(x: Tensor, kernel_size: Any = (2, 2), *arguments: Any, **options: Any) -> Any:
    """As tinygrad's; the place of a maximum of nothing but NaN is the last of the image, not one behind it."""
    found = _MAX_POOL(x, kernel_size, *arguments, **options)
    if not isinstance(found, tuple) or not dtypes.is_float(x.dtype):
        return found
    sizes = x.shape[-(2 if isinstance(kernel_size, int) else len(kernel_size)) :]
    return found[0], found[1].minimum(math.prod(map(int, sizes)) - 1)


def _rewritten(matcher: PatternMatcher, uop: UOp, ctx: Any = None) -> UOp | None:
    """The first rewrite that keeps the operands of float arithmetic.

    tinygrad makes 0 of ``x - x`` and ``x * 0``, and 1 of ``x / x``, where an infinity, NaN or zero gives NaN.
    Constants that are NaN are equal for it.
    """
    try:
        found: UOp | None = _REWRITE(matcher, uop, ctx)
    except RuntimeError as error:
        # Collapsing a sum may never end, as that of a gather from a scattered table; the sum is right as it is.
        if uop.op is Ops.REDUCE and "infinite loop in graph_rewrite" in str(error):
            return None
        raise
    is_folded = isinstance(found, UOp) and found.op is Ops.CONST
    if is_folded and uop.op in _UNEQUAL and any(_is_nan(s) for s in uop.src):
        unequal: UOp = uop.const_like(uop.op is Ops.CMPNE)
        return unequal
    if found is None or uop.op not in _ARITHMETIC or not _drops_operand(uop, found):
        return found
    before = {u.op for u in uop.src}
    for _, match, needed in matcher.pdict[uop.op]:
        if needed <= before:
            found = match(uop, ctx)
            if found is not None and found is not uop and not _drops_operand(uop, found):
                return found
    return None


def _drops_operand(uop: UOp, found: UOp) -> bool:
    """Whether a sum or product of floats lost an operand that may be infinite or NaN."""
    if not isinstance(found, UOp) or not dtypes.is_float(uop.dtype):
        return False
    variable = [s for s in uop.src if _constant(s) is None and not _is_finite(s)]
    if found.op is Ops.MUL and any(_constant(s) == 0 for s in found.src):
        # `x + x * -1` became `x * 0`.
        return len(variable) == len(uop.src)
    value = _constant(found)
    if found.op is Ops.CONST or value is not None:
        return bool(variable) and value is not None and not math.isnan(value)
    # `x * y / y` became `x`.
    return len(variable) == len(uop.src) and any(found is s or found in s.src for s in uop.src)


def _constant(uop: UOp) -> Any:
    """Value of a constant; None for any other operand."""
    while uop.op in _WRAPPERS and uop.src:
        uop = uop.src[0]
    if uop.op is Ops.ADD and all(s.op is Ops.CONST for s in uop.src):
        values = [_constant(s) for s in uop.src]
        return None if None in values else sum(values)
    # tinygrad also has constants that are not numbers.
    return uop.arg if uop.op is Ops.CONST and isinstance(uop.arg, int | float) else None


def _is_nan(uop: UOp) -> bool:
    value = _constant(uop)
    return isinstance(value, float) and math.isnan(value)


def _is_finite(uop: UOp) -> bool:
    """Whether a float is made of an integer."""
    return uop.op is Ops.CAST and not dtypes.is_float(uop.src[0].dtype) and uop.dtype != dtypes.float16
