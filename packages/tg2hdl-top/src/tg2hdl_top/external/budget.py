"""The memory on the chip: capacity and use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir import CapacityError, InputError, registry
from tg2hdl_lower import family_named
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.sequencer import sequencer_named

if TYPE_CHECKING:
    from tg2hdl_top.design import Design

__all__ = ["check_schedule", "larger_part", "on_chip_bits", "on_chip_budget", "too_large"]


def on_chip_budget(options: CompileOptions) -> int:
    """Bits of memory on the chip.

    Raises
    ------
    InputError
        When the options do not say.
    """
    if options.on_chip_bits is None:
        raise InputError(
            'weights="external" needs to know the memory on the chip',
            hint='name the part (part="ecp5-45k", --part), or give on_chip_bits= to CompileOptions',
        )
    return options.on_chip_bits


def check_schedule(options: CompileOptions) -> None:
    """Refuse a policy that cannot wait for weights.

    Raises
    ------
    InputError
    """
    if not sequencer_named(options.schedule).can_wait:
        raise InputError(
            f"schedule={options.schedule!r} starts kernels at fixed times, but weights from external memory arrive "
            "when they do",
            hint='choose schedule="serial", or a part that holds all weights',
        )


def on_chip_bits(design: Design) -> int:
    """Bits of block RAM that the memories of a design take, whole blocks and copies counted."""
    block = family_named(design.options.target).memory.block_bits
    return sum(memory.area.bram for memory in design.built_memories) * block


def too_large(design: Design, taken: int, budget: int) -> CapacityError:
    """The error for a design whose memories do not fit.

    Parameters
    ----------
    design : Design
    taken : int
        Bits that its memories take, in whole blocks.
    budget : int
        Bits on the chip.
    """
    block = family_named(design.options.target).memory.block_bits
    largest = sorted(design.built_memories, key=lambda m: -m.area.bram)[:3]
    fewer = "compile with fewer multipliers: words are narrower then, and memories have fewer copies; or "
    narrow = all(memory.layout.lanes == 1 for memory in design.built_memories)
    return CapacityError(
        f"the memories take {taken:,} bits in whole blocks, and there are {budget:,}",
        where=f"design {design.program.name}",
        notes=tuple(f"{m.name}: {m.area.bram * block:,} bits for {len(m.ports)} read ports" for m in largest),
        hint=("" if narrow else fewer) + larger_part(design.options, taken),
    )


def larger_part(options: CompileOptions, bits: int) -> str:
    """A hint: the smallest part of the family with so much memory.

    Parameters
    ----------
    options : CompileOptions
    bits : int
        Bits that are needed on the chip.
    """
    parts = {t.name: t.bram * t.bram_bits for t in registry().targets() if t.family == options.target}
    large = {name: size for name, size in parts.items() if size >= bits}
    if large:
        name = min(large, key=lambda part: large[part])
        return f"choose a part with at least {bits:,} bits of memory, such as {name} ({large[name]:,})"
    text = f"choose a part with at least {bits:,} bits of memory"
    if parts:
        name = max(parts, key=lambda part: parts[part])
        text += f" ({name}, the largest known one of {options.target}, has {parts[name]:,})"
    return text
