"""Tensors that a model declares to be codes, or the values of codes.

tinygrad knows quantization only as divisions, roundings and casts.  An operator's quantization of its result is kept
with the UOp, so that `tensor_graph` gives it as one node instead of the float operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from tinygrad import Tensor
from tinygrad.uop.ops import UOp

from tg2hdl_ir.tensors import Quantizer

__all__ = [
    "Declaration",
    "are_finite",
    "declaration_of",
    "declare_codes",
    "declare_values",
    "with_finite_numbers",
]

_finite: ContextVar[bool] = ContextVar("finite", default=False)


@contextmanager
def with_finite_numbers() -> Iterator[None]:
    """Models that are called inside the context get finite numbers only: they are read to be quantized."""
    token = _finite.set(True)
    try:
        yield
    finally:
        _finite.reset(token)


def are_finite() -> bool:
    """Whether a model may expect neither NaN nor infinities."""
    return _finite.get()


class Declaration(NamedTuple):
    """The declaration of a tensor.

    Parameters
    ----------
    op : {"quantize", "dequantize"}
    source : UOp
        Numbers of codes, or codes of numbers.
    quantizer : Quantizer
    label : str
        Name of the operator that declared it.
    """

    op: Literal["quantize", "dequantize"]
    source: UOp
    quantizer: Quantizer
    label: str


_DECLARED: WeakKeyDictionary[UOp, Declaration] = WeakKeyDictionary()


def declare_codes(result: Tensor, source: Tensor, quantizer: Quantizer, label: str = "") -> Tensor:
    """`result`, known to be the codes of `source`.

    Parameters
    ----------
    result : Tensor
        Tensor to declare.
    source : Tensor
        Tensor that it is made of.
    quantizer : Quantizer
    label : str, optional
        Name for messages.
    """
    if result.uop is not source.uop:
        _DECLARED[result.uop] = Declaration("quantize", source.uop, quantizer, label)
    return result


def declare_values(result: Tensor, source: Tensor, quantizer: Quantizer, label: str = "") -> Tensor:
    """`result`, known to be the numbers that the codes `source` stand for.

    Parameters
    ----------
    result : Tensor
        Tensor to declare.
    source : Tensor
        Tensor that it is made of.
    quantizer : Quantizer
    label : str, optional
        Name for messages.
    """
    if result.uop is not source.uop:
        _DECLARED[result.uop] = Declaration("dequantize", source.uop, quantizer, label)
    return result


def declaration_of(uop: UOp) -> Declaration | None:
    """The declaration of a tensor, if any."""
    return _DECLARED.get(uop)
