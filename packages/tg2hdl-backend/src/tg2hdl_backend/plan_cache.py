"""Designs of device kernels, kept on disk by content."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tg2hdl_ir import InputError, KernelIR
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_ir.records import read_record
from tg2hdl_top import CompileOptions, Design, compile_program, program_of_kernel

__all__ = ["cached_design", "installed"]


def cached_design(kernel: KernelIR, options: CompileOptions, store: ContentCache | None = None) -> Design:
    """Design of one kernel, all of whose buffers the host writes.

    It comes from the cache when it was compiled before with the same options, packages and plugins.

    Parameters
    ----------
    kernel : KernelIR
    options : CompileOptions
    store : ContentCache, optional
        Cache; the user's unless given.
    """
    store = store or ContentCache("plans")
    key = content_key("design", kernel.format(), repr(options), installed())
    design = _read(store.read(key))
    if design is None:
        design = compile_program(program_of_kernel(kernel), options)
        store.write(key, design.to_json().encode())
    return design


def _read(blob: bytes | None) -> Design | None:
    if blob is None:
        return None
    try:
        design = read_record(blob)  # Nobody else writes to the cache, so that plans need no check.
    except InputError:
        return None
    return design if isinstance(design, Design) else None


@cache
def installed() -> str:
    """Every file of the packages and plugins that a plan depends on, with size and time."""
    names = {"tg2hdl_ir", "tg2hdl_lower", "tg2hdl_top"}
    names |= {entry.module.split(".")[0] for entry in metadata.entry_points(group="tg2hdl")}
    lines = []
    for name in sorted(names):
        spec = find_spec(name)
        folders = list(spec.submodule_search_locations or []) if spec else []
        files = [f for folder in folders for f in Path(folder).rglob("*.py")]
        if spec is not None and spec.origin and not folders:
            files = [Path(spec.origin)]
        for file in sorted(files):
            status = file.stat()
            lines.append(f"{name}/{file.name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines)
