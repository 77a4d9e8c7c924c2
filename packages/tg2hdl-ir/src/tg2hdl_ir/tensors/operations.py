"""Operations of tensor graphs: those on elements are operations of the kernel IR, by the names that tinygrad has."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.ops import BUILTIN_OPS, result_types
from tg2hdl_ir.plugins.descriptors import OpDef, resolve

__all__ = ["ELEMENTWISE", "MOVEMENT", "REDUCTIONS", "Elementwise"]

Array = npt.NDArray[Any]

MOVEMENT = frozenset({"reshape", "expand", "permute", "pad", "shrink", "flip"})
"""Operations that place elements without changing them; ``pad`` adds zeros."""


@dataclass(frozen=True)
class Elementwise:
    """An operation on elements.

    Parameters
    ----------
    kernel : OpDef, optional
        The operation of the kernel IR, which has its types; without one it is an operation on two operands of one type.
    numpy : callable, optional
        In numpy's float32, with its NaNs; the evaluation of the kernel IR unless given.
    """

    kernel: OpDef | None
    numpy: Callable[..., Any] | None

    @property
    def arity(self) -> int:
        """Number of operands."""
        return 2 if self.kernel is None else self.kernel.arity

    def result_types(self, operands: tuple[DType, ...]) -> Collection[DType]:
        """Types that a result may have; empty when the operands do not fit."""
        if self.kernel is None:
            return operands[:1] if len(set(operands)) == 1 else ()
        return result_types(self.kernel, operands)

    def __call__(self, operands: list[Array], types: tuple[DType, ...], result: DType) -> Array:
        """The results in the type of the result."""
        if self.numpy is None:
            assert self.kernel is not None
            return np.asarray(resolve(self.kernel.evaluate)(tuple(operands), types, result))
        return np.asarray(self.numpy(*operands)).astype(result.numpy(), copy=False)


_KERNEL = {op.name: op for op in BUILTIN_OPS}
_ROWS: tuple[tuple[str, str, Callable[..., Any] | None], ...] = (
    ("ADD", "add", np.add),
    ("SUB", "sub", np.subtract),
    ("MUL", "mul", np.multiply),
    ("NEG", "neg", np.negative),
    ("MAX", "max", np.maximum),
    ("FDIV", "div", np.divide),
    ("RECIPROCAL", "reciprocal", np.reciprocal),
    ("EXP2", "exp2", np.exp2),
    ("LOG2", "log2", np.log2),
    ("SIN", "sin", np.sin),
    ("SQRT", "sqrt", np.sqrt),
    ("TRUNC", "trunc", np.trunc),
    ("CMPLT", "lt", np.less),
    ("CMPNE", "ne", np.not_equal),
    ("CMPEQ", "eq", np.equal),
    ("WHERE", "where", np.where),
    ("AND", "and", np.bitwise_and),
    ("OR", "or", np.bitwise_or),
    ("XOR", "xor", np.bitwise_xor),
    ("SHL", "shl", np.left_shift),
    ("SHR", "shr", np.right_shift),
    ("CDIV", "div", None),
    ("CMOD", "mod", None),
    ("POW", "", np.power),
    ("cast", "cast", None),
)

ELEMENTWISE = {name: Elementwise(_KERNEL.get(kernel), numpy) for name, kernel, numpy in _ROWS}
"""Operations on elements; operands broadcast as in numpy."""


def _sum(value: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray((value if value.dtype.kind == "f" else value.astype(np.int64)).sum(axes))


REDUCTIONS: dict[str, Callable[[Array, tuple[int, ...]], Any]] = {
    "sum": _sum,
    "max": lambda value, axes: value.max(axes),
    "prod": lambda value, axes: value.prod(axes),
}
"""Reductions over axes, which are removed."""
