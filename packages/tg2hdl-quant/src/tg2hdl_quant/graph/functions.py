"""Functions of one number inside a graph: activations as tinygrad writes them, found by their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.tensors import ELEMENTWISE, TensorGraph, TensorNode, evaluate_graph

__all__ = ["ScalarFunction", "find_function"]

Array = npt.NDArray[Any]
_PIECEWISE_LINEAR = frozenset(
    {"MAX", "CMPLT", "CMPNE", "CMPEQ", "WHERE", "MUL", "ADD", "cast", "AND", "OR", "XOR"}
)


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """A node as a function of the elements of one other node.

    Parameters
    ----------
    base : int
        The node that it is a function of.
    graph : TensorGraph
        From a scalar to a scalar.
    clip : (float, float) or None
        Bounds when the function only clips; an infinite one does nothing.
    """

    base: int
    graph: TensorGraph
    clip: tuple[float, float] | None

    def __call__(self, x: npt.ArrayLike) -> Array:
        """Values in float64 of float32 arithmetic."""
        points = np.asarray(x, np.float32)
        return evaluate_graph(self.graph, [points.reshape(-1)])[0].astype(np.float64).reshape(points.shape)


def find_function(graph: TensorGraph, number: int) -> ScalarFunction | None:
    """The deepest node that `number` is a nonlinear function of, element by element; None without one.

    Parameters
    ----------
    graph : TensorGraph
    number : int
        Of the node.
    """
    node = graph.nodes[number]
    if node.op not in ELEMENTWISE or not node.dtype.is_float:
        return None
    bases = _single_operands(graph, number)
    while bases and _is_linear(graph, number, bases[-1]):
        bases.pop()
    if not bases:
        return None
    base = bases[-1]
    for above in reversed(bases[:-1]):
        # An affine step at the bottom belongs to the sum that the function is applied to.
        if not _is_affine_step(graph, above, base):
            break
        base = above
    function = _extract(graph, number, base)
    return ScalarFunction(base, function, _clip_of(function))


def _single_operands(graph: TensorGraph, number: int) -> list[int]:
    """Nodes below, each of which decides `number` by itself, the nearest first."""
    shape = graph.nodes[number].shape
    front = {number}
    found: list[int] = []
    while True:
        latest = max(front)
        operands = _operands(graph, latest)
        if operands is None or any(graph.nodes[s].shape != shape for s in operands):
            return found
        front.remove(latest)
        front.update(operands)
        if len(front) == 1:
            single = next(iter(front))
            if graph.nodes[single].dtype.is_float:
                found.append(single)


def _operands(graph: TensorGraph, number: int) -> list[int] | None:
    """Operands that are not constants; None for a node that is not a function of single numbers."""
    node = graph.nodes[number]
    if node.op not in ELEMENTWISE:
        return None
    found = []
    for source in node.sources:
        operand = graph.nodes[source]
        if operand.op == "const":
            if operand.arg.size == 0 or operand.arg.min() != operand.arg.max():
                return None
        else:
            found.append(source)
    return found or None


def _is_affine_step(graph: TensorGraph, above: int, base: int) -> bool:
    node = graph.nodes[above]
    return _is_affine(graph, node) and base in node.sources


def _is_affine(graph: TensorGraph, node: TensorNode) -> bool:
    """Whether a node adds a constant to a number, or multiplies or divides the number by one."""
    operands = [n for n, s in enumerate(node.sources) if graph.nodes[s].op != "const"]
    return (node.op in ("ADD", "MUL") and len(operands) == 1) or (node.op == "FDIV" and operands == [0])


def _is_linear(graph: TensorGraph, number: int, base: int) -> bool:
    """Whether only constants are added and multiplied between two nodes, or a number by itself."""
    node = graph.nodes[number]
    if node.op == "MUL" and node.sources == (base, base):
        return True
    while number != base:
        node = graph.nodes[number]
        if not _is_affine(graph, node):
            return False
        number = next(s for s in node.sources if graph.nodes[s].op != "const")
    return True


def _extract(graph: TensorGraph, number: int, base: int) -> TensorGraph:
    place: dict[int, int] = {base: 0}
    nodes = [TensorNode("input", (), 0, (), graph.nodes[base].dtype)]

    def visit(current: int) -> int:
        if current not in place:
            node = graph.nodes[current]
            if node.op == "const":
                made = TensorNode("const", (), node.arg.reshape(-1)[0].reshape(()), (), node.dtype)
            else:
                sources = tuple(visit(s) for s in node.sources)
                made = TensorNode(node.op, sources, node.arg, (), node.dtype, node.label)
            nodes.append(made)
            place[current] = len(nodes) - 1
        return place[current]

    output = visit(number)
    return TensorGraph("function", tuple(nodes), (0,), (output,), ("x",))


def _clip_of(function: TensorGraph) -> tuple[float, float] | None:
    """Bounds of a function that only clips: compared on both sides of every breakpoint and between."""
    operations = {n.op for n in function.nodes if n.op not in ("const", "input")}
    if not operations <= _PIECEWISE_LINEAR:
        return None
    breaks = {float(n.arg) for n in function.nodes if n.op == "const" and np.isfinite(n.arg)}
    breaks |= {-b for b in breaks} | {0.0}
    reach = 4 * max(map(abs, breaks)) + 4
    edges = np.array(sorted(breaks))
    points = np.unique(
        np.concatenate(
            [edges, edges + 1e-3, edges - 1e-3, np.linspace(-reach, reach, 4097), [-1e30, 1e30]]
        ).astype(np.float32)
    )
    values = evaluate_graph(function, [points])[0]
    low, high = float(values[0]), float(values[-1])
    if not np.array_equal(values, np.clip(points, np.float32(low), np.float32(high))):
        return None
    return (-np.inf if low <= -1e29 else low, np.inf if high >= 1e29 else high)
