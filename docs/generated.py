"""Pages that are made from the code: hooks with their descriptors, kinds of errors, passes, engines and parts."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tg2hdl_ir import errors, registry
from tg2hdl_ir.pipeline import rewrites
from tg2hdl_ir.plugins import hookspecs
from tg2hdl_ir.plugins.catalog import KINDS
from tg2hdl_ir.plugins.descriptors import PASS_STAGES
from tg2hdl_top import compile_program  # noqa: F401  enters the rewrites of programs
from tg2hdl_tpu import Config
from tg2hdl_tpu.page import isa_page

HERE = Path(__file__).parent / "reference"


def write_pages(app: Sphinx) -> None:
    """Write the generated pages before the sources are read."""
    pages = {"hooks": _hooks(), "errors": _errors(), "built-in": _built_in(), "instructions": _instructions()}
    for name, text in pages.items():
        page = HERE / f"{name}.md"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def _hooks() -> str:
    lines = [
        "# Hooks",
        "",
        "A plugin is a module named by an entry point of the group `tg2hdl`. Its functions marked with `hookimpl`",
        f"return descriptors. The version of the hooks is {hookspecs.HOOK_API}; how they change, and how a plugin says",
        "which version it was written for, is at the top of `tg2hdl_ir.plugins.hookspecs`.",
        "",
    ]
    for kind in KINDS.values():
        spec = getattr(hookspecs, kind.hook)
        lines += [f"## `{kind.hook}`", "", inspect.getdoc(spec) or "", ""]
        lines += [f"Returns a list of `{kind.descriptor.__name__}`:", ""]
        lines += [
            "```{eval-rst}",
            f".. autoclass:: {kind.descriptor.__module__}.{kind.descriptor.__name__}",
            "```",
            "",
        ]
    return "\n".join(lines)


def _errors() -> str:
    lines = [
        "# Errors",
        "",
        "Every refusal is a `Tg2hdlError`: a message and, where they help, a place (`at:`), facts (`note:`) and a way",
        "out (`hint:`). The command prints it and exits with 1; `--traceback` shows where it arose.",
        "",
        "| class | printed as | meaning |",
        "|---|---|---|",
    ]
    for name, cls in ((name, getattr(errors, name)) for name in errors.__all__):
        if not isinstance(cls, type):
            continue
        meaning = (inspect.getdoc(cls) or "").splitlines()[0]
        lines.append(f"| `{name}` | `{cls.kind}:` | {meaning} |")
    return "\n".join([*lines, ""])


def _built_in() -> str:
    plugins = registry()
    lines = ["# What is built in", "", "## Passes", "", "In the order in which they run.", ""]
    lines += ["| pass | stage | description | term | on | parameters |", "|---|---|---|---|---|---|"]
    for stage in PASS_STAGES:
        for entry in rewrites(stage):
            needs = ", ".join(f"`{name}`" for name in entry.needs)
            row = (f"`{entry.name}`", stage, entry.description, entry.term, entry.scope, needs)
            lines.append(f"| {' | '.join(row)} |")
    lines += ["", "| stage | rewrites |", "|---|---|"]
    lines += [f"| {stage} | {about} |" for stage, about in PASS_STAGES.items()]
    lines += ["", "`tg2hdl ir-opt --pass NAME` runs one on printed IR."]
    tables: tuple[tuple[str, Any], ...] = (
        ("Simulation engines", plugins.simulators()),
        ("FPGA parts", plugins.targets()),
        ("Kinds of memory", plugins.memory_kinds()),
        ("Quantization methods", plugins.quantizers()),
        ("Report sections", plugins.report_sections()),
    )
    for title, descriptors in tables:
        lines += ["", f"## {title}", "", "| name | description |", "|---|---|"]
        for d in descriptors:
            lines.append(f"| `{d.name}` | {getattr(d, 'description', '') or getattr(d, 'title', '')} |")
    lines += [
        "",
        "## Arithmetic units",
        "",
        "| unit | op | latency (cycles) | interval (cycles) |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{u.name}` | `{u.op}` | {u.latency} | {u.ii} |" for u in plugins.units()]
    return "\n".join([*lines, ""])


def _instructions() -> str:
    parts = dict.fromkeys(("float", "functions", "divide", "zero_points", "output_stationary"), True)
    return isa_page(Config(**parts))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
