"""Hardware plans of device kernels, kept on disk by content."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tg2hdl_backend.kernel_simulation import plan_of_kernel, program_of_kernel
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.records import read_record, write_record
from tg2hdl_lower import HardwarePlan
from tg2hdl_top import CompiledProgram, CompileOptions, TopModule

__all__ = ["cached_plan", "compile_kernel_program"]


def cached_plan(kernel: KernelIR, options: CompileOptions, store: ContentCache | None = None) -> HardwarePlan:
    """Plan of a kernel, from the cache when it was planned before with the same options, packages and plugins."""
    store = store or ContentCache("plans")
    key = content_key("plan", kernel.format(), repr(options), _installed())
    plan = _read(store.read(key))
    if plan is None:
        plan = plan_of_kernel(kernel, options)
        store.write(key, write_record(plan).encode())
    return plan


def compile_kernel_program(
    kernel: KernelIR, options: CompileOptions, store: ContentCache | None = None
) -> CompiledProgram:
    """Design of one kernel, all of whose buffers the host writes and reads; its plan comes from the cache."""
    plan = cached_plan(kernel, options, store)
    program = program_of_kernel(kernel)
    slots = {n: (0, b.idx) for n, b in enumerate(kernel.buffers)}
    top = TopModule(
        [plan],
        outputs=[slots[n] for n in program.outputs],
        external=list(slots.values()),
        names={slot: f"b{slot[1]}" for slot in slots.values()},
    )
    return CompiledProgram(program, options, (plan,), top, slots, tuple(c.kernel for c in program.calls))


def _read(blob: bytes | None) -> HardwarePlan | None:
    if blob is None:
        return None
    try:
        plan = read_record(blob)
    except InputError:
        return None
    return plan if isinstance(plan, HardwarePlan) else None


@cache
def _installed() -> str:
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
