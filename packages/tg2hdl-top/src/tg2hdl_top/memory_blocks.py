"""Block RAMs of a design, known from its plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tg2hdl_ir import FamilyDef
from tg2hdl_lower import HardwarePlan, MemoryPlan, family_named, kind_named
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_lower.plan.accesses import Store
from tg2hdl_top.design import Design
from tg2hdl_top.memory_turns import turn_port
from tg2hdl_top.ports import writes_elements

__all__ = ["lane_enables", "memory_blocks", "planned_blocks"]


def memory_blocks(design: Design, family: FamilyDef | None = None, *, packed: bool = False) -> dict[str, int]:
    """Block RAMs of each memory that is built, by its name; 0 for one in LUTs.

    Parameters
    ----------
    design : Design
    family : FamilyDef, optional
        The design's own when absent.
    packed : bool
        Whether registers will be moved into block RAMs, which then have narrower words.
    """
    family = family or family_named(design.options.target)
    if packed:
        family = replace(family, memory=family.memory.packed())
    members = {array.memory.name: array.members for array in design.arrays}
    found = {}
    for memory in design.built_memories:
        lane = lane_enables(memory, design, members.get(memory.name, (memory.name,)))
        turns = turn_port(design, memory) is not None
        if len(memory.pieces) > 1:
            reads, written = len(memory.ports), not memory.role.is_rom
            found[memory.name] = sum(
                block_rams(
                    piece.bits,
                    piece.words,
                    reads,
                    family.memory,
                    written=written,
                    lane=lane,
                    turns=turns,
                )
                for piece in memory.pieces
            )
            continue
        use = replace(memory.use, words=memory.depth, lane=lane, turns=turns)
        found[memory.name] = kind_named(memory.kind).area(use, family, len(memory.ports)).bram
    return found


def planned_blocks(
    memories: Iterable[MemoryPlan], plans: Sequence[HardwarePlan], family: FamilyDef
) -> dict[str, int]:
    """Block RAMs of the memories of planned calls by name, as far as they are known before the design is.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        By call.
    """
    found = {}
    for memory in memories:
        single = any(_writes_lanes(plans[call], buffer) for call, buffer in memory.slots)
        use = replace(memory.use, lane=memory.dtype.bit_width if single and memory.layout.lanes > 1 else 0)
        found[memory.name] = kind_named(memory.kind).area(use, family, len(memory.ports)).bram
    return found


def lane_enables(memory: MemoryPlan, design: Design, members: Collection[str]) -> int:
    """Bits of a lane of a memory that has a write enable of its own; 0 where a word has one.

    Parameters
    ----------
    memory : MemoryPlan
    design : Design
    members : collection of str
        Names of the buffers in the memory.
    """
    if memory.layout.lanes == 1:
        return 0
    single = any(_writes_lanes(design.kernels[kernel], buffer) for kernel, buffer in memory.slots)
    single |= any(writes_elements(design.ports, name) for name in members)
    return memory.dtype.bit_width if single else 0


def _writes_lanes(plan: HardwarePlan, buffer: int) -> bool:
    """Whether a kernel writes some lanes of a word without the others."""
    return any(
        store.position is not None or len({entry.gate for entry in store.lanes}) > 1
        for store in plan.all(Store)
        if store.buffer == buffer
    )
