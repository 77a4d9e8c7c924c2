"""Variables: tensors that keep their contents from one run to the next."""

from __future__ import annotations

from typing import Any

from tg2hdl_tflite.node import Node, operator

__all__ = ["assign_variable", "call_once", "read_variable", "var_handle"]


@operator("CALL_ONCE", version=1)
def call_once(node: Node) -> Any:
    """Its graph gives variables their first contents; it was read before."""
    node.contents.check(node)
    return []


@operator("VAR_HANDLE", version=1)
def var_handle(node: Node) -> Any:
    """The variable of a name, which `Variables` knows."""
    return []


@operator("READ_VARIABLE", version=1)
def read_variable(node: Node) -> Any:
    """Contents at this place of the program."""
    return node.contents.read(node)


@operator("ASSIGN_VARIABLE", version=1)
def assign_variable(node: Node) -> Any:
    """New contents, for what follows and for the next run."""
    node.contents.assign(node)
    return []
