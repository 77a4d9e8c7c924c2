"""The C++ compiler: the system's or the one of PyPI's ``ziglang``."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tg2hdl_ir import SimulationError, ToolMissingError
from tg2hdl_ir.cache_folder import tool_cache, with_tool_cache

__all__ = ["Compiler", "compile_shared", "find_compiler", "native_target", "shared_command", "zig_is_cold"]

log = logging.getLogger("tg2hdl_sim")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w", "-DNDEBUG", "-DCXXRTL_NDEBUG")
SYSTEM_COMPILERS = ("g++", "clang++", "c++")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command line and a text that changes with its version and target."""

    command: tuple[str, ...]
    identity: str

    @property
    def is_zig(self) -> bool:
        """Whether this is ziglang's compiler."""
        return "ziglang" in self.command


def _identity(command: Sequence[str], option: str) -> str | None:
    try:
        result = subprocess.run([*command, option], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if result.returncode:
        return None
    version = (result.stdout.splitlines() or ["unknown"])[0]
    return f"{version} {sys.platform} {platform.machine()}"


@functools.cache
def _find(cxx: str | None, path: str | None) -> Compiler | None:
    candidates = [shlex.split(cxx)] if cxx else [[name] for name in SYSTEM_COMPILERS]
    for command in candidates:
        if shutil.which(command[0], path=path):
            identity = _identity(command, "--version")
            if identity:
                return Compiler(tuple(command), identity)
    if not cxx and importlib.util.find_spec("ziglang"):
        command = [sys.executable, "-m", "ziglang"]
        identity = _identity(command, "version")
        if identity:
            return Compiler((*command, "c++"), f"zig {identity}")
    return None


def find_compiler() -> Compiler:
    """Return the compiler to use: ``CXX`` when set, else g++, clang++, c++, else ziglang's.

    Raises
    ------
    ToolMissingError
        When there is none.
    """
    cxx = os.environ.get("CXX") or None
    compiler = _find(cxx, os.environ.get("PATH"))
    if compiler is None:
        looked = f"CXX={cxx}" if cxx else ", ".join(SYSTEM_COMPILERS) + ", the Python package ziglang"
        raise ToolMissingError(
            "no C++ compiler that works",
            notes=(f"looked for: {looked}",),
            hint="unset CXX or make it a working compiler"
            if cxx
            else "pip install \"tg2hdl[sim]\", install g++ or clang++, or use engine='amaranth'",
        )
    return compiler


def zig_is_cold() -> bool:
    """Whether zig has to build its C++ library first, which takes half a minute."""
    return not (tool_cache("ZIG_GLOBAL_CACHE_DIR") / "o").is_dir()


def compiler_environment() -> dict[str, str]:
    """Environment for a compiler: zig needs a cache that it can write."""
    return with_tool_cache("ZIG_GLOBAL_CACHE_DIR") if find_compiler().is_zig else dict(os.environ)


@functools.cache
def native_target(compiler: Compiler) -> str:
    """Return a text that changes with the meaning of ``-march=native`` on this machine."""
    command = [*compiler.command, "-march=native", "-dM", "-E", "-x", "c", "-"]
    try:
        result = subprocess.run(command, input="", capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return platform.processor()
    return result.stdout if result.returncode == 0 else platform.processor()


def shared_command(
    compiler: Compiler,
    sources: Sequence[str],
    output: str,
    *,
    flags: Sequence[str] = (),
    base: Sequence[str] = FLAGS,
) -> list[str]:
    """Return the command line that compiles sources to a shared library.

    Parameters
    ----------
    compiler : Compiler
    sources : sequence of str
        Names of files in the folder where the compiler runs.
    output : str
        Name of the library in the same folder.
    flags : sequence of str, optional
        After `base`.
    base : sequence of str, optional
        Language, optimization and target.
    """
    command, extra = list(compiler.command), list[str]()
    if compiler.is_zig:
        extra = ["-fno-sanitize=undefined"]
        base = [
            flag for flag in base if not flag.startswith("-mtune")
        ]  # it takes a processor's name for both
        if "-std=gnu11" in base:
            # As `c++` it builds its C++ library first, which takes minutes.
            command = ["cc" if part == "c++" else part for part in command]
    return [*command, *base, *extra, *flags, *sources, "-o", output]


def compile_shared(
    compiler: Compiler,
    sources: Sequence[str],
    output: str,
    *,
    directory: Path,
    flags: Sequence[str] = (),
    base: Sequence[str] = FLAGS,
) -> None:
    """Compile sources in a directory to a shared library.

    Parameters
    ----------
    compiler : Compiler
    sources : sequence of str
        Names of files in the folder where the compiler runs.
    output : str
        Name of the library in the same folder.
    directory : Path
        Where the compiler runs.
    flags : sequence of str, optional
        After `base`.
    base : sequence of str, optional
        Language, optimization and target.

    Raises
    ------
    SimulationError
        With the compiler's first messages when it fails.
    """
    command = shared_command(compiler, sources, output, flags=flags, base=base)
    environment = with_tool_cache("ZIG_GLOBAL_CACHE_DIR") if compiler.is_zig else None
    log.debug("%s", shlex.join(map(str, command)))
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment)
    if result.returncode:
        raise SimulationError(
            f"the C++ compiler failed with exit status {result.returncode}",
            where=shlex.join(compiler.command),
            notes=tuple(result.stderr.splitlines()[:8]),
            hint="use another compiler (CXX=...) or engine='amaranth'",
        )
