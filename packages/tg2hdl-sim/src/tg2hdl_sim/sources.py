"""The C and C++ sources of this package."""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files

__all__ = ["generator_digest", "source", "sources_digest"]

NAMES = (
    "cxxrtl_model.h",
    "cxxrtl_runtime.h",
    "harness.h",
    "levelized.h",
    "levelized_interface.h",
    "model.h",
    "verilator_model.h",
)


@functools.cache
def source(name: str) -> str:
    """Return the text of a source file."""
    return files("tg2hdl_sim").joinpath("cpp", name).read_text()


@functools.cache
def sources_digest() -> str:
    """Checksum of all source files."""
    return hashlib.sha256("".join(map(source, NAMES)).encode()).hexdigest()


@functools.cache
def generator_digest() -> str:
    """Checksum of the code that generates the models of the levelized engine."""
    folder = files("tg2hdl_sim").joinpath("levelized")
    found = sorted((item.name, item.read_text()) for item in folder.iterdir() if item.name.endswith(".py"))
    return hashlib.sha256(repr(found).encode()).hexdigest()
