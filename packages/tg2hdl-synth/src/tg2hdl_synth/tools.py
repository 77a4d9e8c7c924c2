"""Yosys and nextpnr from their wheels, each run in its own process."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tg2hdl_ir import ToolMissingError
from tg2hdl_ir.cache_folder import with_tool_cache
from tg2hdl_ir.limits import memory_shortage
from tg2hdl_synth.errors import SynthesisError

__all__ = ["Progress", "Tool", "run_tool", "tool_versions", "yosys_share", "yowasp"]

messages = logging.getLogger("tg2hdl_synth")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Tool:
    """A program in a wheel.

    Parameters
    ----------
    name : str
        As messages and Amaranth's scripts name it.
    distribution, module, function : str
        The wheel, and the function that runs the program.
    requirement : str
        For pip: the distribution that brings it, perhaps with an extra.
    arguments : str
        Python expression of the function's arguments.
    """

    name: str
    distribution: str
    module: str
    function: str
    requirement: str
    arguments: str = "sys.argv[1:]"

    def __str__(self) -> str:
        return self.name

    @property
    def installed(self) -> bool:
        """Whether its wheel is installed."""
        return importlib.util.find_spec(self.module.split(".")[0]) is not None

    @property
    def code(self) -> str:
        """Python program that runs it with the program's own arguments."""
        return f"import sys, {self.module}; sys.exit({self.module}.{self.function}({self.arguments}))"


def yowasp(name: str, wheel: str | None = None, requirement: str | None = None) -> Tool:
    """Describe a tool of YoWASP.

    Parameters
    ----------
    name : str
        As ``nextpnr-ecp5``.
    wheel : str, optional
        The tool that its wheel is named after, if it is another one.
    requirement : str, optional
        As of `Tool`; the wheel by default.
    """
    distribution = f"yowasp-{wheel or name}"
    function = f"run_{name.replace('-', '_')}"
    return Tool(name, distribution, distribution.replace("-", "_"), function, requirement or distribution)


def _located(tool: str | Tool) -> Tool:
    found = yowasp(tool, requirement="tg2hdl[synth]") if isinstance(tool, str) else tool
    if not found.installed:
        raise ToolMissingError(
            f"the Python package {found.distribution} is not installed",
            notes=(f"it brings {found.name}",),
            hint=f'pip install "{found.requirement}"',
        )
    return found


def tool_versions(*tools: str | Tool) -> dict[str, str]:
    """Versions of the wheels; a name is that of a tool that ``tg2hdl[synth]`` brings.

    Raises
    ------
    ToolMissingError
        When one is not installed.
    """
    found = [_located(tool) for tool in tools]
    return {tool.name: importlib.metadata.version(tool.distribution) for tool in found}


def yosys_share() -> Path:
    """Folder of yosys' cell libraries.

    Raises
    ------
    ToolMissingError
        When yosys is not installed.
    """
    origin = importlib.util.find_spec(_located("yosys").module).origin  # type: ignore[union-attr]
    return Path(str(origin)).parent / "share"


def run_tool(
    tool: str | Tool,
    arguments: Sequence[str],
    directory: Path,
    *,
    log: str,
    on_line: Callable[[str], None] | None = None,
) -> float:
    """Run a tool with a directory as the working directory; file names in it are relative.

    Parameters
    ----------
    tool : str or Tool
        As of `tool_versions`.
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
    found = _located(tool)
    messages.debug("%s", shlex.join([found.name, *arguments]))
    started = time.monotonic()
    with (directory / log).open("w", buffering=1) as file:
        process = subprocess.Popen(
            [sys.executable, "-c", found.code, *arguments],
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
        limit = memory_shortage("\n".join(lines))
        if limit is not None:
            raise SynthesisError(
                f"not enough memory for {found.name}",
                notes=(limit,),
                hint="WebAssembly reserves some 10 GB: ulimit -v unlimited",
            )
        raise SynthesisError(
            f"{found.name} failed with exit status {process.returncode}",
            notes=tuple(errors[:8]),
            hint=f"see {directory / log}",
        )
    return time.monotonic() - started
