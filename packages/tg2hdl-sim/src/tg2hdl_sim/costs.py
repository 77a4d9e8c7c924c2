"""Where the engines can run, and the cost model that ``engine="auto"`` uses.

Only the ratio of the times matters.  ``cells`` counts the cells of Amaranth's netlist.  The constants are
fitted to the tables that ``benchmarks/sim/run.py`` and ``benchmarks/sim/designs.py`` write.
"""

from __future__ import annotations

from tg2hdl_ir import ToolMissingError
from tg2hdl_sim import compiler, yosys

__all__ = [
    "amaranth_available",
    "amaranth_build_seconds",
    "amaranth_speed",
    "cxxrtl_available",
    "cxxrtl_build_seconds",
    "cxxrtl_speed",
    "levelized_available",
    "levelized_build_seconds",
    "levelized_speed",
    "verilator_available",
    "verilator_build_seconds",
    "verilator_speed",
]


def cxxrtl_available() -> str | None:
    """Return None when CXXRTL can run, else the reason why not."""
    try:
        yosys.yosys_version()
        compiler.find_compiler()
    except ToolMissingError as error:
        return f"{error.message}; {error.hint}"
    return None


def cxxrtl_build_seconds(cells: int) -> float:
    """Seconds to translate and compile, including the first start of the tools."""
    zig = compiler.find_compiler().is_zig
    first = 60.0 * yosys.first_start_is_slow() + 30.0 * (zig and compiler.zig_is_cold())
    return first + 4.0 + 0.005 * cells


def cxxrtl_speed(cells: int) -> float:
    """Cycles per second."""
    return 1e9 / (5 + 0.4 * cells)


def levelized_available() -> str | None:
    """Return None when the levelized engine can run, else the reason why not."""
    try:
        compiler.find_compiler()
    except ToolMissingError as error:
        return f"{error.message}; {error.hint}"
    return None


def levelized_build_seconds(cells: int) -> float:
    """Seconds to translate and compile without optimization."""
    zig = compiler.find_compiler().is_zig
    # Equal units are elaborated and translated once: large designs have many.
    return float(0.3 + 0.015 * cells**0.5 + (8.0 if zig and compiler.zig_is_cold() else 0.5 * zig))


def levelized_speed(cells: int) -> float:
    """Cycles per second."""
    return float(1e9 / (4 + 0.25 * cells**0.75))  # more cells, more lanes to share a loop


def verilator_available() -> str | None:
    """Return None when Verilator can run, else the reason why not."""
    from tg2hdl_sim.verilator import verilator_version

    if verilator_version() is None:
        return "Verilator is not installed; install it, or use engine='cxxrtl'"
    return cxxrtl_available()


def verilator_build_seconds(cells: int) -> float:
    """Seconds to translate and compile."""
    return 8.0 + cxxrtl_build_seconds(cells)


def verilator_speed(cells: int) -> float:
    """Cycles per second."""
    return 1e9 / (40 + 0.5 * cells)


def amaranth_available() -> None:
    """Amaranth's simulator can always run."""


def amaranth_build_seconds(cells: int) -> float:
    """Seconds to compile to Python."""
    return 0.02 + 0.0001 * cells


def amaranth_speed(cells: int) -> float:
    """Cycles per second."""
    return 1e6 / (60 + 0.7 * cells)
