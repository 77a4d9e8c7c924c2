"""Area from the words of RTLIL and Fmax from the plan, for an ECP5 of speed grade 6."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tg2hdl_ir import Area
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_lower.plan.operations import Op, UnitOp
from tg2hdl_synth.families.answers import Estimate
from tg2hdl_synth.families.ecp5 import ECP5
from tg2hdl_synth.rtlil import read_rtlil
from tg2hdl_synth.soft_multipliers import soft_products
from tg2hdl_synth.words import WordMemory, blocks_of, count_words, is_of_port

__all__ = ["ERRORS", "LUTS", "estimate_area", "estimated", "memory_area"]

# Periods (ns), after place and route.
_READ = 6.8
"""Through a block RAM to its output register."""
_MULTIPLY = 7.2
"""From register through a multiplier to register."""
_SPREAD = 0.25
"""For each block along the edge of the area that the blocks cover."""
_STAGE, _LEVEL = 3.0, 0.95
_CONTROL, _LOOP = 4.5, 0.85
_PACKED, _PACKED_SPREAD, _PACKED_UNIT = 3.8, 0.15, 5.2
"""With registers in block RAMs and multipliers: the period, for each block along the edge, and of a float unit."""

LUTS = {
    "add": 1.37,
    "inner": 1.13,
    "compare": 2.0,
    "equal": 0.3,
    "logic": 0.38,
    "gating": 0.3,
    "mux": 0.3,
    "shift": 0.2,
    "reduce": 0.05,
}
"""LUTs per bit of `tg2hdl_synth.words.Words`, fitted by benchmarks/synth/fit_table.py."""

_PORT_SUM, _PORT_CHOICE = 1.84, 0.37
"""LUTs of a host port for each bit of a sum, with its comparisons and enables, and for each bit that a process chooses.

Fitted by `python benchmarks/ports/run.py --fit`: the median error is 6 %, the largest one 28 % (of `usb`)."""

ERRORS = {"lut": 0.06, "ff": 0.07, "fmax": 0.05}
"""Median errors on the benchmark table, rounded up, as benchmarks/synth/fit_table.py prints them; that of LUTs is of
workloads that are left out of the fit."""

_SOFT_PRODUCT = 0.66
_LUT_RAM = 8
"""LUTs of a LUT RAM of 16 words of 4 bits, with the two of its write port."""


def estimate_area(rtlil: str, dsp: int) -> Area:
    """Cells of a design on an ECP5 with `dsp` multipliers.

    Parameters
    ----------
    rtlil : str
    dsp : int
        Hard multipliers of the part; products beyond are made of LUTs.
    """
    return _area(rtlil, dsp, pack_registers=False)[0]


def estimated(plans: Sequence[Any], rtlil: str, available: int, pack_registers: bool) -> Estimate:
    """Estimate of a design with these plans on a part with `available` multipliers.

    Parameters
    ----------
    plans : sequence
        `HardwarePlan` of each kernel.
    rtlil : str
        Of the design.
    available : int
        Hard multipliers of the part.
    pack_registers : bool
        Whether output registers are those of block RAMs and multipliers.
    """
    area, memories = _area(rtlil, available, pack_registers)
    clock = _clock(plans, memories, area.dsp, pack_registers)
    return Estimate(area.lut, area.ff, area.dsp, area.bram, fmax=round(clock, 1))


def _area(rtlil: str, available: int, pack_registers: bool) -> tuple[Area, list[Area]]:
    """Cells of a design, and those of each memory."""
    design = read_rtlil(rtlil)
    modules = count_words(design)
    memories = [
        memory_area(m, pack_registers=pack_registers)
        for words in modules.values()
        for m in words.memories.values()
        if m.reads
    ]
    soft = soft_products(design, available)
    products = [p for words in modules.values() for p in words.products]
    blocks = sum(map(blocks_of, products)) + sum(words.blocks for words in modules.values())
    bits = sum((words.bits for words in modules.values()), Counter[str]())
    hosts = [words for name, words in modules.items() if is_of_port(name)]
    others = sum((words.bits for name, words in modules.items() if not is_of_port(name)), Counter[str]())
    luts = sum(cost * others[kind] for kind, cost in LUTS.items())
    luts += sum(_PORT_SUM * words.bits["add"] + _PORT_CHOICE * words.choices for words in hosts)
    luts += _SOFT_PRODUCT * sum(p.widths[0] * p.widths[1] for p in soft)
    registers = bits["register"]
    if pack_registers:
        # Operands and result of a multiplier and the word that a block RAM reads are in registers of the block.
        registers -= 2 * (sum(map(sum, products)) - sum(map(sum, (p.widths for p in soft))))
        ports = [m for words in modules.values() for m in words.memories.values() if m.synchronous]
        registers = max(registers - sum(m.width * m.reads for m in ports), 0)
    area = Area(
        lut=round(luts + sum(m.lut for m in memories)),
        ff=registers + sum(m.ff for m in memories),
        dsp=blocks - sum(p.blocks for p in soft),
        bram=sum(m.bram for m in memories),
    )
    return area, memories


def memory_area(memory: WordMemory, *, pack_registers: bool = False) -> Area:
    """Block RAMs, or LUTs and flip-flops, of a memory.

    Parameters
    ----------
    memory : WordMemory
    pack_registers : bool, default False
        Whether the output register is that of the block RAM.
    """
    bits = memory.width * memory.depth
    block = memory.style == "block" or (
        not memory.style and bits > ECP5.memory.lut_bits and memory.depth > 32
    )
    if memory.synchronous and block:
        figures = ECP5.memory.packed() if pack_registers else ECP5.memory
        return Area(
            bram=block_rams(memory.width, memory.depth, memory.reads, figures, written=memory.written)
        )
    rows = math.ceil(memory.depth / 16)
    cells = rows * math.ceil(memory.width / 4) * _LUT_RAM if memory.written else rows * memory.width / 2
    selection = memory.width * (rows - 1) / 2
    luts = round(memory.reads * (cells + selection))
    return Area(lut=luts, ff=memory.reads * memory.width if memory.synchronous else 0)


def _clock(plans: Iterable[Any], memories: Sequence[Area], blocks: int, packed: bool) -> float:
    if packed:
        spread = math.sqrt(blocks + sum(memory.bram for memory in memories))
        return 1000 / max(_PACKED + _PACKED_SPREAD * spread, *(_units(plan) for plan in plans))
    largest = max((memory.bram for memory in memories), default=0)
    period = _READ + _SPREAD * math.sqrt(largest) if largest else 0.0
    if blocks:
        period = max(period, _MULTIPLY + _SPREAD * math.sqrt(blocks))
    return 1000 / max(period, *(_logic(plan) for plan in plans))


def _units(plan: Any) -> float:
    """Period (ns) of float units between registers of blocks."""
    units = any(isinstance(node, UnitOp) and node.unit.result.is_float for node in plan.live())
    return _PACKED_UNIT if units else 0.0


def _logic(plan: Any) -> float:
    """Period (ns) of the logic in LUTs: chained operations, declared units, and the step control of the loops."""
    period = max(_CONTROL + _LOOP * len(leaf.path) for leaf in plan.leaves)
    for node in plan.live():
        if isinstance(node, Op):
            period = max(period, _STAGE + _LEVEL * plan.placement(node.number).level)
        elif isinstance(node, UnitOp) and node.unit.fmax:
            period = max(period, 1000 / node.unit.fmax)
    return period
