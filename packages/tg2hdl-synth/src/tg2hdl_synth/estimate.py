"""Expected cells and Fmax of a design before any synthesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tg2hdl_ir import FamilyDef, InputError, TargetDef
from tg2hdl_lower import family_named
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.families.answers import Estimate
from tg2hdl_synth.parts import part_named
from tg2hdl_synth.rtlil import Module, read_rtlil
from tg2hdl_synth.words import is_of_port
from tg2hdl_top.memory_blocks import memory_blocks

__all__ = ["convert", "estimate_design", "port_blocks"]


def estimate_design(
    top: Any, part: str | TargetDef, rtlil: str | None = None, *, pack_registers: bool = False
) -> Estimate | None:
    """Estimate of a TopModule or CompiledKernel; None for another component, or a family without estimates.

    Parameters
    ----------
    top : wiring.Component
        The design.
    part : str or TargetDef
        A part, or its name.
    rtlil : str, optional
        The design, when it has been converted before.
    pack_registers : bool
        Whether registers will be moved into block RAMs and multipliers.

    Raises
    ------
    InputError
        For an unknown part.
    """
    part = part if isinstance(part, TargetDef) else part_named(part)
    plans = getattr(top, "plans", None) or ([top.plan] if hasattr(top, "plan") else None)
    if plans is None:
        return None
    text = rtlil or convert(top)
    estimate = tools_of(part.family).estimate(plans, text, part, pack_registers=pack_registers)
    design = getattr(top, "design", None)
    if estimate is None or design is None:
        return estimate
    # Which lanes are written one by one is in the plan, not in the words of RTLIL.
    family = family_named(part.family)
    blocks = sum(memory_blocks(design, family, packed=pack_registers).values())
    return replace(estimate, bram=blocks + port_blocks(read_rtlil(text), family))


def port_blocks(modules: Mapping[str, Module], family: FamilyDef) -> int:
    """Block RAMs of the host ports of a design: descriptions and packets.

    Parameters
    ----------
    modules : mapping of str to Module
        RTLIL of a `TopModule`.
    family : FamilyDef
    """
    figures, found = family.memory, 0
    for name, module in modules.items():
        if not is_of_port(name):
            continue
        for memory in module.memories.values():
            large = memory.width * memory.depth > figures.lut_bits and memory.depth > figures.lut_words
            if large or memory.attributes.get("ram_style") == "block":
                found += block_rams(memory.width, memory.depth, 1, figures)
    return found


def convert(top: Any, name: str = "top") -> str:
    """RTLIL of a component.

    Parameters
    ----------
    top : object
    name : str, optional
        Of the top module.

    Raises
    ------
    InputError
        For anything else.
    """
    from amaranth.back import rtlil
    from amaranth.lib import wiring

    if not isinstance(top, wiring.Component):
        raise InputError(
            f"{type(top).__name__} is not a design",
            hint="give an Amaranth component, such as accelerator.top or a CompiledKernel",
        )
    return str(rtlil.convert(top, name=name, emit_src=False))
