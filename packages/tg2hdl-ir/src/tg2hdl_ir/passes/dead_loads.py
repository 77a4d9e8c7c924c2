"""Dead code elimination: loads, buffers and registers that no store uses."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import BufferMeta, IRBufLoad, IRBufStore, IRRegLoad, IRRegStore, KernelIR, LoopIR
from tg2hdl_ir.tree import loads_used_by, operands
from tg2hdl_ir.verifier import verify

__all__ = ["kernel_of", "without_dead_loads"]


def without_dead_loads(tree: LoopIR) -> LoopIR:
    """The loop tree without dead loads."""
    stores = [s for s in tree.statements() if not isinstance(s, IRBufLoad | IRRegLoad)]
    live = set(loads_used_by(tuple(v for s in stores for v in operands(s))))

    def kept(level: LoopIR) -> LoopIR:
        items = (kept(item) if isinstance(item, LoopIR) else item for item in level.items)
        left = tuple(i for i in items if not isinstance(i, IRBufLoad | IRRegLoad) or i in live)
        return LoopIR.from_items(left, counter=level.counter, axis_type=level.axis_type)

    return kept(tree)


def kernel_of(kernel: KernelIR, tree: LoopIR, name: str, more: tuple[BufferMeta, ...] = ()) -> KernelIR:
    """The kernel of a part of the loop tree, with the buffers and registers that the part uses, and `more` buffers.

    Parameters
    ----------
    kernel : KernelIR
    tree : LoopIR
        The part, with a root of its own.
    name : str
    more : tuple of BufferMeta, optional
        Buffers that the part uses and the kernel does not have.
    """
    tree = without_dead_loads(tree)
    statements = list(tree.statements())
    used = {s.buf_idx for s in statements if isinstance(s, IRBufLoad | IRBufStore)}
    stored = {s.buf_idx for s in statements if isinstance(s, IRBufStore)}
    kept = tuple(replace(b, is_output=b.idx in stored) for b in kernel.buffers if b.idx in used)
    registers = {s.reg for s in statements if isinstance(s, IRRegLoad | IRRegStore)}
    return verify(
        replace(
            kernel,
            buffers=(*kept, *more),
            registers=tuple(r for r in kernel.registers if r.idx in registers),
            loop_tree=tree,
            name=name,
        )
    )
