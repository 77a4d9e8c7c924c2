"""Support vector machines of the domain ai.onnx.ml."""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators import real_functions
from tg2hdl_backend.onnx.operators.arithmetic import constant
from tg2hdl_backend.onnx.operators.linear_models import class_label, class_labels, post_transform

__all__ = ["svm_classifier", "svm_regressor"]


def _kernel(node: OnnxNode, x: Tensor, rows: np.ndarray) -> Tensor:
    """Kernel of each sample with each row: (samples, rows)."""
    kind = node.attribute("kernel_type", "LINEAR")
    given: list[float] = [*(node.attribute("kernel_params") or []), 0.0, 0.0, 0.0]
    gamma, shift, degree = given[:3]
    if kind == "RBF":
        difference = x.unsqueeze(1) - constant(node, rows)
        return ((difference * difference).sum(-1) * -gamma).exp()
    product = x @ constant(node, np.ascontiguousarray(rows.T))
    if kind == "LINEAR":
        return product
    scaled = product * gamma + shift
    if kind == "POLY":
        return scaled.pow(int(degree) if degree == int(degree) else degree)
    if kind == "SIGMOID":
        return real_functions.tanh(scaled)
    raise node.unsupported(f"kernel {kind}", "use LINEAR, POLY, RBF or SIGMOID")


def _rows(node: OnnxNode, features: int) -> np.ndarray:
    return np.array(node.attribute("support_vectors"), np.float32).reshape(-1, features)


def svm_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    """Sum of kernels with the support vectors; the sign of it for a class of its own.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `SVMRegressor`.
    """
    real = x.cast(dtypes.float32)
    weights = np.array(node.attribute("coefficients"), np.float32).reshape(-1, 1)
    if node.attribute("n_supports", 0):
        found = _kernel(node, real, _rows(node, int(x.shape[-1]))).contiguous() @ constant(node, weights)
    else:
        found = _kernel(node, real, np.ascontiguousarray(weights.T))
    total = found + float(node.attribute("rho")[0])
    if node.attribute("one_class", 0):
        return (total > 0).where(1.0, -1.0)
    return post_transform(node, total)


def svm_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    """Class with the most votes of the pairs of classes, and the decision of each pair.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `SVMClassifier`.
    """
    if node.attribute("prob_a"):
        raise node.unsupported(
            "probabilities of pairs of classes are found by iteration",
            "fit CalibratedClassifierCV(SVC(), ensemble=False), whose probabilities are a sigmoid, "
            "or with probability=False",
        )
    counts = node.attribute("vectors_per_class")
    if not counts or node.attribute("post_transform", "NONE") != "NONE":
        raise node.unsupported("it has no support vectors, or a post_transform", "export a linear classifier")
    labels, classes = class_labels(node), len(counts)
    rows = _rows(node, int(x.shape[-1]))
    kernels = _kernel(node, x.cast(dtypes.float32), rows).contiguous()
    coefficients = np.array(node.attribute("coefficients"), np.float32).reshape(classes - 1, -1)
    ends = np.cumsum([0, *counts])
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    matrix = np.zeros((len(rows), len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), classes), np.int32)
    for n, (i, j) in enumerate(pairs):
        matrix[ends[i] : ends[i + 1], n] = coefficients[j - 1, ends[i] : ends[i + 1]]
        matrix[ends[j] : ends[j + 1], n] = coefficients[i, ends[j] : ends[j + 1]]
        votes[1, n, i] = votes[0, n, j] = 1
    scores = kernels @ constant(node, matrix) + constant(node, np.array(node.attribute("rho"), np.float32))
    scores = scores.contiguous()
    won = (scores > 0).unsqueeze(-1).where(constant(node, votes[1]), constant(node, votes[0])).sum(1)
    index = won.argmax(-1)
    if len(pairs) == 1:
        return class_label(node, index, labels), (-scores).cat(scores, dim=1)
    return class_label(node, index, labels), scores
