"""Whether a design fits a part, estimated without synthesis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tg2hdl_ir import CapacityError, ProgramBuffer, ProgramIR, TargetDef
from tg2hdl_lower import family_named
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_synth.estimate import convert, estimate_design
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.parts import known_parts, part_named
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_top import Design, TopModule
from tg2hdl_top.memory_blocks import memory_blocks

__all__ = ["Fit", "check_weights_fit", "component_fits", "design_fits", "luts_and_clock", "packs_registers"]

_LINK_BLOCKS = 4
"""Most block RAMs of a host port: a description, and a packet in each direction."""
_LUT_BITS = 16
"""Bits that a LUT can hold."""
_FILLED = 0.8
"""Share of the bits of block RAMs that narrow words fill."""


@dataclass(frozen=True)
class Fit:
    """The needs of a design, compared with a part.

    Parameters
    ----------
    part : str
    needs, has : dict of str to int
        Block RAMs, and unless these are too many also LUTs, flip-flops and multipliers.
    fmax : float or None
        Expected clock (MHz); None where it was not estimated.
    lines : tuple of str
        The figures for a reader, with the errors to expect.
    hint : str
        A way to make it fit; empty when it does.
    """

    part: str
    needs: dict[str, int]
    has: dict[str, int]
    fmax: float | None
    lines: tuple[str, ...]
    hint: str = ""

    def __bool__(self) -> bool:
        return not self.hint

    def __str__(self) -> str:
        verdict = f"fits {self.part}" if self else f"does not fit {self.part}"
        return "\n".join(
            [verdict, *(f"  {line}" for line in self.lines), *([f"  hint: {self.hint}"] if self.hint else [])]
        )


def check_weights_fit(program: ProgramIR, part: str) -> None:
    """Refuse a program whose weights exceed all memory of a part; needs no planning.

    Parameters
    ----------
    program : ProgramIR
    part : str
        Name of the FPGA part.

    Raises
    ------
    CapacityError
        With the figures, and a way out.
    """
    chosen = part_named(part)
    bits = sum(b.depth * b.dtype.bit_width for b in _weights(program))
    if bits <= _capacity(chosen):
        return
    largest = sorted(_weights(program), key=lambda b: -b.depth * b.dtype.bit_width)[:3]
    raise CapacityError(
        f"the weights are {bits:,} bits, the memory of {part} is {_capacity(chosen):,} bits",
        where=f"program {program.name}",
        notes=(
            *(
                f"{b.name}: {b.depth:,} elements of {b.dtype}, {b.depth * b.dtype.bit_width:,} bits"
                for b in largest
            ),
            "fewer multipliers do not change this",
        ),
        hint=_hint_for_weights(program, chosen, bits),
    )


def packs_registers(design: Design, part: str | TargetDef) -> bool:
    """Whether registers are to be moved into block RAMs and multipliers of a part.

    A family suggests it for designs that are planned for it.  A block RAM with a register has half the width, so that a
    design may take more of them than the part has; then all registers stay outside.

    Parameters
    ----------
    design : Design
    part : str or TargetDef
        FPGA part, or its name.
    """
    if not design.options.family.pack_registers:
        return False
    chosen = part if isinstance(part, TargetDef) else part_named(part)
    blocks = sum(memory_blocks(design, family_named(chosen.family), packed=True).values())
    return blocks + _LINK_BLOCKS * len(design.ports) <= chosen.bram


def design_fits(design: Design, part: str, *, pack_registers: bool = False) -> Fit:
    """The needs of a compiled program, compared with a part: block RAMs by the plan, the rest by words of the RTLIL.

    The second step is left out where the block RAMs are too many, and for a family without estimates.

    Parameters
    ----------
    design : Design
    part : str
        Name of the FPGA part.
    pack_registers : bool
        Whether registers will be moved into block RAMs, which then have half the width.
    """
    chosen = part_named(part)
    blocks = memory_blocks(design, family_named(chosen.family), packed=pack_registers)
    needs, has = {"bram": sum(blocks.values())}, {"bram": chosen.bram}
    most = ", ".join(f"{n} {b}" for n, b in sorted(blocks.items(), key=lambda i: -i[1])[:3] if b)
    lines = [f"block RAMs: {needs['bram']} of {chosen.bram}" + (f" ({most})" if most else "")]
    if needs["bram"] > chosen.bram:
        return Fit(part, needs, has, None, tuple(lines), _hint_for_memory(design, chosen, needs["bram"]))
    errors = tools_of(chosen.family).estimate_errors
    if not errors:
        return Fit(part, needs, has, None, tuple(lines))
    top = TopModule(design)
    estimate = estimate_design(top, chosen, convert(top), pack_registers=pack_registers)
    assert estimate is not None, "a compiled program has plans, and the family knows its errors"
    if estimate.bram > needs["bram"]:
        lines[0] += f", and {estimate.bram - needs['bram']} of host ports"
    needs |= {"bram": estimate.bram, "lut": estimate.comb, "ff": estimate.ff, "dsp": estimate.dsp}
    has |= {"lut": chosen.lut, "ff": chosen.ff, "dsp": chosen.dsp}
    lines += [
        f"multipliers: {estimate.dsp} of {chosen.dsp}",
        f"LUTs: {estimate.comb:,} of {chosen.lut:,} (median error {errors['lut']:.0%})",
        f"flip-flops: {estimate.ff:,} of {chosen.ff:,} (median error {errors['ff']:.0%})",
        f"clock: {estimate.fmax:.0f} MHz (median error {errors['fmax']:.0%})",
    ]
    hint = ""
    if estimate.bram > chosen.bram:
        hint = _hint_for_memory(design, chosen, estimate.bram)
    elif estimate.comb > chosen.lut or estimate.ff > chosen.ff:
        hint = "compile with fewer multipliers: lanes take most of the LUTs and flip-flops"
    return Fit(part, needs, has, estimate.fmax, tuple(lines), hint)


def luts_and_clock(design: Design) -> tuple[int, float] | None:
    """Estimated LUTs and clock (MHz) on the largest part of the family; None where the block RAMs are too many."""
    options = design.options
    largest = max(
        (part for part in known_parts() if part.family == options.target), key=lambda part: part.lut
    )
    fit = design_fits(design, largest.name, pack_registers=packs_registers(design, largest))
    return None if fit.fmax is None else (fit.needs["lut"], fit.fmax)


def _weights(program: ProgramIR) -> list[ProgramBuffer]:
    used = {n for call in program.calls for n in call.buffers}
    found = [
        b for n, b in enumerate(program.buffers) if n in used and b.role == "weight" and b.initial is not None
    ]
    # Synthesis removes a memory whose elements are all equal.
    return [b for b in found if b.initial is not None and not np.all(b.initial == b.initial.flat[0])]


def component_fits(rtlil: str, part: str, hint: str) -> Fit:
    """Whether a part holds the memories of any design; with `hint` when it does not.

    Parameters
    ----------
    rtlil : str
        Of the design.
    part : str
        Name of the part.
    hint : str
        What the user can do.

    Raises
    ------
    InputError
        For an unknown part.
    """
    chosen = part_named(part)
    memories = [m for module in read_rtlil(rtlil).values() for m in module.memories.values()]
    bits = sum(m.width * m.depth for m in memories)
    line = f"memory: {bits:,} bits, without copies for more ports, of {_capacity(chosen):,}"
    return Fit(part, {}, {}, None, (line,), "" if bits <= _capacity(chosen) else hint)


def _capacity(part: TargetDef) -> int:
    return part.bram * part.bram_bits + part.lut * _LUT_BITS


def _hint_for_weights(program: ProgramIR, part: TargetDef, bits: int) -> str:
    larger = [p.name for p in known_parts() if p.family == part.family and _capacity(p) >= bits]
    if larger:
        return f"choose a larger part: {larger[0]}"
    quarter = sum(b.depth * min(8, b.dtype.bit_width) for b in _weights(program))
    fitting = [p for p in (part, *known_parts()) if p.bram * p.bram_bits >= quarter]
    if quarter < bits and fitting:
        has = f"{fitting[0].bram * fitting[0].bram_bits:,} bits in block RAMs of {fitting[0].name}"
        return f"quantize the model: weights of 8 bits would take {quarter:,} of the {has}, beside its activations"
    ways = "keep them outside the chip (weights='external')"
    return f"no part known here has so much memory: {ways}" + (
        f"; weights of 8 bits would take {quarter:,} bits" if quarter < bits else ""
    )


def _hint_for_memory(design: Design, part: TargetDef, blocks: int) -> str:
    """Changes that make memories of that many block RAMs fit; only sufficient ones are named."""
    weights = {m.name for n, m in design.memories.items() if design.program.buffers[n].role == "weight"}
    weights |= {a.memory.name for a in design.arrays if set(a.members) <= weights}
    built = design.built_memories
    bits = sum(m.depth * m.word_width for m in built if m.name in weights)
    total = sum(m.depth * m.word_width for m in built)
    full = sum(-(-m.depth * m.word_width // part.bram_bits) for m in built if m.area.bram)
    if full <= part.bram * _FILLED:
        return "compile with fewer multipliers: words are narrower then, and memories have fewer copies"
    same = [p for p in known_parts() if p.family == part.family]
    larger = [p.name for p in same if p.bram >= blocks and _capacity(p) >= total and p.bram > part.bram]
    ways = [f"choose {larger[0]}"] if larger else []
    if _blocks_of_8_bits(design, part, weights) <= part.bram:
        ways.append("quantize the model")
    if 2 * bits <= total:
        return f"the buffers are the reason, not the multipliers: {' or '.join([*ways, 'make it smaller'])}"
    ways.append("keep weights outside the chip (weights='external')")
    return f"the weights are the reason, not the multipliers: {' or '.join(ways)}"


def _blocks_of_8_bits(design: Design, part: TargetDef, weights: Collection[str]) -> int:
    """Block RAMs where wider weights have 8 bits; `part.bram` and one more where none is wider."""
    figures, blocks, wide = family_named(part.family).memory, 0, False
    for memory in design.built_memories:
        narrower = memory.name in weights and memory.dtype.bit_width > 8
        wide |= narrower
        if memory.area.bram:
            bits = memory.layout.lanes * (8 if narrower else memory.dtype.bit_width)
            blocks += block_rams(
                bits, memory.depth, len(memory.ports), figures, written=not memory.role.is_rom
            )
    return blocks if wide else part.bram + 1
