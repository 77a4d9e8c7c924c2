"""Linear models, scalers and labels of the domain ai.onnx.ml, which skl2onnx writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide

__all__ = [
    "array_feature_extractor",
    "binarizer",
    "class_label",
    "feature_vectorizer",
    "imputer",
    "label_encoder",
    "linear_classifier",
    "linear_regressor",
    "normalizer",
    "one_hot_encoder",
    "post_transform",
    "scaler",
    "transformed",
    "zip_map",
]


def _real(x: Tensor) -> Tensor:
    return x.cast(dtypes.float32)


def _row(node: OnnxNode, name: str) -> Tensor | None:
    values = node.attribute(name)
    return None if not values else constant(node, np.array(values, np.float32))


def scaler(node: OnnxNode, x: Tensor) -> Tensor:
    """``(x - offset) * scale`` of each feature.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `Scaler`.
    """
    offset, scale = _row(node, "offset"), _row(node, "scale")
    value = _real(x) if offset is None else _real(x) - offset
    return value if scale is None else value * scale


def normalizer(node: OnnxNode, x: Tensor) -> Tensor:
    """Each row divided by its norm; a row of zeros stays.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `Normalizer`.
    """
    value = _real(x)
    norms: dict[str, Callable[[], Tensor]] = {
        "MAX": lambda: value.max(-1, keepdim=True),
        "L1": lambda: value.abs().sum(-1, keepdim=True),
        "L2": lambda: value.square().sum(-1, keepdim=True).sqrt(),
    }
    norm = norms[node.attribute("norm", "MAX")]()
    return (norm == 0).where(value, divide(value, (norm == 0).where(1.0, norm)))


def binarizer(node: OnnxNode, x: Tensor) -> Tensor:
    """One above the threshold, else zero.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `Binarizer`.
    """
    threshold: float = node.attribute("threshold", 0.0)
    return (x > threshold).cast(x.dtype)


def imputer(node: OnnxNode, x: Tensor) -> Tensor:
    """Constants in place of missing values.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `Imputer`.
    """
    floats = node.attribute("imputed_value_floats")
    if floats:
        missing = node.attribute("replaced_value_float", 0.0)
        found: Tensor = x.isnan() if np.isnan(missing) else x == missing
        return found.where(constant(node, np.array(floats, np.float32)), x)
    values = np.array(node.attribute("imputed_value_int64s"), np.int64)
    found = x == node.attribute("replaced_value_int64", 0)
    return found.where(constant(node, values), x)


def feature_vectorizer(node: OnnxNode, *parts: Tensor) -> Tensor:
    """Features of several inputs in one row."""
    real = [_real(p).reshape(p.shape[0], -1) for p in parts]
    return real[0].cat(*real[1:], dim=1)


def array_feature_extractor(node: OnnxNode, x: Tensor, indices: Tensor) -> Tensor:
    """Chosen features.

    Parameters
    ----------
    node, x, indices
        The node and its inputs, as the domain ai.onnx.ml defines `ArrayFeatureExtractor`.
    """
    result = x[..., indices.reshape(-1).cast(dtypes.int32)]
    return result.reshape(1, -1) if x.ndim == 1 else result


def one_hot_encoder(node: OnnxNode, x: Tensor) -> Tensor:
    """A column for each category, one where it is the value; all zero for another value.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `OneHotEncoder`.
    """
    if node.attribute("cats_strings"):
        raise node.unsupported("categories are strings", "encode categories as integers")
    categories = np.array(node.attribute("cats_int64s"), np.int64)
    whole = x.cast(dtypes.int64) if x.dtype != dtypes.int64 else x
    return (whole.unsqueeze(-1) == constant(node, categories)).cast(dtypes.float32)


def zip_map(node: OnnxNode, x: Tensor) -> Tensor:
    """The probabilities themselves, a column per class: hardware has no dictionaries.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `ZipMap`.
    """
    return x


def post_transform(node: OnnxNode, scores: Tensor) -> Tensor:
    """Scores as probabilities, by the attribute of that name.

    Parameters
    ----------
    node : OnnxNode
        With the attribute ``post_transform``.
    scores : Tensor
        Of shape (rows, classes).
    """
    return transformed(node, scores, node.attribute("post_transform", "NONE"))


def transformed(node: OnnxNode, scores: Tensor, kind: str) -> Tensor:
    """Scores as probabilities.

    Parameters
    ----------
    node : OnnxNode
        For the error.
    scores : Tensor
        Of shape (rows, classes).
    kind : str
        ``NONE``, ``LOGISTIC``, ``SOFTMAX`` or ``SOFTMAX_ZERO``.
    """
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return scores.sigmoid()
    if kind == "SOFTMAX":
        return scores.softmax(-1)
    if kind == "SOFTMAX_ZERO":
        masked = (scores == 0).where(-float("inf"), scores)
        return (scores == 0).where(0.0, masked.softmax(-1))
    raise node.unsupported(f"post_transform {kind}", "use NONE, LOGISTIC or SOFTMAX")


def class_labels(node: OnnxNode) -> list[int]:
    """Labels of the classes; those that are strings by their numbers."""
    for name in ("classlabels_strings", "classlabels_string"):
        if node.attribute(name):
            return [int(n) for n in node.text.codes(node.attribute(name))]
    labels = node.attribute("classlabels_int64s") or node.attribute("classlabels_ints") or []
    return [int(n) for n in labels]


def class_label(node: OnnxNode, index: Tensor, labels: list[int]) -> Tensor:
    """Label of a class number, from a table unless they are the numbers.

    Parameters
    ----------
    node : OnnxNode
    index : Tensor
        Number of the class.
    labels : list of int
        Of all classes.
    """
    if labels == list(range(len(labels))):
        return index.cast(dtypes.int64)
    return constant(node, np.array(labels, np.int64))[index.cast(dtypes.int32)]


def linear_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    """Label of the largest score, and the scores.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `LinearClassifier`.
    """
    labels = class_labels(node)
    weights = np.array(node.attribute("coefficients"), np.float32)
    rows = weights.reshape(-1, x.shape[-1] if x.ndim > 1 else x.shape[0])
    value = _real(x) if x.ndim > 1 else _real(x).reshape(1, -1)
    scores = value @ constant(node, np.ascontiguousarray(rows.T))
    intercepts = node.attribute("intercepts")
    if intercepts:
        scores = scores + constant(node, np.array(intercepts, np.float32))
    if len(rows) == 1:
        return _one_score(node, scores, labels)
    index = scores.argmax(-1)
    return class_label(node, index, labels), post_transform(node, scores)


def _one_score(node: OnnxNode, scores: Tensor, labels: list[int]) -> tuple[Tensor, Tensor]:
    """Two classes with one score: the second class is positive."""
    kind = node.attribute("post_transform", "NONE")
    if kind not in ("NONE", "LOGISTIC"):
        raise node.unsupported(f"post_transform {kind} of one score", "export a score for each class")
    positive = scores.reshape(-1) > 0
    both = (1 - scores.sigmoid()).cat(scores.sigmoid(), dim=1)
    if kind == "NONE":
        both = (-scores).cat(scores, dim=1)
    return class_label(node, positive.cast(dtypes.int32), labels or [0, 1]), both


def linear_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    """Scores of each target.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `LinearRegressor`.
    """
    targets = node.attribute("targets", 1)
    weights = np.array(node.attribute("coefficients"), np.float32).reshape(targets, -1)
    scores = _real(x) @ constant(node, np.ascontiguousarray(weights.T))
    intercepts = node.attribute("intercepts")
    if intercepts:
        scores = scores + constant(node, np.array(intercepts, np.float32))
    return post_transform(node, scores)


def label_encoder(node: OnnxNode, x: Tensor) -> Tensor:
    """Values by keys: a comparison for each key.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `LabelEncoder`.
    """
    keys, values, default = (node.text.codes(a) if a.dtype.kind in "OUS" else a for a in _mapping(node))
    column = x.unsqueeze(-1)
    found = column.isnan() & constant(node, np.isnan(keys)) if keys.dtype.kind == "f" else None
    equal = column == constant(node, keys)
    equal = equal if found is None else equal | found
    picked = equal.where(constant(node, values), constant(node, np.zeros(1, values.dtype)))
    # Keys are unique, so that a sum has one term at most.
    return equal.any(-1).where(picked.sum(-1).cast(picked.dtype), constant(node, default.reshape(())))


def _mapping(node: OnnxNode) -> tuple[Any, Any, Any]:
    kinds: dict[str, Any] = {"int64s": np.int64, "floats": np.float32, "strings": object}

    def read(prefix: str) -> Any:
        if node.attribute(f"{prefix}_tensor") is not None:
            return np.asarray(node.attribute(f"{prefix}_tensor"))
        for kind, dtype in kinds.items():
            if node.attribute(f"{prefix}_{kind}"):
                return np.array(node.attribute(f"{prefix}_{kind}"), dtype)
        raise node.unsupported("it has no keys and values", "check the file with onnx.checker")

    keys, values = read("keys"), read("values")
    default = node.attribute("default_tensor")
    if default is None:
        given = {np.dtype(np.int64): ("default_int64", -1), np.dtype(np.float32): ("default_float", -0.0)}
        name, value = given.get(values.dtype, ("default_string", "_Unused"))
        default = np.array(node.attribute(name, value), values.dtype)
    return keys, values, np.asarray(default)
