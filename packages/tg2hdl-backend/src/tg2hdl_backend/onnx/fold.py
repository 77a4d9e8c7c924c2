"""Values that no input reaches, computed at compile time with ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from tg2hdl_ir.errors import UnsupportedError

__all__ = ["fold_node"]


def fold_node(
    node: NodeProto, version: int, inputs: Sequence[npt.NDArray[Any] | None], where: str
) -> list[npt.NDArray[Any]]:
    """Results of a node whose inputs are all known.

    Raises
    ------
    UnsupportedError
        When the reference implementation lacks the operator or fails.
    """
    given = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(node, opsets={node.domain: version, "": version})
            results = evaluator.run(None, given)
    except Exception as error:
        raise UnsupportedError(
            f"constant of ONNX operator {node.op_type} cannot be computed: {type(error).__name__}: {error}",
            where=where,
            hint="store the constant in the file as an initializer, e.g. with onnxsim",
        ) from error
    return [np.asarray(r) for r in results]
