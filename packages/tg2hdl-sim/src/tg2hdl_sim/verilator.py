"""The Verilator engine, for machines that have it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tg2hdl_ir import SimulationError, ToolMissingError
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim import yosys
from tg2hdl_sim.adapter import adapter, library_key
from tg2hdl_sim.model import Elaboration
from tg2hdl_sim.native import CompiledEngine

__all__ = ["open_verilator", "verilator_version"]

SCRIPT = """\
read_rtlil design.il
hierarchy -top top
proc
flatten
{split}write_verilog -noattr -norename design.v
"""
# Verilator sees loops through bits of one vector as combinational loops and may settle them wrongly.
SPLIT, LOOP_WARNING = "opt_clean\nsplitnets\nclean\n", "UNOPTFLAT"
OPTIONS = (
    *("--cc", "-O3", "--x-assign", "0", "--x-initial", "0", "--noassert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
    *("--top-module", "top", "--prefix", "Vtop", "--Mdir", "verilated"),
)


@functools.cache
def verilator_version() -> str | None:
    """Version of the installed Verilator; None without one."""
    if shutil.which("verilator") is None:
        return None
    result = subprocess.run(["verilator", "--version"], capture_output=True, text=True)
    return result.stdout.strip() or None


def _run(command: list[str], directory: Path) -> str:
    try:
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ToolMissingError(
            "Verilator is not installed",
            notes=("looked for: verilator on PATH",),
            hint="install it, or use engine='cxxrtl'",
        ) from error
    if result.returncode:
        raise SimulationError(
            f"verilator failed with exit status {result.returncode}",
            notes=tuple(result.stderr.splitlines()[:8]),
            hint="use engine='cxxrtl'",
        )
    return result.stdout.strip() + result.stderr


def _decode(identifier: str) -> str:
    """Return the Verilog name that Verilator encoded in a C++ identifier."""
    return re.sub(r"__0([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), identifier)


def _configuration(elaboration: Elaboration) -> str:
    keep = [f'public_flat_rw -module "top" -var "*{"*".join(m.path)}"\n' for m in elaboration.memories]
    return "`verilator_config\n" + "".join(keep)


def _adapter(elaboration: Elaboration, directory: Path, *, wave: bool) -> str:
    header = (directory / "verilated" / "Vtop.h").read_text()
    ports = {_decode(name): name for name in re.findall(r"VL_(?:IN|OUT)\w*\(&(\w+),", header)}
    root = (directory / "verilated" / "Vtop___024root.h").read_text()
    arrays = re.findall(r"VlUnpacked<.*> (?:top__DOT__)(\w+);", root)
    memories = {_decode(name): name for name in arrays}
    fields = {
        index: f"top.{ports[name]}"
        for index, (name, info) in enumerate(elaboration.ports.items())
        if info.width
    }
    names = [".".join(memory.path) for memory in elaboration.memories]
    storages = {
        index: f"top.rootp->top__DOT__{memories[name]}"
        for index, name in enumerate(names)
        if name in memories
    }
    return '#include "Vtop.h"\n#include "Vtop___024root.h"\n' + adapter(
        "verilator", fields, storages, wave=wave
    )


def _build(
    elaboration: Elaboration,
    compiler: cxx.Compiler,
    wave: bool,
    progress: Callable[[str], None],
    directory: Path,
) -> Path:
    slow = " (its first start takes about a minute)" if yosys.first_start_is_slow() else ""
    progress(f"translating {elaboration.model.name} to Verilog with yosys{slow}")
    (directory / "design.il").write_text(elaboration.rtlil)
    yosys.run_yosys(SCRIPT.format(split=""), directory)
    progress(f"compiling {elaboration.model.name} with {verilator_version()} and {compiler.identity}")
    (directory / "design.vlt").write_text(_configuration(elaboration))
    trace = ["--trace", "--trace-structs"] if wave else []
    command = ["verilator", *OPTIONS, *trace, "design.vlt", "design.v"]
    if LOOP_WARNING in _run(command, directory):
        yosys.run_yosys(SCRIPT.format(split=SPLIT), directory)
        shutil.rmtree(directory / "verilated")
        _run(command, directory)
    include = Path(_run(["verilator", "--getenv", "VERILATOR_ROOT"], directory).strip()) / "include"
    (directory / "model.cc").write_text(_adapter(elaboration, directory, wave=wave))
    runtime = ["verilated.cpp", "verilated_threads.cpp"] + (["verilated_vcd_c.cpp"] if wave else [])
    sources = [str(path.relative_to(directory)) for path in sorted((directory / "verilated").glob("*.cpp"))]
    sources += [str(include / name) for name in runtime if (include / name).exists()]
    flags = [f"-I{include}", f"-I{include / 'vltstd'}", "-Iverilated", "-pthread", f"-DVM_TRACE={int(wave)}"]
    flags += ["-DVM_COVERAGE=0", "-DVM_SC=0"]
    cxx.compile_shared(compiler, ["model.cc", *sources], "model.so", directory=directory, flags=flags)
    return directory / "model.so"


def recipe(
    elaboration: Elaboration, progress: Callable[[str], None], *, wave: bool = False
) -> tuple[str, Callable[[Path], Path]]:
    """Return the cache key of a model, and the function that builds it in a directory."""
    compiler = cxx.find_compiler()
    key = library_key(
        "verilator", elaboration, compiler, wave, str(verilator_version()), SCRIPT + SPLIT, *OPTIONS
    )
    return key, partial(_build, elaboration, compiler, wave, progress)


open_verilator = CompiledEngine("verilator", recipe)
