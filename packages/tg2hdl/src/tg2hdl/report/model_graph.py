"""The graph of a model: kernels as nodes, and the tensors between them as edges; the page's script lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tg2hdl_ir import KernelCall, LoopIR, ProgramIR

__all__ = ["graph_of", "tensor_shapes"]


def tensor_shapes(program: ProgramIR) -> dict[str, tuple[int, ...]]:
    """Shapes of the buffers by name: a flat one has the shape of the loops that write it."""
    found = {}
    writers: dict[int, KernelCall] = {}
    for call in program.calls:
        for number in call.accesses()[1]:
            writers.setdefault(number, call)
    for number, buffer in enumerate(program.buffers):
        found[buffer.name] = buffer.shape
        if len(buffer.shape) == 1 and number in writers:
            loops = _loops(writers[number].kernel.loop_tree)
            size = 1
            for bound in loops:
                size *= bound
            if size == buffer.depth:
                found[buffer.name] = tuple(n for n in loops if n > 1) or (1,)
    return found


def graph_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes and edges of the figures of a report."""
    kernels, tensors = facts["kernels"], facts["tensors"]
    total = max(1, sum(k["cycles"] for k in kernels))
    nodes: list[dict[str, Any]] = [
        {
            "id": f"k{n}",
            "kernel": n,
            "title": k["label"],
            "place": k["place"],
            "lines": [f"{k['cycles']:,} cycles, {100 * k['cycles'] / total:.1f} %", _memory(k, tensors)],
            "share": k["cycles"] / total,
        }
        for n, k in enumerate(kernels)
    ]
    edges: dict[tuple[str, str, str], None] = {}
    writer: dict[str, str] = {}
    for side in ("inputs", "outputs"):
        for tensor in facts[side]:
            name = f"{side[:-1]} {tensor['name']}"
            nodes.append({"id": name, "title": tensor["name"], "place": side[:-1], "lines": [], "share": 0})
            if side == "inputs":
                writer[tensor["name"]] = name
    for n, k in enumerate(kernels):
        for tensor in k["reads"]:
            if tensor in writer:
                edges[writer[tensor], f"k{n}", tensor] = None
        writer |= dict.fromkeys(k["writes"], f"k{n}")
    for tensor in facts["outputs"]:
        if tensor["name"] in writer:
            edges[writer[tensor["name"]], f"output {tensor['name']}", tensor["name"]] = None
    return {
        "nodes": nodes,
        "edges": [{"from": a, "to": b, "text": _shape(tensors.get(t)), "tensor": t} for a, b, t in edges],
    }


def _memory(kernel: Mapping[str, Any], tensors: Mapping[str, Any]) -> str:
    """Bits of the weights that a kernel reads."""
    names = [n for n in kernel["reads"] if tensors.get(n, {}).get("role") in ("weight", "external")]
    bits = sum(tensors[n]["bits"] for n in names)
    return f"{bits:,} bits of weights" if bits else ""


def _shape(tensor: Mapping[str, Any] | None) -> str:
    if tensor is None:
        return ""
    return f"{' x '.join(map(str, tensor['shape']))} of {tensor['element_bits']} bits"


def _loops(loop: LoopIR) -> list[int]:
    """Bounds of the loops that are not of a reduction, as far as they are nested."""
    own: list[int] = []
    if loop.counter is not None and loop.axis_type == "loop":
        if not isinstance(loop.counter.bound, int):
            return []
        own = [loop.counter.bound]
    return [*own, *_loops(loop.loops[0])] if len(loop.loops) == 1 else own
