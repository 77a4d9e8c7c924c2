"""Which IR operation each tinygrad ALU op becomes, and which ops tinygrad must decompose for us."""

from __future__ import annotations

from tinygrad.uop import GroupOp
from tinygrad.uop.ops import Ops

from tg2hdl_ir import registry
from tg2hdl_ir.tensors import ELEMENTWISE

__all__ = ["IR_OPERATIONS", "NATIVE_OPERATIONS", "mapped_operations"]

IR_OPERATIONS: dict[Ops, str] = {
    getattr(Ops, name): operation.kernel.name
    for name, operation in ELEMENTWISE.items()
    if operation.kernel is not None and name != "cast"
}
"""IR operation of each ALU op that has exactly one; MULACC depends on its type."""

NATIVE_OPERATIONS: tuple[Ops, ...] = tuple(op for op in IR_OPERATIONS if op is not Ops.FDIV)
"""Ops that the renderer asks for.

Left to tinygrad's decomposition: MULACC (fusing would skip the rounding of the product, and would also fuse
index arithmetic), FDIV (multiplication by the reciprocal, as tinygrad's own interpreter computes it), POW,
THREEFRY, FLOORDIV and FLOORMOD.
"""


def mapped_operations() -> dict[Ops, str]:
    """Operations that plugins map to those of the IR.

    Raises
    ------
    PluginError
        For one that tinygrad lacks, or that hardware has without the plugin.
    """
    found = {}
    for definition in registry().tinygrad_ops():
        op = getattr(Ops, definition.name, None)
        if op not in GroupOp.ALU:
            raise registry().fault(definition, ": tinygrad has no scalar operation of this name")
        if op in NATIVE_OPERATIONS:
            raise registry().fault(definition, f": it is {IR_OPERATIONS[op]!r} of the IR already")
        found[op] = definition.op
    return found
