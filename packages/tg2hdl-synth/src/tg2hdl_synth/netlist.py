"""Logic synthesis with yosys; the modules below the top keep their names and are counted one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tg2hdl_ir.content_cache import content_key
from tg2hdl_synth.cache import run_cached
from tg2hdl_synth.rtlil import edited, read_rtlil, top_name
from tg2hdl_synth.tools import Progress, run_tool, tool_versions

__all__ = ["KINDS", "Cost", "Netlist", "free_collisions", "yosys_netlist"]

Cost: TypeAlias = tuple[str, int]
"""Kind of a cell, and how many of this kind it counts as."""

KINDS = ("comb", "ff", "dsp", "bram")
"""Kinds of cells: LUT sites (carry included), flip-flops, multipliers, block RAMs."""


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


def yosys_netlist(
    rtlil: str,
    commands: Sequence[str],
    cost: Callable[[str], Cost],
    *,
    libraries: Mapping[str, str] | None = None,
    after: Callable[[Path], None] | None = None,
    progress: Progress,
) -> Netlist:
    """Map a design with yosys, and count its cells; cached by content.

    Parameters
    ----------
    rtlil : str
        Design with a marked top.
    commands : sequence of str
        Commands of yosys from the design to the family's cells.  Modules below the top are kept until the cells are
        counted.
    cost : callable
        ``(cell type: str) -> (kind, number)``.
    libraries : mapping of str to str, optional
        Files that the commands read, by name.
    after : callable, optional
        Changes the netlist in the folder.

    Raises
    ------
    SynthesisError
        When yosys fails.
    ToolMissingError
        When it is not installed.
    """
    modules, files = read_rtlil(rtlil), dict(libraries or {})
    top = top_name(modules)
    children = [m for m in modules if m.startswith(f"{top}.") and "." not in m.removeprefix(f"{top}.")]
    kept = [f"setattr -mod -set keep_hierarchy 1 {child}" for child in children]
    script = "\n".join(["read_rtlil design.il", *kept, *commands, *_ENDING])
    versions = repr(tool_versions("yosys"))
    key = content_key(
        "netlist 3", versions, script, *files.values(), "" if after is None else after.__name__, rtlil
    )

    def run(folder: Path) -> None:
        for name, text in {"design.il": rtlil, "script.ys": script, **files}.items():
            (folder / name).write_text(text)
        _run(folder, progress)
        if after is not None:
            after(folder)

    folder, cached = run_cached(key, run)
    return Netlist(top, folder, *_count(folder, top, cost), cached)


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


_ENDING = (
    "tee -q -o stat.json stat -json",
    "setattr -mod -unset keep_hierarchy *",
    "flatten",
    "opt_clean",
    "write_json netlist.json",
    "",
)


def _run(folder: Path, progress: Progress) -> None:
    def report(line: str) -> None:
        step = re.match(r"^(\d+(?:\.\d+)?)\. Executing (.+?) (?:pass|backend|frontend)", line)
        if step:
            progress(f"yosys: {step[2].lower()}")

    progress("yosys")
    run_tool("yosys", ["-s", "script.ys"], folder, log="yosys.log", on_line=report)


def _count(
    folder: Path, top: str, cost: Callable[[str], Cost]
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    stat = json.loads((folder / "stat.json").read_text())
    modules: dict[str, dict[str, int]] = {}
    for name, entry in stat["modules"].items():
        path = name.removeprefix("\\")
        label = "" if path == top else path.removeprefix(f"{top}.")
        counts = modules.setdefault(label, dict.fromkeys(KINDS, 0))
        for cell, number in entry["num_cells_by_type"].items():
            kind, each = cost(cell)
            counts[kind] += each * number
    memories: dict[str, int] = {}
    netlist = json.loads((folder / "netlist.json").read_text())
    for name, cell in netlist["modules"][top]["cells"].items():
        kind, each = cost(cell["type"])
        if kind == "bram" and each:
            memory = name.split(".")[0]
            memories[memory] = memories.get(memory, 0) + 1
    return modules, memories
