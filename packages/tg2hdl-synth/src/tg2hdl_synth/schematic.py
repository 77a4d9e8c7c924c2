"""Schematics: drawn by Graphviz where it is installed, else a plain SVG by this package."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tg2hdl_ir import InputError
from tg2hdl_ir.files import write_file
from tg2hdl_synth.drawing import draw_module
from tg2hdl_synth.rtlil import read_rtlil, top_name
from tg2hdl_synth.tools import run_tool

__all__ = ["show_hardware"]

log = logging.getLogger("tg2hdl_synth")

_STAGES = {
    "rtl": "hierarchy -top top; proc",
    "opt": "hierarchy -top top; proc; opt -full; wreduce; opt_clean",
    "generic": "hierarchy -top top; proc; opt; memory -nomap; opt; techmap; opt",
    "mapped": "synth_ecp5 -top top",
}
_FORMATS = ("svg", "pdf", "png")


def show_hardware(
    kernel: Any, out_dir: str | Path, *, stage: str = "opt", fmt: str = "svg", module: str | None = None
) -> Path | None:
    """Draw a kernel.

    Parameters
    ----------
    kernel : Component
        A CompiledKernel, or any Amaranth Component.
    out_dir : path
        Gets ``MODULE.dot`` and the picture.
    stage : {"rtl", "opt", "generic", "mapped"}
        As written; optimized word by word; gates; cells of an ECP5.
    fmt : {"svg", "pdf", "png"}
        Without Graphviz (the program dot) only ``svg`` can be made, in a plain layout.
    module : str, optional
        A module of the design, such as ``top.core``; the one with the datapath by default.

    Returns
    -------
    Path or None
        The picture; None when only the ``.dot`` could be written, which a warning in the log explains.

    Raises
    ------
    InputError
        For an unknown stage, format or module.
    """
    if stage not in _STAGES:
        raise InputError(f"stage {stage!r} is unknown", hint=f"choose one of: {', '.join(_STAGES)}")
    if fmt not in _FORMATS:
        raise InputError(f"format {fmt!r} is unknown", hint=f"choose one of: {', '.join(_FORMATS)}")
    from amaranth.back import rtlil

    text = rtlil.convert(kernel, name="top", emit_src=False)
    modules = read_rtlil(text)
    chosen = module or next((m for m in ("top.core", "top.kernel0") if m in modules), top_name(modules))
    if chosen not in modules:
        raise InputError(
            f"module {chosen!r} is not in the design", hint=f"choose one of: {', '.join(modules)}"
        )
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.il").write_text(text)
    steps = _STAGES[stage]
    show = f"show -format dot -prefix {chosen} {chosen}"
    keep = "" if chosen == "top" else f"setattr -mod -set keep_hierarchy 1 {chosen}\n"
    script = f"read_rtlil design.il\n{keep}{steps}\n{show}\nwrite_json drawn.json\n"
    (folder / "show.ys").write_text(script)
    run_tool("yosys", ["-s", "show.ys"], folder, log="show.log")
    return _render(folder, chosen, fmt)


def _render(folder: Path, module: str, fmt: str) -> Path | None:
    dot, picture = folder / f"{module}.dot", folder / f"{module}.{fmt}"
    if shutil.which("dot"):
        command = ["dot", f"-T{fmt}", str(dot), "-o", str(picture)]
        if not subprocess.run(command, capture_output=True).returncode:
            return picture
    if fmt == "svg":
        modules = json.loads((folder / "drawn.json").read_text())["modules"]
        write_file(picture, draw_module(modules[module]))
        return picture
    log.warning("only %s was written: a %s needs Graphviz (the program dot)", dot, fmt)
    return None
