"""Float inputs that only one quantizer reads: the host makes their codes."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir.tensors import Quantizer, TensorGraph

__all__ = ["input_quantizers"]


def input_quantizers(graph: TensorGraph) -> dict[int, int]:
    """For each input that is read as codes alone, a node that quantizes it."""
    readers = graph.consumers()
    found = {}
    for number in graph.inputs:
        if graph.nodes[number].dtype.is_float and number not in graph.outputs:
            quantizing = _quantizing(graph, readers, number)
            if quantizing is not None:
                found[number] = quantizing
    return found


def _quantizing(graph: TensorGraph, readers: list[list[int]], number: int) -> int | None:
    """The quantizer after movements that all readers agree on."""
    found: int | None = None
    stack = [number]
    while stack:
        current = stack.pop()
        if current in graph.outputs:
            return None
        for reader in readers[current]:
            node = graph.nodes[reader]
            if node.op in ("reshape", "permute", "expand", "shrink", "flip"):
                stack.append(reader)
                continue
            if node.op != "quantize" or node.arg.scale.size != 1 or node.arg.zero.size != 1:
                return None
            if not node.arg.is_plain:  # Hosts round half to even.
                return None
            if found is not None and not _same(graph.nodes[found].arg, node.arg):
                return None
            found = reader
    return found


def _same(a: Quantizer, b: Quantizer) -> bool:
    return bool(np.array_equal(a.scale, b.scale) and np.array_equal(a.zero, b.zero)) and (
        (a.low, a.high) == (b.low, b.high)
    )
