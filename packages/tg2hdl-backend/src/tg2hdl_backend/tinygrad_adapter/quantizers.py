"""Tensors that a model declares to be codes, or numbers that codes stand for.

tinygrad knows quantization only as divisions, roundings and casts.  What an operator says about its result is kept
beside the UOp, so that `tensor_graph` gives it as one node instead of the float operations.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

from tinygrad import Tensor
from tinygrad.uop.ops import UOp

from tg2hdl_ir.tensors import Quantizer

__all__ = ["Declaration", "declaration_of", "declare_codes", "declare_values"]


class Declaration(NamedTuple):
    """What a tensor is made of.

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
    """`result`, known to be the codes of `source`."""
    if result.uop is not source.uop:
        _DECLARED[result.uop] = Declaration("quantize", source.uop, quantizer, label)
    return result


def declare_values(result: Tensor, source: Tensor, quantizer: Quantizer, label: str = "") -> Tensor:
    """`result`, known to be the numbers that the codes `source` stand for."""
    if result.uop is not source.uop:
        _DECLARED[result.uop] = Declaration("dequantize", source.uop, quantizer, label)
    return result


def declaration_of(uop: UOp) -> Declaration | None:
    """What was declared about a tensor."""
    return _DECLARED.get(uop)
