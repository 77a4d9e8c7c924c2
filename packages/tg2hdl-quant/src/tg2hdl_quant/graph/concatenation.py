"""Quantizers moved before concatenations, so that each part is rounded by itself.

tinygrad writes a concatenation as a sum of parts that are padded with zeros to disjoint places.
"""

from __future__ import annotations

import numpy as np

from tg2hdl_ir import DType
from tg2hdl_ir.tensors import MOVEMENT, GraphBuilder, TensorGraph, TensorNode

__all__ = ["split_concatenations"]


def split_concatenations(graph: TensorGraph) -> TensorGraph:
    """The same codes, with each part of a concatenation quantized separately."""
    builder = GraphBuilder()
    place: list[int] = []
    for node in graph.nodes:
        moves, parts = _concatenation(graph, node) if node.op == "quantize" else ([], [])
        if len(parts) > 1 and _is_disjoint(graph, parts) and not _is_enumerated(graph, parts):
            made = _joined(builder, node, [(graph.nodes[p], place) for p in parts])
            for move in moves:
                made = builder.move(move, made)
            place.append(made)
            continue
        sources = tuple(place[s] for s in node.sources)
        place.append(builder.add(node.op, sources, node.shape, node.dtype, node.arg, node.label))
    return graph.rebuilt(builder.nodes, place)


def _concatenation(graph: TensorGraph, node: TensorNode) -> tuple[list[TensorNode], list[int]]:
    """Nodes that move the elements of a concatenated tensor after it is quantized, and its parts."""
    moves, number = [], node.sources[0]
    while graph.nodes[number].op in ("reshape", "permute"):
        moves.append(graph.nodes[number])
        number = graph.nodes[number].sources[0]
    if node.arg.scale.size != 1 or node.arg.zero.size != 1 or not node.arg.is_plain:
        return [], []
    return moves[::-1], _parts(graph, number)


def _parts(graph: TensorGraph, number: int) -> list[int]:
    """Padded tensors and constants that a tensor is the sum of; empty where it is something else."""
    node = graph.nodes[number]
    if node.op in ("pad", "const"):
        return [number]
    if node.op != "ADD":
        return []
    first, second = (_parts(graph, s) for s in node.sources)
    return first + second if first and second else []


def _is_enumerated(graph: TensorGraph, parts: list[int]) -> bool:
    """Whether every code except constants is compared with that of the file: there are only a few of one tensor."""
    nodes = [graph.nodes[p] for p in parts]
    found = []
    for node in nodes:
        while node.op in MOVEMENT:
            node = graph.nodes[node.sources[0]]
        found.append(node)
    codes = [graph.nodes[n.sources[0]] for n in found if n.op == "dequantize"]
    return len(codes) == 1 and len(codes) < len(nodes) and codes[0].dtype.bit_width <= 8


def _is_disjoint(graph: TensorGraph, parts: list[int]) -> bool:
    """Whether each place belongs to one part at most."""
    shape = np.broadcast_shapes(*(graph.nodes[p].shape for p in parts))
    count = np.zeros(shape, np.int8)
    for part in parts:
        node = graph.nodes[part]
        if node.op == "const":
            count += np.broadcast_to(node.arg != 0, shape)
            continue
        if node.shape != shape:
            return False
        count[tuple(slice(a, size - b) for (a, b), size in zip(node.arg, node.shape, strict=True))] += 1
    return bool(count.max() <= 1)


def _joined(builder: GraphBuilder, node: TensorNode, parts: list[tuple[TensorNode, list[int]]]) -> int:
    """Codes of each part, padded with the code of zero; `parts` are nodes, each with the places of all."""
    quantizer = node.arg
    wide = DType.INT16 if node.dtype.bit_width <= 8 else DType.INT32
    zero = builder.const(quantizer.zero, wide)
    total = zero
    for number, (part, place) in enumerate(parts):
        label = f"{node.label}.{number}" if node.label else ""
        if part.op == "const":
            known = quantizer.codes(np.broadcast_to(part.arg, part.shape)).astype(np.int64) - quantizer.zero
            total = builder.elementwise("ADD", builder.const(known, wide), total, dtype=wide)
            continue
        source = place[part.sources[0]]
        codes = builder.add("quantize", (source,), builder.nodes[source].shape, node.dtype, quantizer, label)
        centered = builder.elementwise("SUB", builder.cast(codes, wide), zero, dtype=wide)
        total = builder.elementwise("ADD", builder.move(part, centered), total, dtype=wide)
    return builder.cast(total, node.dtype)
