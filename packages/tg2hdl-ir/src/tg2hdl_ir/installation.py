"""What results depend on beyond their inputs: sources of the packages and plugins, and versions of the tools."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill

__all__ = ["compiler_key", "compiler_versions", "installation", "print_package"]

_LIBRARIES = ("numpy", "amaranth", "tinygrad")
_TOOLS = "yowasp-"


@cache
def compiler_key() -> str:
    """Key of the sources of the packages and plugins that plans and estimates depend on; the same on every machine."""
    names = {"tg2hdl_ir", "tg2hdl_lower", "tg2hdl_top", "tg2hdl_synth"}
    names |= {entry.module.split(".")[0] for entry in metadata.entry_points(group="tg2hdl")}
    digest = hashlib.sha256()
    for name in sorted(names):
        spec = find_spec(name)
        folders = [Path(f) for f in (spec.submodule_search_locations or [])] if spec else []
        files = {f"{name}/{f.relative_to(d).as_posix()}": f for d in folders for f in d.rglob("*.py")}
        if spec is not None and spec.origin and not folders:
            files = {name: Path(spec.origin)}
        for place, file in sorted(files.items()):
            digest.update(place.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:40]


def compiler_versions() -> dict[str, str]:
    """Versions of the packages that register plugins, by name."""
    names = {e.dist.name for e in metadata.entry_points(group="tg2hdl") if e.dist is not None}
    return {name: metadata.version(name) for name in sorted(names)}


@cache
def installation() -> dict[str, str]:
    """Versions of Python, libraries and tools by name, and the key of our sources: equal ones give equal results."""
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "sources": compiler_key()}
    for distribution in metadata.distributions():
        name = (distribution.name or "").lower().replace("_", "-")
        if name in _LIBRARIES or name.startswith(_TOOLS):
            found[name] = distribution.version
    return dict(sorted(found.items()))


def print_package(package: str) -> None:
    """Print what ``python -m`` of a package without a command of its own shows: version, purpose, public names.

    Parameters
    ----------
    package : str
        Import name, such as ``tg2hdl_sim``.
    """
    about = metadata.metadata(package.replace("_", "-"))
    print(f"{about['Name']} {about['Version']}: {about['Summary']}")
    names = [name for name in import_module(package).__all__ if not name.startswith("_")]
    print(fill(f"Public names: {', '.join(names)}", 79, subsequent_indent="  "))
    print("Commands: python -m tg2hdl --help, with the package tg2hdl")
