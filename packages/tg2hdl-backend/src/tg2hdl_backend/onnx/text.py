"""Text in a graph: each string of the file has a number, which the hardware computes with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto

__all__ = ["COPIES", "TextTable", "is_text", "text_results"]

COPIES = frozenset(
    ("ArrayFeatureExtractor", "Cast", "Concat", "Equal", "Expand", "Flatten", "Gather", "GatherElements")
) | frozenset(
    (
        "GatherND",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    )
)
"""Operators that only move or compare elements, and so take numbers for text."""
_CLASSIFIERS = ("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier")


class TextTable:
    """Strings of a file in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def codes(self, strings: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Numbers of strings, in the shape of the array that they come in."""
        array = np.asarray(strings, object)
        words = [w.decode() if isinstance(w, bytes) else str(w) for w in array.reshape(-1)]
        found = [self._numbers.setdefault(w, len(self._numbers)) for w in words]
        return np.array(found, np.int64).reshape(array.shape)

    @property
    def strings(self) -> tuple[str, ...]:
        """All strings, each at the place of its number."""
        return tuple(self._numbers)

    def decoded(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Strings of numbers."""
        words: npt.NDArray[Any] = np.array(list(self._numbers), str)
        found: npt.NDArray[Any] = words[codes]
        return found


def text_results(node: NodeProto, attributes: Mapping[str, Any], copies_text: bool) -> frozenset[int]:
    """Which results of a node are text.

    Parameters
    ----------
    copies_text : bool
        Whether an input of a copying operator is text.
    """
    if node.op_type in _CLASSIFIERS and (
        attributes.get("classlabels_strings") or attributes.get("classlabels_string")
    ):
        return frozenset({0})
    if node.op_type == "LabelEncoder":
        tensor = attributes.get("values_tensor")
        text = attributes.get("values_strings") or (tensor is not None and tensor.dtype.kind in "OUS")
        return frozenset({0} if text else ())
    if copies_text and node.op_type != "Equal":
        return frozenset(range(len(node.output)))
    return frozenset()


def is_text(proto: TensorProto) -> bool:
    """Whether a tensor of the file holds strings."""
    return bool(proto.data_type == TensorProto.STRING)
