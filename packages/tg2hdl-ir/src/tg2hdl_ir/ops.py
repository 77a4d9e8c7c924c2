"""The built-in operations: names, type rules and golden evaluation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tg2hdl_ir import evaluation as ev
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors import OpDef, resolve

__all__ = ["BUILTIN_OPS", "TypeClass", "result_types"]

TypeRule = Callable[[tuple[DType, ...]], "DType | Collection[DType] | None"]


@dataclass(frozen=True)
class TypeClass(Collection[DType]):
    """An open set of types, for rules such as that of ``cast``; iterates over the named types in it."""

    description: str
    test: Callable[[DType], bool]

    def __contains__(self, dtype: object) -> bool:
        return isinstance(dtype, DType) and self.test(dtype)

    def __iter__(self) -> Iterator[DType]:
        return (t for t in DType.named() if self.test(t))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __str__(self) -> str:
        return self.description


def result_types(op: OpDef, operands: tuple[DType, ...]) -> Collection[DType]:
    """Result types that `op` may have on these operand types; empty when the operands do not fit.

    Parameters
    ----------
    op : OpDef
        Name.
    operands : tuple of DType
        Their types.
    """
    if len(operands) != op.arity:
        return ()
    allowed = resolve(op.result_type)(operands)
    if allowed is None:
        return ()
    return (allowed,) if isinstance(allowed, DType) else allowed


def _same(*kinds: str) -> TypeRule:
    def rule(types: tuple[DType, ...]) -> DType | None:
        return types[0] if types[0].kind in kinds and all(t == types[0] for t in types) else None

    return rule


def _comparison(types: tuple[DType, ...]) -> DType | None:
    return DType.BOOL if types[0] == types[1] else None


def _where(types: tuple[DType, ...]) -> DType | None:
    return types[1] if types[0].is_bool and types[1] == types[2] else None


def _shift(types: tuple[DType, ...]) -> DType | None:
    return types[0] if types[0].is_int and types[1].is_int else None


def _any(types: tuple[DType, ...]) -> Collection[DType]:
    return TypeClass("any type", lambda _: True)


def _same_width(types: tuple[DType, ...]) -> Collection[DType]:
    width = 8 if types[0].is_bool else types[0].bit_width
    return TypeClass(f"a type of {width} bits", lambda t: (8 if t.is_bool else t.bit_width) == width)


_INT = ("int", "uint")
_NUMBER = (*_INT, "float")
_ALL = (*_NUMBER, "bool")


def _ops() -> Iterator[OpDef]:
    def op(
        name: str,
        rule: TypeRule,
        evaluate: ev.Evaluate,
        description: str,
        arity: int = 2,
    ) -> OpDef:
        return OpDef(name, arity, rule, evaluate, description)

    yield op("add", _same(*_ALL), ev.arithmetic(np.add, np.add), "a + b; or of bools")
    yield op("sub", _same(*_NUMBER), ev.arithmetic(np.subtract, np.subtract), "a - b")
    yield op("mul", _same(*_ALL), ev.arithmetic(np.multiply, np.multiply), "a * b; and of bools")
    yield op("div", _same(*_NUMBER), ev.divide, "a / b; integers truncate toward zero, x / 0 = 0")
    yield op("mod", _same(*_INT), ev.modulo, "remainder of the truncating division; x % 0 = x")
    yield op("max", _same(*_ALL), ev.select_larger, "b if b > a else a")
    yield op("min", _same(*_ALL), ev.select_smaller, "b if b < a else a")
    yield op("neg", _same(*_NUMBER), ev.negate, "-a", 1)
    yield op("and", _same(*_INT, "bool"), ev.bitwise(np.bitwise_and), "bitwise and")
    yield op("or", _same(*_INT, "bool"), ev.bitwise(np.bitwise_or), "bitwise or")
    yield op("xor", _same(*_INT, "bool"), ev.bitwise(np.bitwise_xor), "bitwise exclusive or")
    yield op("shl", _shift, ev.shift_left, "a << b; zero beyond the width")
    yield op(
        "shr", _shift, ev.shift_right, "a >> b, arithmetic for signed a; zero or the sign beyond the width"
    )
    yield op("lt", _comparison, ev.compare(np.less), "a < b")
    yield op("ne", _comparison, ev.compare(np.not_equal), "a != b")
    yield op("eq", _comparison, ev.compare(np.equal), "a == b")
    yield op("where", _where, ev.select, "b if a else c", 3)
    yield op("mulacc", _same(*_INT), ev.multiply_accumulate, "a * b + c on integers", 3)
    yield op("exp2", _same("float"), ev.elementary(np.exp2), "2 to the power a", 1)
    yield op("log2", _same("float"), ev.elementary(np.log2), "logarithm to base 2", 1)
    yield op("sin", _same("float"), ev.elementary(np.sin), "sine of a in radians", 1)
    yield op("sqrt", _same("float"), ev.arithmetic(np.sqrt, np.sqrt), "square root", 1)
    yield op("reciprocal", _same("float"), ev.arithmetic(np.reciprocal, np.reciprocal), "1 / a", 1)
    yield op("trunc", _same("float"), ev.truncate, "nearest integer toward zero", 1)
    yield op("cast", _any, ev.cast, "value in another type", 1)
    yield op("bitcast", _same_width, ev.bitcast, "bits as another type of the same width", 1)


BUILTIN_OPS: tuple[OpDef, ...] = tuple(_ops())
