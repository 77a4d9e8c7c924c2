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
from tg2hdl_backend.onnx.operators.linear_models import class_label, class_labels, post_transform, transformed

__all__ = ["tree_classifier", "tree_ensemble", "tree_regressor"]

Array = npt.NDArray[Any]
_MODES = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class _Forest:
    """Tables over the nodes of all trees.

    Parameters
    ----------
    feature, threshold, yes, no : ndarray
        The comparison of each node, and the next node for either result; a leaf leads to itself.
    modes : ndarray of str
        Comparison of each node; empty at a leaf.
    missing : ndarray of bool
        Whether NaN counts as true.
    roots : ndarray
        First node of each tree.
    members : ndarray
        Values of a membership test, a row for each node, filled with NaN.
    """

    feature: Array
    threshold: Array
    yes: Array
    no: Array
    modes: Array
    missing: Array
    roots: Array
    members: Array

    @property
    def depth(self) -> int:
        """Comparisons on the longest path."""
        at, depth = set(self.roots.tolist()), 0
        while any(self.modes[n] for n in at):
            at = {int(m) for n in at if self.modes[n] for m in (self.yes[n], self.no[n])}
            depth += 1
        return depth


def _values(node: OnnxNode, name: str) -> Any:
    """A list of numbers, which an attribute gives as floats or as a tensor of doubles."""
    tensor = node.attribute(f"{name}_as_tensor")
    return node.attribute(name) if tensor is None else tensor


def _forest(node: OnnxNode) -> tuple[_Forest, dict[tuple[int, int], int]]:
    """The trees of versions 1 to 4, and the row of each (tree, node)."""
    trees, ids = node.attribute("nodes_treeids"), node.attribute("nodes_nodeids")
    row = {key: n for n, key in enumerate(zip(trees, ids, strict=True))}
    modes = np.array(node.attribute("nodes_modes"))
    leaf = modes == "LEAF"
    for mode in set(modes[~leaf]):
        if mode not in _MODES[:-1]:
            raise node.unsupported(f"comparison {mode}", "use one of " + ", ".join(_MODES[:-1]))

    def follow(name: str) -> Array:
        targets = node.attribute(name)
        return np.array([n if leaf[n] else row[trees[n], targets[n]] for n in range(len(row))], np.int32)

    yes, no = follow("nodes_truenodeids"), follow("nodes_falsenodeids")
    children = set(yes[~leaf]) | set(no[~leaf])
    forest = _Forest(
        np.where(leaf, 0, node.attribute("nodes_featureids")).astype(np.int32),
        np.asarray(_values(node, "nodes_values")),
        yes,
        no,
        np.where(leaf, "", modes),
        np.array(node.attribute("nodes_missing_value_tracks_true") or [0] * len(row), bool),
        np.array([n for n in range(len(row)) if n not in children], np.int32),
        np.zeros((len(row), 0)),
    )
    return forest, row


def _compare(
    mode: str, value: Tensor, threshold: Array, at: Tensor, node: OnnxNode, forest: _Forest
) -> Tensor:
    """A comparison, false for NaN except of inequality."""
    if mode in ("BRANCH_LEQ", "BRANCH_GTE") and np.isinf(threshold[forest.modes == mode]).any():
        other = constant(node, threshold)[at]
        return (value == other) | (value < other if mode == "BRANCH_LEQ" else value > other)
    # tinygrad's own `<=` is true for NaN; below the next number is the same test for a finite threshold.
    if mode == "BRANCH_LEQ":
        return value < constant(node, np.nextafter(threshold, np.inf, dtype=threshold.dtype))[at]
    if mode == "BRANCH_GTE":
        return value > constant(node, np.nextafter(threshold, -np.inf, dtype=threshold.dtype))[at]
    other = constant(node, threshold)[at]
    if mode == "BRANCH_LT":
        return value < other
    if mode == "BRANCH_GT":
        return value > other
    return value == other if mode == "BRANCH_EQ" else value != other


def _walk(node: OnnxNode, x: Tensor, forest: _Forest) -> Tensor:
    """Row of the leaf that each tree ends at, of shape (samples, trees)."""
    real = x if x.dtype == dtypes.float64 else x.cast(dtypes.float32)
    threshold = forest.threshold.astype(np.float64 if real.dtype == dtypes.float64 else np.float32)
    modes = sorted(set(forest.modes) - {""})
    tables = [constant(node, t) for t in (forest.feature, forest.yes, forest.no)]
    at = constant(node, forest.roots).reshape(1, -1).expand(x.shape[0], len(forest.roots))
    for _ in range(forest.depth):
        feature, yes, no = (t[at] for t in tables)
        value = real.gather(1, feature.contiguous())
        true: Tensor | None = None
        for mode in modes:
            if mode == "BRANCH_MEMBER":
                members = constant(node, forest.members.astype(threshold.dtype))[at]
                found = (value.unsqueeze(-1) == members).any(-1)
            else:
                found = _compare(mode, value, threshold, at, node, forest)
            true = found if true is None else constant(node, forest.modes == mode)[at].where(found, true)
        assert true is not None
        if forest.missing.any():
            true = true | (value.isnan() & constant(node, forest.missing)[at])
        # Each step reads the previous one several times.
        at = true.where(yes, no).contiguous()
    return at


def _table(
    node: OnnxNode, row: dict[tuple[int, int], int], prefix: str, columns: int, ids: Any
) -> tuple[Array, Array]:
    """Weight of each leaf and column, and whether there is one."""
    table, given = np.zeros((len(row), columns)), np.zeros((len(row), columns), bool)
    keys = zip(node.attribute(f"{prefix}_treeids"), node.attribute(f"{prefix}_nodeids"), strict=True)
    for key, column, weight in zip(keys, ids, _values(node, f"{prefix}_weights"), strict=True):
        place = row[key], column
        # With one column ONNX Runtime takes the first weight of a leaf; skl2onnx repeats them in paths.
        if not (given[place] and columns == 1):
            table[place] += weight
        given[place] = True
    return table, given


def _sums(
    node: OnnxNode, x: Tensor, forest: _Forest, weights: tuple[Array, Array], kind: str, base: Any = None
) -> Tensor:
    """Weights of the leaves, aggregated over the trees: (samples, columns)."""
    table, given = weights
    if kind in ("MIN", "MAX") and not given[forest.modes == ""].all():
        raise node.unsupported(f"{kind} where a leaf has no weight of a target", "give every leaf its weight")
    leaves = _walk(node, x, forest)
    dtype = np.float64 if x.dtype == dtypes.float64 else np.float32
    found: list[Tensor] = []
    for column in range(table.shape[1]):
        of = constant(node, table[:, column].astype(dtype))[leaves].contiguous()
        reduced = of.min(1) if kind == "MIN" else of.max(1) if kind == "MAX" else of.sum(1)
        found.append(reduced * (1 / len(forest.roots)) if kind == "AVERAGE" else reduced)
    scores = Tensor.stack(*found, dim=1)
    return scores + constant(node, np.array(base, dtype)) if base is not None and len(base) else scores


def tree_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    """Sum, mean, smallest or largest of the leaves of all trees.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `TreeEnsembleRegressor`.
    """
    forest, row = _forest(node)
    weights = _table(node, row, "target", node.attribute("n_targets", 1), node.attribute("target_ids"))
    kind = node.attribute("aggregate_function", "SUM")
    scores = _sums(node, x, forest, weights, kind, _values(node, "base_values"))
    return post_transform(node, scores).cast(dtypes.float32)


def tree_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    """Label of the largest score, and the scores.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `TreeEnsembleClassifier`.
    """
    labels, ids = class_labels(node), list(node.attribute("class_ids"))
    forest, row = _forest(node)
    base = _values(node, "base_values")
    if len(labels) == 2 and len(set(ids)) == 1:
        if base is not None and len(base) > 1:
            raise node.unsupported("two base values with one score", "export a score for each class")
        score = _sums(node, x, forest, _table(node, row, "class", 1, [0] * len(ids)), "SUM", base)
        return _binary(node, score, all(w >= 0 for w in _values(node, "class_weights")), labels)
    scores = _sums(node, x, forest, _table(node, row, "class", len(labels), ids), "SUM", base)
    return class_label(node, scores.argmax(-1), labels), post_transform(node, scores).cast(dtypes.float32)


def _binary(node: OnnxNode, score: Tensor, positive: bool, labels: list[int]) -> tuple[Tensor, Tensor]:
    """Two classes whose leaves weigh one of them, as ONNX Runtime scores them."""
    kind = node.attribute("post_transform", "NONE")
    if kind == "NONE":
        both = (1 - score).cat(score, dim=1) if positive else (-score).cat(score, dim=1)
    elif kind == "LOGISTIC":
        both = (-score).sigmoid().cat(score.sigmoid(), dim=1)
    else:
        raise node.unsupported(f"post_transform {kind} of one score", "export a score for each class")
    chosen = score.reshape(-1) > (0.5 if positive and kind == "NONE" else 0)
    return class_label(node, chosen.cast(dtypes.int32), labels), both.cast(dtypes.float32)


def tree_ensemble(node: OnnxNode, x: Tensor) -> Tensor:
    """Version 5: leaves in tables of their own, tests of membership.

    Parameters
    ----------
    node, x
        The node and its inputs, as the domain ai.onnx.ml defines `TreeEnsemble`.
    """
    ids = [np.asarray(node.attribute(f"nodes_{side}nodeids")) for side in ("true", "false")]
    leafs = [np.asarray(node.attribute(f"nodes_{side}leafs")) for side in ("true", "false")]
    targets = np.asarray(node.attribute("leaf_targetids"))
    inner, leaves = len(ids[0]), len(targets)
    # A tree of one leaf is a node whose branches both lead to it.
    yes, no = (
        np.concatenate([np.where(leaf == 1, i + inner, i), np.arange(inner, inner + leaves)])
        for i, leaf in zip(ids, leafs, strict=True)
    )
    modes = np.array([_MODES[m] for m in np.asarray(node.attribute("nodes_modes"))] + [""] * leaves)
    sets = _member_sets(node.attribute("membership_values"))
    members = np.full((inner + leaves, max((len(s) for s in sets), default=0)), np.nan)
    for n, values in zip(np.flatnonzero(modes == _MODES[-1]), sets, strict=True):
        members[n, : len(values)] = values
    splits, missing = (
        np.asarray(node.attribute("nodes_splits")),
        node.attribute("nodes_missing_value_tracks_true"),
    )
    forest = _Forest(
        np.concatenate([node.attribute("nodes_featureids"), np.zeros(leaves)]).astype(np.int32),
        np.concatenate([np.where(modes[:inner] == _MODES[-1], 0, splits), np.zeros(leaves, splits.dtype)]),
        yes.astype(np.int32),
        no.astype(np.int32),
        modes,
        np.concatenate([missing or np.zeros(inner), np.zeros(leaves)]).astype(bool),
        np.array(node.attribute("tree_roots"), np.int32),
        members,
    )
    table = np.zeros((inner + leaves, node.attribute("n_targets", 1)))
    table[np.arange(inner, inner + leaves), targets] = np.asarray(node.attribute("leaf_weights"))
    given = np.zeros(table.shape, bool)
    given[np.arange(inner, inner + leaves), targets] = True
    kind = _AGGREGATES[node.attribute("aggregate_function", 1)]
    scores = _sums(node, x, forest, (table, given), kind)
    return transformed(node, scores, _TRANSFORMS[node.attribute("post_transform", 0)]).cast(x.dtype)


def _member_sets(values: Any) -> list[Array]:
    """Sets that NaN separates."""
    if values is None or not len(values):
        return []
    array = np.asarray(values, np.float64)
    ends = np.flatnonzero(np.isnan(array))
    parts = np.split(array, ends + 1)
    return [p[~np.isnan(p)] for p in parts if len(p)]
