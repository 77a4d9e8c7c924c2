"""Constant values, computed at compile time.

Operators of ONNX are computed with its reference implementation, those of other domains by their own definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator
from tinygrad import Tensor

from tg2hdl_backend.tinygrad_adapter.capture import capture
from tg2hdl_backend.tinygrad_adapter.symbolic import without_captures
from tg2hdl_ir import DType, UnsupportedError, evaluate_program

__all__ = ["fold_node", "fold_tensors", "has_reference"]

_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def has_reference(domain: str) -> bool:
    """Whether ONNX's reference implementation has operators of a domain."""
    return domain in _DOMAINS


class _Constant:
    """A model without inputs and weights."""

    input_names = ()

    def __init__(self, results: list[Tensor]) -> None:
        self._results = results

    def named_weights(self) -> dict[str, Tensor]:
        return {}

    def __call__(self) -> list[Tensor]:
        return self._results


def fold_tensors(tensors: list[Tensor]) -> list[npt.NDArray[Any]]:
    """Arrays of tensors that depend on no input, with the numbers that hardware would give."""
    if any(0 in t.shape for t in tensors):
        return [np.zeros(tuple(map(int, t.shape)), DType.from_tinygrad(t.dtype).numpy()) for t in tensors]
    with without_captures():
        captured = capture(_Constant(tensors), fold=False)
    program = captured.program
    found = evaluate_program(program, captured.bind())
    return [found[program.buffers[s.buffer].name].reshape(s.shape) for s in captured.outputs]


def _model(node: NodeProto, version: int, given: Mapping[str, npt.NDArray[Any]]) -> ModelProto:
    """A model with only this node, so that the reference implementation uses its opset version."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    domain = "" if node.domain == "ai.onnx" else node.domain
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)])


def fold_node(
    node: NodeProto, version: int, inputs: Sequence[npt.NDArray[Any] | None], where: str
) -> list[npt.NDArray[Any]]:
    """Results of a node whose inputs are all known.

    Parameters
    ----------
    node : NodeProto
    version : int
        Of its operator set.
    inputs : sequence of ndarray or None
        Contents; None for an absent input.
    where : str
        Node, for the error.

    Raises
    ------
    UnsupportedError
        When the reference implementation lacks the operator or fails.
    """
    given = {name: array for name, array in zip(node.input, inputs, strict=True) if array is not None}
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(_model(node, version, given)).run(None, given)
    except MemoryError:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"constant of ONNX operator {node.op_type} cannot be computed: {type(error).__name__}: {error}",
            where=where,
            hint="store the constant in the file as an initializer, e.g. with onnxsim",
        ) from error
    found = iter(results)
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.output]
