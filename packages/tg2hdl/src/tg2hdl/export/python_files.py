"""Parts of modules in Python that systems are given."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["class_name", "listed", "sources"]


def class_name(name: str) -> str:
    """Name of the class of an export: ``my_net`` is ``MyNet``."""
    return "".join(part.capitalize() for part in name.split("_"))


def listed(rows: Iterable[tuple[str, int, int]]) -> str:
    """Lines of a tuple of names, addresses and sizes."""
    return "\n".join(f'    ("{name}", 0x{address:04X}, {size}),' for name, address, size in rows)


def sources(paths: Iterable[str]) -> str:
    """The constant SOURCES: paths in the folder of the module."""
    rows = "".join([f'    Path(__file__).resolve().parent / "{path}",\n' for path in paths])
    return f"SOURCES = (\n{rows})\n"
