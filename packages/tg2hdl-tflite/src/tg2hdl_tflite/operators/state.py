"""Variables: tensors that keep their contents from one run to the next."""

from __future__ import annotations

from typing import Any

from tg2hdl_tflite.node import TfliteNode, operator

__all__ = ["assign_variable", "call_once", "read_variable", "var_handle"]


@operator("CALL_ONCE", version=1)
def call_once(node: TfliteNode) -> Any:
    """Its graph gives variables their first contents; it was read before."""
    graph = node.subgraph("InitSubgraphIndex")
    if others := sorted({o.name for o in graph.operators} - {"VAR_HANDLE", "ASSIGN_VARIABLE"}):
        raise node.refuse(
            f"first contents of variables are computed by {', '.join(others)}",
            "initialize variables by constants",
        )
    return []


def _name(node: TfliteNode) -> str:
    handle = node.record.inputs[0] if node.record.inputs else -1
    handles = node.contents.handles(node.graph)
    if handle not in handles:
        raise node.refuse("a handle that no VAR_HANDLE of the graph makes", "export the model again")
    return handles[handle]


@operator("VAR_HANDLE", version=1)
def var_handle(node: TfliteNode) -> Any:
    """Nothing to compute: `Contents` knows the name of the variable by its handle."""
    return []


@operator("READ_VARIABLE", version=1)
def read_variable(node: TfliteNode) -> Any:
    """Contents at this place of the program."""
    return node.contents.read(node.refuse, _name(node), node.output)


@operator("ASSIGN_VARIABLE", version=1)
def assign_variable(node: TfliteNode) -> Any:
    """New contents, for later operators and for the next run."""
    node.contents.assign(node.refuse, _name(node), node.input(1))
    return []
