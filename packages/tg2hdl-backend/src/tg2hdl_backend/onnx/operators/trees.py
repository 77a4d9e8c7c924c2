"""Tree ensembles of the domain ai.onnx.ml: nodes are rows of tables, a step of the walk is a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant
from tg2hdl_backend.onnx.operators.linear_models import class_label, class_labels, post_transform

__all__ = ["tree_classifier", "tree_regressor"]

_COMPARE = {
    "BRANCH_LEQ": lambda x, t: x <= t,
    "BRANCH_LT": lambda x, t: x < t,
    "BRANCH_GTE": lambda x, t: x >= t,
    "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t,
    "BRANCH_NEQ": lambda x, t: x != t,
}


@dataclass(frozen=True)
class _Forest:
    """Tables over the nodes of all trees.

    Parameters
    ----------
    feature, threshold, yes, no : ndarray
        What a node compares, and the next node for either result; a leaf leads to itself.
    modes : ndarray of str
        Comparison of each node; empty at a leaf.
    missing : ndarray of bool
        Whether NaN counts as true.
    roots : ndarray
        First node of each tree.
    depth : int
        Comparisons on the longest path.
    """

    feature: npt.NDArray[Any]
    threshold: npt.NDArray[Any]
    yes: npt.NDArray[Any]
    no: npt.NDArray[Any]
    modes: npt.NDArray[Any]
    missing: npt.NDArray[Any]
    roots: npt.NDArray[Any]
    depth: int
    row: dict[tuple[int, int], int]


def _forest(node: OnnxNode) -> _Forest:
    trees, ids = node.attribute("nodes_treeids"), node.attribute("nodes_nodeids")
    row = {key: n for n, key in enumerate(zip(trees, ids, strict=True))}
    modes = np.array(node.attribute("nodes_modes"))
    leaf = modes == "LEAF"
    for mode in set(modes[~leaf]):
        if mode not in _COMPARE:
            raise node.unsupported(f"comparison {mode}", "use one of " + ", ".join(_COMPARE))

    def follow(name: str) -> npt.NDArray[Any]:
        targets = node.attribute(name)
        return np.array([n if leaf[n] else row[trees[n], targets[n]] for n in range(len(row))], np.int32)

    yes, no = follow("nodes_truenodeids"), follow("nodes_falsenodeids")
    children = set(yes[~leaf]) | set(no[~leaf])
    roots = np.array([n for n in range(len(row)) if n not in children], np.int32)
    at, depth = set(roots.tolist()), 0
    while any(not leaf[n] for n in at):
        at, depth = {int(m) for n in at if not leaf[n] for m in (yes[n], no[n])}, depth + 1
    missing = np.array(node.attribute("nodes_missing_value_tracks_true") or [0] * len(row), bool)
    return _Forest(
        np.where(leaf, 0, node.attribute("nodes_featureids")).astype(np.int32),
        np.array(node.attribute("nodes_values"), np.float32),
        yes,
        no,
        np.where(leaf, "", modes),
        missing,
        roots,
        depth,
        row,
    )


def _walk(node: OnnxNode, x: Tensor, forest: _Forest) -> Tensor:
    """Row of the leaf that each tree ends at, of shape (samples, trees)."""
    real = x.cast(dtypes.float32)
    tables = [constant(node, t) for t in (forest.feature, forest.threshold, forest.yes, forest.no)]
    at = constant(node, forest.roots).reshape(1, -1).expand(x.shape[0], len(forest.roots))
    modes = sorted(set(forest.modes) - {""})
    for _ in range(forest.depth):
        feature, threshold, yes, no = (t[at] for t in tables)
        value = real.gather(1, feature.contiguous())
        true = _COMPARE[modes[0]](value, threshold)
        for mode in modes[1:]:
            this = constant(node, forest.modes == mode)[at]
            true = this.where(_COMPARE[mode](value, threshold), true)
        if forest.missing.any():
            true = true | (value.isnan() & constant(node, forest.missing)[at])
        # Each step reads the previous one several times.
        at = true.where(yes, no).contiguous()
    return at


def _sums(node: OnnxNode, x: Tensor, prefix: str, columns: int, ids: Any) -> Tensor:
    """Weights of the leaves, added over the trees: (samples, columns)."""
    forest = _forest(node)
    table = np.zeros((len(forest.row), columns), np.float32)
    keys = zip(node.attribute(f"{prefix}_treeids"), node.attribute(f"{prefix}_nodeids"), strict=True)
    for key, column, weight in zip(keys, ids, node.attribute(f"{prefix}_weights"), strict=True):
        table[forest.row[key], column] += np.float32(weight)
    leaves = _walk(node, x, forest)
    kind = node.attribute("aggregate_function", "SUM")
    found: list[Tensor] = []
    for column in range(columns):
        weights = constant(node, table[:, column])[leaves].contiguous()
        reduced = {"MIN": lambda w: w.min(1), "MAX": lambda w: w.max(1)}.get(kind, lambda w: w.sum(1))(
            weights
        )
        found.append(reduced * (1 / len(forest.roots)) if kind == "AVERAGE" else reduced)
    scores = Tensor.stack(*found, dim=1)
    base = node.attribute("base_values")
    return scores + constant(node, np.array(base, np.float32)) if base else scores


def tree_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    """Sum, mean, smallest or largest of the leaves of all trees."""
    return post_transform(
        node, _sums(node, x, "target", node.attribute("n_targets", 1), node.attribute("target_ids"))
    )


def tree_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    """Label of the largest score, and the scores."""
    labels, ids = class_labels(node), list(node.attribute("class_ids"))
    if len(labels) == 2 and len(set(ids)) == 1:
        return _binary(node, x, labels)
    scores = _sums(node, x, "class", len(labels), ids)
    return class_label(node, scores.argmax(-1), labels), post_transform(node, scores)


def _binary(node: OnnxNode, x: Tensor, labels: list[int]) -> tuple[Tensor, Tensor]:
    """Two classes whose leaves weigh one of them, as ONNX Runtime scores them."""
    base = list(node.attribute("base_values") or [])
    if len(base) > 1:
        raise node.unsupported("two base values with one score", "export a score for each class")
    score = _sums(node, x, "class", 1, [0] * len(node.attribute("class_ids")))
    positive = all(w >= 0 for w in node.attribute("class_weights"))
    kind = node.attribute("post_transform", "NONE")
    if kind == "NONE":
        both = (1 - score).cat(score, dim=1) if positive else (-score).cat(score, dim=1)
    elif kind == "LOGISTIC":
        both = (-score).sigmoid().cat(score.sigmoid(), dim=1)
    else:
        raise node.unsupported(f"post_transform {kind} of one score", "export a score for each class")
    chosen = score.reshape(-1) > (0.5 if positive and kind == "NONE" else 0)
    return class_label(node, chosen.cast(dtypes.int32), labels), both
