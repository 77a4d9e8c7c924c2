"""Logic synthesis with yosys; the modules below the top keep their names and are counted one by one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tg2hdl_ir.content_cache import content_key
from tg2hdl_ir.plugins.descriptors import TargetDef
from tg2hdl_synth.cache import run_cached
from tg2hdl_synth.hard_registers import absorb_registers
from tg2hdl_synth.memory_shapes import SlicedMemory, sliced_library, sliced_memories
from tg2hdl_synth.parts import is_full
from tg2hdl_synth.rtlil import Module, edited, read_rtlil, top_name
from tg2hdl_synth.soft_multipliers import soft_multiplier, soft_products
from tg2hdl_synth.soft_pipelines import SOFT_PRODUCT, with_soft_products
from tg2hdl_synth.tools import Progress, run_tool, tool_versions

__all__ = ["KINDS", "Netlist", "synthesize_netlist"]

KINDS = ("comb", "ff", "dsp", "bram")
"""Kinds of cells: LUT sites (carry included), flip-flops, multipliers, block RAMs."""

_COSTS = {
    "LUT4": ("comb", 1),
    "CCU2C": ("comb", 2),
    "TRELLIS_DPR16X4": ("comb", 4),
    "TRELLIS_FF": ("ff", 1),
    "MULT18X18D": ("dsp", 1),
    "DP16KD": ("bram", 1),
    "SB_LUT4": ("comb", 1),
    "SB_CARRY": ("comb", 0),
    "SB_MAC16": ("dsp", 1),
    "SB_RAM40_4K": ("bram", 1),
}

_MANY_WIDE = 0.02
"""Multiplexers that join two LUTs, as a share of a part's LUTs, above which a design that fills the part is mapped
without them.  The placer puts them far from their output register, whereas a LUT shares a slice with it."""


@dataclass(frozen=True)
class Netlist:
    """A synthesized netlist.

    Parameters
    ----------
    top : str
        Name of the top module.
    folder : Path
        Has ``netlist.json`` (flat), ``yosys.log`` and ``stat.json``.
    modules : dict of str to dict of str to int
        Cells of each kind per module below the top, by its name there; the rest of the top is ``""``.
    memories : dict of str to int
        Block RAMs per memory of the top.
    """

    top: str
    folder: Path
    modules: dict[str, dict[str, int]]
    memories: dict[str, int]
    cached: bool

    @property
    def total(self) -> dict[str, int]:
        """Cells of each kind."""
        return {kind: sum(module[kind] for module in self.modules.values()) for kind in KINDS}


def synthesize_netlist(
    rtlil: str,
    part: TargetDef,
    *,
    deep_slices: bool = True,
    pack_registers: bool = False,
    progress: Progress,
) -> Netlist:
    """Map a design to the cells of a part.

    Parameters
    ----------
    deep_slices : bool
        Cut deep memories of the top into slices without a multiplexer (ECP5).
    pack_registers : bool
        Move registers next to block RAMs and multipliers into those blocks (ECP5).

    Raises
    ------
    SynthesisError
        When yosys fails.
    ToolMissingError
        When it is not installed.
    """
    rtlil = free_collisions(rtlil)
    if part.family == "ecp5":
        rtlil = with_soft_products(rtlil, soft_products(read_rtlil(rtlil), part.dsp))
    modules = read_rtlil(rtlil)
    top = top_name(modules)
    packing = pack_registers and part.family == "ecp5"
    deep = sliced_memories(modules[top], halves=packing) if deep_slices and part.family == "ecp5" else []
    if sum(_blocks(memory) for memory in deep) > part.bram:
        deep = []
    versions = tool_versions("yosys")

    def synthesized(*, wide: bool) -> Netlist:
        script, libraries = _script(modules, top, part, deep, packing, wide)
        key = content_key("netlist 2", repr(versions), script, *libraries.values(), str(packing), rtlil)
        folder, cached = run_cached(key, partial(_run, rtlil, script, libraries, packing, progress))
        return Netlist(top, folder, *_count(folder, top), cached)

    netlist = synthesized(wide=True)
    many = _wide_multiplexers(netlist.folder) > _MANY_WIDE * part.lut
    return synthesized(wide=False) if many and is_full(netlist.total, part) else netlist


def _wide_multiplexers(folder: Path) -> int:
    modules = json.loads((folder / "stat.json").read_text())["modules"].values()
    return sum(module["num_cells_by_type"].get("PFUMX", 0) for module in modules)


def free_collisions(rtlil: str) -> str:
    """Leave a synchronous read undefined when the word is written in the same cycle; the schedule keeps them apart."""
    edits = []
    for module in read_rtlil(rtlil).values():
        for cell in module.cells:
            if cell.kind != "$memrd_v2" or cell.parameters["CLK_ENABLE"] != 1:
                continue
            transparent, collision = (
                str(cell.parameters[f"{m}_MASK"]) for m in ("TRANSPARENCY", "COLLISION_X")
            )
            if collision and "1" not in transparent + collision:
                old, new = (f"COLLISION_X_MASK {len(collision)}'{bit * len(collision)}" for bit in "01")
                edits.append((cell.span, rtlil[slice(*cell.span)].replace(old, new)))
    return edited(rtlil, edits)


def _blocks(memory: SlicedMemory) -> int:
    return -(-memory.width // memory.slice_width) * -(-memory.depth // 16384)


def _script(
    modules: dict[str, Module], top: str, part: TargetDef, deep: list[SlicedMemory], packing: bool, wide: bool
) -> tuple[str, dict[str, str]]:
    children = [m for m in modules if m.startswith(f"{top}.") and "." not in m.removeprefix(f"{top}.")]
    memories = [memory for module in modules.values() for memory in module.memories.values()]
    lines = ["read_rtlil design.il"]
    libraries = {}
    if any(cell.kind == SOFT_PRODUCT for module in modules.values() for cell in module.cells):
        # Before the first command that needs a module for them.
        lines += ["proc", "techmap -map soft_multiplier.v"]
        libraries["soft_multiplier.v"] = soft_multiplier()
    lines += [f"setattr -mod -set keep_hierarchy 1 {child}" for child in children]
    if part.family == "ecp5":
        command = f"synth_ecp5 -no-rw-check{'' if wide else ' -nowidelut'} -top {top}"
        lines.append(f"{command} -run begin:coarse")
        lines.append(f"{command} -run coarse:map_ram")
        for width in sorted({memory.slice_width for memory in deep}):
            libraries[f"slices{width}.txt"] = sliced_library(width)
            cells = " ".join(f"{m.module}/{m.name}" for m in deep if m.slice_width == width)
            lines.append(f"memory_libmap -lib slices{width}.txt {cells}")
        if packing and any("narrow_ports" in memory.attributes for memory in memories):
            libraries["slices18.txt"] = sliced_library(18)
            lines.append("memory_libmap -lib slices18.txt a:narrow_ports")
        if any(name.startswith("slices") for name in libraries):
            lines.append("techmap -map +/lattice/brams_map_16kd.v")
        lines.append(f"{command} -run map_ram:")
    else:
        up5k = dict(part.options).get("device") == "up5k"
        # There is no LUT RAM.
        lines.append("setattr -unset ram_style a:ram_style=distributed")
        lines.append(f"synth_ice40 -no-rw-check -top {top} {'-dsp -device u' if up5k else '-device hx'}")
    lines += [
        "tee -q -o stat.json stat -json",
        "setattr -mod -unset keep_hierarchy *",
        "flatten",
        "opt_clean",
        "write_json netlist.json",
        "",
    ]
    return "\n".join(lines), libraries


def _run(
    rtlil: str, script: str, libraries: dict[str, str], packing: bool, progress: Progress, folder: Path
) -> None:
    (folder / "design.il").write_text(rtlil)
    (folder / "script.ys").write_text(script)
    for name, text in libraries.items():
        (folder / name).write_text(text)

    def report(line: str) -> None:
        step = re.match(r"^(\d+(?:\.\d+)?)\. Executing (.+?) (?:pass|backend|frontend)", line)
        if step:
            progress(f"yosys: {step[2].lower()}")

    progress("yosys")
    run_tool("yosys", ["-s", "script.ys"], folder, log="yosys.log", on_line=report)
    if packing:
        path = folder / "netlist.json"
        netlist = json.loads(path.read_text())
        counts = absorb_registers(netlist)
        path.write_text(json.dumps(netlist))
        (folder / "absorbed.json").write_text(json.dumps(counts))


def _count(folder: Path, top: str) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    stat = json.loads((folder / "stat.json").read_text())
    modules: dict[str, dict[str, int]] = {}
    for name, entry in stat["modules"].items():
        path = name.removeprefix("\\")
        label = "" if path == top else path.removeprefix(f"{top}.")
        counts = modules.setdefault(label, dict.fromkeys(KINDS, 0))
        for cell, number in entry["num_cells_by_type"].items():
            kind, cost = _COSTS.get(cell, _ice40_cost(cell))
            counts[kind] += cost * number
    memories: dict[str, int] = {}
    netlist = json.loads((folder / "netlist.json").read_text())
    for name, cell in netlist["modules"][top]["cells"].items():
        if _COSTS.get(cell["type"], ("", 0))[0] == "bram":
            memory = name.split(".")[0]
            memories[memory] = memories.get(memory, 0) + 1
    return modules, memories


def _ice40_cost(cell: str) -> tuple[str, int]:
    return ("ff", 1) if cell.startswith("SB_DFF") else ("comb", 0)
